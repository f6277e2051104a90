//go:build unix

package compare_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestAFileThatChangesWhileItIsReadIsNoDifference(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 900_000} {
		for tree := range 2 {
			content := string(treetest.Pattern(size, 1))
			paths := trees(t, file{"f": treetest.File(content), "g": treetest.File("x")}, file{"f": treetest.File(content), "g": treetest.File("y")})
			var once sync.Once
			changed := fs.ErrNotExist
			sys := &fsys.FS{Fault: func(call fsys.Call) error {
				if call.Op == fsys.OpRead && filepath.Base(call.Path) == "f" {
					once.Do(func() { changed = overwriteEnd(filepath.Join(paths[tree], "f"), size) })
				}
				return nil
			}}
			lines, s := run(t, compare.Options{Trees: paths, Workers: 1, FS: sys})
			require.NoError(t, changed)
			require.Equal(t, []string{
				fmt.Sprintf("unreadable %s f: check: it changed while it was read", compare.Letter(tree)),
				"differs B g: content in B differs from byte 1 of 1",
			}, lines)
			require.Equal(t, int64(1), s.Unreadable)
		}
	}
}

// overwriteEnd changes the last bytes of a file.
func overwriteEnd(path string, size int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("zzz"), int64(size-3))
	return errors.Join(err, f.Close())
}

// Each operation fails once. Each failure is reported, compare does not hang, and it
// reports no false difference.
func TestEachOperationFailsOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	big := string(treetest.Pattern(700_000, 3))
	at := treetest.Mtime(time.Unix(1_700_000_000, 123_456_789))
	literal := file{
		"a": treetest.File("a", at), "big": treetest.File(big, at), "l": treetest.Symlink("x", at),
		"d": treetest.Directory(file{"e": treetest.Directory(file{"f": treetest.File("f", at)}, at)}, at),
	}
	paths := trees(t, literal, literal)
	for _, cache := range []pipe.CacheMode{pipe.CacheKeep, pipe.CacheDrop} {
		for n := int64(0); ; n++ {
			failed := false
			var open faultfs.OpenFiles
			sys := &fsys.FS{Tracker: &open, Fault: faultfs.OnIndex(n, func(call fsys.Call) error {
				failed = true
				return fmt.Errorf("%s: %w", call.Op, fs.ErrInvalid)
			})}
			var lines []string
			o := &compare.Options{Trees: paths, Metadata: true, Cache: cache, FS: sys, Report: func(e compare.Event) { lines = append(lines, text(e)) }}
			s, err := compare.Run(t.Context(), o, &counters.Set{})
			require.Empty(t, open.Left())
			if !failed {
				require.Empty(t, lines)
				require.Greater(t, n, int64(40))
				break
			}
			if err != nil {
				require.ErrorContains(t, err, "invalid argument")
				continue
			}
			for _, line := range lines {
				require.Contains(t, line, "unreadable ", "operation %d", n)
			}
			require.Zero(t, s.Differences(), lines)
		}
	}
}

func TestAStopEndsEverything(t *testing.T) {
	defer goleak.VerifyNone(t)
	a := treetest.Dir{"big": treetest.File(string(treetest.Pattern(5<<20, 1)))}
	for i := range 300 {
		a["f"+strconv.Itoa(i)] = treetest.File("x")
	}
	paths := trees(t, a, a)
	for n := int64(0); n < 1500; n += 83 {
		ctx, cancel := context.WithCancel(t.Context())
		var open faultfs.OpenFiles
		sys := &fsys.FS{Tracker: &open, Fault: faultfs.OnIndex(n, func(fsys.Call) error {
			cancel()
			return nil
		})}
		s, err := compare.Run(ctx, &compare.Options{Trees: paths, FS: sys}, &counters.Set{})
		cancel()
		require.Empty(t, open.Left())
		require.ErrorIs(t, err, context.Canceled)
		require.NotNil(t, s)
		require.Zero(t, s.Differences())
	}
}

// During the comparison of one long file, more entries finish than there is space for.
func TestMoreEntriesThanThereArePlacesWait(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 40,000 files")
	}
	t.Parallel()
	a, b := treetest.Dir{"0": treetest.File("slow")}, treetest.Dir{"0": treetest.File("Slow")}
	for i := range 20_000 {
		a["f"+strconv.Itoa(i)], b["f"+strconv.Itoa(i)] = treetest.File(""), treetest.File("")
	}
	b["z"] = treetest.File("")
	paths := trees(t, a, b)
	slow := faultfs.When(func(call fsys.Call) bool { return call.Op == fsys.OpRead && filepath.Base(call.Path) == "0" }, func(fsys.Call) error { time.Sleep(time.Second); return nil })
	lines, s := run(t, compare.Options{Trees: paths, FS: &fsys.FS{Fault: slow}})
	require.Equal(t, []string{"differs B 0: content in B differs from byte 1 of 4", "only in B z"}, lines)
	require.Equal(t, int64(20_001), s.Files)
}
