package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A path that a symbolic link replaces is not followed.
func TestAPathExchangedForALink(t *testing.T) {
	t.Parallel()
	root, _ := sized(t, treetest.Dir{"path": treetest.Dir{"in": sizedFile(5)}, "outside": treetest.Dir{"f": sizedFile(1 << 20)}})
	path := root + "/path"
	var swap sync.Once
	sys := faultfs.New(func(op fsys.Op, name string) (err error) {
		if op == fsys.OpOpenDir && name == path {
			swap.Do(func() {
				err = errors.Join(os.RemoveAll(path), os.Symlink("outside", path))
			})
		}
		return err
	})
	got, err := run1(t.Context(), Options{FS: sys, Paths: []string{path}, MaxDepth: -1, Files: true, Apparent: true})
	require.NoError(t, err)
	require.Len(t, got.Entries, 1)
	require.Less(t, got.Total.Size, uint64(1<<20))
	require.Equal(t, []string{path}, got.Failed)
}

// An entry that vanishes during the run is reported, and the rest counts.
func TestThingsThatVanish(t *testing.T) {
	t.Parallel()
	for _, workers := range numbersOfWorkers {
		root, own := faulty(t)
		for _, gone := range []string{"fd1", "ed2", "d3", "d0"} {
			var path string
			for p := range own {
				if filepath.Base(p) == gone {
					path = p
				}
			}
			hook := func(_ fsys.Op, name string) error {
				if name == gone {
					return os.RemoveAll(path)
				}
				return nil
			}
			sys := faultfs.New(hook)
			got, err := run1(t.Context(), Options{FS: sys, Paths: []string{root}, MaxDepth: -1, Files: true, Apparent: true, Workers: workers})
			require.NoError(t, err)
			require.Equal(t, []string{path}, got.Failed)
			listed := got.has(path)
			require.False(t, listed)
			again := take(t, Options{Paths: []string{root}, MaxDepth: -1, Files: true, Apparent: true})
			require.Empty(t, again.Failed)
			own = map[string]uint64{}
			for _, e := range again.Entries {
				own[e.Path] = e.Size
			}
		}
	}
}

// faulty is a tree in which every name occurs once, and the sizes of all in it.
func faulty(t *testing.T) (root string, own map[string]uint64) {
	t.Helper()
	tree := treetest.Dir{"f0": sizedFile(1), "f1": sizedFile(2), "d0": treetest.Dir{}}
	n := 2
	for _, d := range []string{"d1", "d2", "d3"} {
		sub := treetest.Dir{}
		for range 3 {
			sub[fmt.Sprint("f", n)] = sizedFile(1 << n)
			n++
		}
		tree[d] = treetest.Dir{"e" + d: sub, "f" + d: sizedFile(1 << n)}
		n++
	}
	root, dir := sized(t, tree)
	own = map[string]uint64{}
	for _, e := range take(t, Options{Paths: []string{root}, MaxDepth: -1, Files: true, Apparent: true}).Entries {
		own[e.Path] = e.Size
	}
	for rel, n := range dir {
		own[strings.TrimSuffix(root+"/"+rel, "/.")] = n
	}
	return root, own
}

// Each look that fails is reported once, and everything else counts: of a directory
// that cannot be read its own size.
func TestFaults(t *testing.T) {
	root, own := faulty(t)
	byName := map[string]string{"": "?", root: root}
	for p := range own {
		byName[filepath.Base(p)] = p
	}
	for _, depth := range []int{-1, 0, 1} {
		for _, workers := range numbersOfWorkers {
			ops := operations(t, root)
			for nth := int64(1); nth <= ops; nth++ {
				var count atomic.Int64
				var what fsys.Op
				var path string
				hook := func(op fsys.Op, name string) error {
					if count.Add(1) == nth {
						what, path = op, byName[name]
						return syscall.EIO
					}
					return nil
				}
				sys := faultfs.New(hook)
				before := openFiles(t)
				got, err := run1(t.Context(), Options{FS: sys, Paths: []string{root}, MaxDepth: depth, Files: true, Apparent: true, Workers: workers})
				require.NoError(t, err)
				require.Equal(t, before, openFiles(t), "descriptors")
				ops = max(ops, count.Load())
				if nth > count.Load() {
					continue // one that is not always needed
				}
				context := fmt.Sprintf("%s of %q, the %d. of %d", what, path, nth, ops)
				require.Len(t, got.Failed, 1, context)
				if path != "?" {
					require.Equal(t, path, got.Failed[0], context)
				}
				failed := got.Failed[0]
				want := uint64(0)
				for p, n := range own {
					inside := strings.HasPrefix(p, failed+"/")
					isDir := filepath.Base(p)[0] != 'f'
					unseen := what == fsys.OpStat && path != "?" && (path != root || nth == 1) // root is checked again once it is open
					if inside || p == failed && (!isDir || unseen) {
						continue
					}
					want += n
					if listed := got.has(p); depth < 0 || strings.Count(p[len(root):], "/") <= depth {
						require.True(t, listed, "%s: %s", context, p)
					}
				}
				require.Equal(t, want, got.Total.Size, context)
			}
		}
	}
}

// operations is how many a run takes at least.
func operations(t *testing.T, paths ...string) int64 {
	t.Helper()
	var count atomic.Int64
	sys := faultfs.New(func(fsys.Op, string) error { count.Add(1); return nil })
	_, err := run1(t.Context(), Options{FS: sys, Paths: paths, Workers: 1})
	require.NoError(t, err)
	require.Greater(t, count.Load(), int64(30))
	return count.Load()
}

func TestCancellation(t *testing.T) {
	defer goleak.VerifyNone(t)
	root, _ := faulty(t)
	enough := errors.New("enough")
	paths := []string{root + "/d1", root + "/d2", root}
	whole := take(t, Options{Paths: paths, MaxDepth: -1})
	for _, workers := range numbersOfWorkers {
		ops := operations(t, paths...)
		for nth := int64(0); nth <= ops; nth++ {
			for _, depth := range []int{0, -1} {
				before := openFiles(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				if nth == 0 {
					cancel(enough)
				}
				var count atomic.Int64
				hook := func(fsys.Op, string) error {
					if count.Add(1) == nth {
						cancel(enough)
					}
					return nil
				}
				sys := faultfs.New(hook)
				got, err := run1(ctx, Options{FS: sys, Paths: paths, MaxDepth: depth, Workers: workers})
				if nth <= count.Load() {
					require.ErrorIs(t, err, enough)
					require.Less(t, len(got.Entries), len(whole.Entries), "what was not finished is listed")
				}
				require.Empty(t, got.Failed)
				if depth == -1 {
					require.Equal(t, whole.lines()[:len(got.Entries)], got.lines())
				}
				ops = max(ops, count.Load())
				cancel(nil)
				require.Equal(t, before, openFiles(t), "descriptors")
			}
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	l, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(l)
}
