package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// fewEntries is the limit of dest.SyncList.
const fewEntries = 16

// A run over few files does not flush the whole file system: that would wait for the data
// of other programs. More files, and what cannot be synced separately, need that flush.
func TestFewFilesAreSyncedSeparately(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows flushes no file system at once")
	}
	files := func(n int) treetest.Dir {
		d := treetest.Dir{}
		for i := range n {
			d[fmt.Sprint(i)] = treetest.File(fmt.Sprint(i))
		}
		return d
	}
	with := func(d treetest.Dir, name string, node treetest.Node) treetest.Dir {
		d[name] = node
		return d
	}
	pair := treetest.Linked("pair")
	for name, c := range map[string]struct {
		tree       treetest.Dir
		new, again bool // the run flushes the file system
	}{
		"few":            {files(6), false, false},
		"in directories": {treetest.Dir{"d": treetest.Dir{"e": files(3)}}, false, false},
		"the most":       {files(fewEntries - 1), false, false}, // and the root
		"one more":       {files(fewEntries), true, true},
		"a link":         {with(files(2), "link", treetest.Symlink("0")), true, true},
		"a further name": {with(with(files(2), "x", treetest.File("x", pair)), "y", treetest.File("x", pair)), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := treetest.MemoryDir(t)
			src, base := filepath.Join(dir, "src"), filepath.Join(dir, "disk")
			treetest.Create(t, src, c.tree)
			require.NoError(t, os.Mkdir(base, 0o700))
			disk, err := faultfs.NewDisk(base, true)
			require.NoError(t, err)
			var flushes atomic.Int64
			count := func(call fsys.Call) error {
				if call.Op == fsys.OpSyncFS {
					flushes.Add(1)
				}
				return nil
			}
			o := options(src, filepath.Join(base, "dst"))
			o.Sync = dest.SyncEnd
			for i, want := range []bool{c.new, c.again} {
				flushes.Store(0)
				o.FS = &fsys.FS{Disk: disk, Fault: count}
				s, err := Run(t.Context(), &o, &counters.Set{})
				require.NoError(t, clean(s, err))
				require.Equal(t, want, flushes.Load() > 0, "run %d", i+1)
			}
		})
	}
}
