package walk

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	l, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(l)
}

// descriptorsOf walks and returns the most descriptors that it had open.
func descriptorsOf(t *testing.T, root string, limit, workers int, v *recorder) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("open descriptors are counted in /proc")
	}
	before := openFiles(t)
	var most atomic.Int64
	look := func() {
		if l, err := os.ReadDir("/proc/self/fd"); err == nil {
			n := int64(len(l))
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
		}
	}
	v.onEnter = func(*Dir) bool { look(); return true }
	v.onEntry = func(*Dir, string) { look() }
	walkTree(context.Background(), t, root, limit, v, Options{Workers: workers})
	require.Equal(t, before, openFiles(t), "descriptors after the walk")
	return int(most.Load()) - before
}

func TestDescriptorsOfADeepTree(t *testing.T) {
	defer goleak.VerifyNone(t)
	const depth, limit, workers = 3000, 8, 2
	root := tree(t)
	d, err := fsys.OpenRoot(root)
	require.NoError(t, err)
	for i := range depth { // by name: the path is longer than PATH_MAX
		p, err := d.Create(true)
		require.NoError(t, err)
		require.NoError(t, p.Commit(fmt.Sprintf("file-%d", i)))
		require.NoError(t, d.Mkdir("directory"))
		sub, err := d.OpenDir("directory")
		require.NoError(t, err)
		d.Close()
		d = sub
	}
	d.Close()
	v := newRecorder()
	most := descriptorsOf(t, root, limit, workers, v)
	require.Len(t, v.paths("entry"), depth)
	require.Len(t, v.paths("leave"), depth+1)
	require.Empty(t, v.failed)
	// Besides those kept: the root, a parent and a child in each worker's hands, and
	// the directory of /proc that each reads.
	require.LessOrEqual(t, most, limit+1+3*workers)
}

func TestDescriptorsOfAWideTree(t *testing.T) {
	defer goleak.VerifyNone(t)
	const limit, workers = 6, 4
	var paths []string
	for i := range 900 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f", i%30, i))
	}
	root := tree(t, paths...)
	v := newRecorder()
	most := descriptorsOf(t, root, limit, workers, v)
	require.Len(t, v.paths("entry"), 900)
	require.LessOrEqual(t, most, limit+1+3*workers)
	requireOrderly(t, v)
}
