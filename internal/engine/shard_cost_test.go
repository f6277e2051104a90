package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Many tasks meet in the root of a destination, and servers serve one change of a directory after
// the other. So a task changes the root only to make directories in it, and syncs it once. In the
// plan, it syncs each file and directory that a finish record depends on only once.
func TestATaskDoesLittleInWhatAllTasksShare(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "elsewhere a task also probes how the file system keeps times")
	base := treetest.MemoryDir(t)
	src, shared := filepath.Join(base, "src"), filepath.Join(base, "shared")
	dst := filepath.Join(shared, "dst")
	write(t, src, "a/1", []byte("1"), longAgo)
	write(t, src, "b/2", []byte("2"), longAgo)
	require.NoError(t, os.Mkdir(shared, 0o755))
	c := planCopyIn(t, filepath.Join(shared, "plan"), sweepOptions(src, []string{dst}, dest.SyncEnd), 1, nil)
	disk, err := faultfs.NewDisk(shared, false) // as on a network file system
	require.NoError(t, err)
	var mu sync.Mutex
	var inRoot []string // the changes
	syncs := map[string]int{}
	begun := time.Now()
	out := c.run(context.Background(), &fsys.FS{Disk: disk, Fault: func(call fsys.Call) error {
		mu.Lock()
		defer mu.Unlock()
		path, err := filepath.Rel(shared, call.Path)
		require.NoError(t, err)
		switch call.Op {
		case fsys.OpSync:
			if name := filepath.Base(path); strings.HasPrefix(name, fsys.Reserved) || strings.HasPrefix(name, "(") {
				path = filepath.Join(filepath.Dir(path), "new file")
			}
			syncs[path]++
		case fsys.OpCreate, fsys.OpLink, fsys.OpRename, fsys.OpRemove, fsys.OpMkdir, fsys.OpChmod, fsys.OpTimes:
			if path == "dst" || call.Name != "" && filepath.Dir(path) == "dst" {
				inRoot = append(inRoot, string(call.Op)+" "+call.Name)
			}
		}
		return nil
	}}, 0)
	require.NoError(t, out.err)
	assert.ElementsMatch(t, []string{"mkdir a", "mkdir b"}, inRoot)
	attempts := filepath.Join("plan", "work", "00000")
	attempt := filepath.Join(attempts, "000001")
	checkpoints := syncs[attempt] - 2 // a slow machine makes some, at most four in a second
	assert.True(t, checkpoints >= 0 && checkpoints <= int(time.Since(begun)/(250*time.Millisecond)))
	assert.Equal(t, map[string]int{
		"dst": 1, "dst/a": 1, "dst/a/new file": 1, "dst/b": 1, "dst/b/new file": 1,
		attempts:                           2,               // with the attempt, and with the finish record
		attempt:                            2 + checkpoints, // with the log, before anything is copied, and with the candidate and the part
		filepath.Join(attempt, "new file"): 3 + checkpoints, // the log, the part, the candidate
	}, syncs)
}
