package fsys

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// child opens name in h as a handle that is not in use.
func child(t *testing.T, h *Handle, name string) *Handle {
	t.Helper()
	d, err := h.Acquire()
	require.NoError(t, err)
	defer h.Release()
	sub, err := d.OpenDir(name)
	require.NoError(t, err)
	info, err := sub.Stat()
	require.NoError(t, err)
	c := h.Child(name, sub, info.ID)
	c.Release()
	return c
}

func openNow(s *Handles) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.open
}

// The path from the root down is some 27,000 bytes: PATH_MAX is 4,096 on Linux,
// 1,024 on macOS. Acquire holds the parents while it reopens.
func TestHandlesOfADeepChain(t *testing.T) {
	const limit = 8
	depth := 3000
	root, _ := ownRoot(t)
	s := NewHandles(limit)
	chain := []*Handle{s.Root(root)}
	if emulated {
		depth = 150
		t.Log("depth 150 only: Wine turns handles into paths of its host")
	}
	for i := range depth {
		name := "level" + strconv.Itoa(1000 + i)[1:]
		d, err := chain[i].Acquire()
		require.NoError(t, err)
		require.NoError(t, d.Mkdir(name), "depth %d", i)
		chain[i].Release()
		chain = append(chain, child(t, chain[i], name))
		require.LessOrEqual(t, openNow(s), limit)
	}
	for _, i := range []int{depth, 0, 1, depth / 2, depth} {
		d, err := chain[i].Acquire()
		require.NoError(t, err, "depth %d", i)
		info, err := d.Stat()
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, chain[i].id, info.ID)
		}
		chain[i].Release()
		require.LessOrEqual(t, openNow(s), limit)
	}
	deepest, err := chain[depth].Acquire()
	require.NoError(t, err)
	p, err := deepest.Create(false)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt([]byte("deep"), 0))
	require.NoError(t, p.Commit("file"))
	f, info, err := deepest.Open("file")
	require.NoError(t, err)
	require.EqualValues(t, 4, info.Size)
	f.Close()
	require.NoError(t, deepest.Remove("file"))
	chain[depth].Release()
	opened := 0
	root.FS().Fault = func(c Call) error {
		if c.Op == OpOpenDir {
			opened++
		}
		return nil
	}
	for i := depth; i > 0; i-- {
		chain[i].Close()
		d, err := chain[i-1].Acquire()
		require.NoError(t, err)
		require.NoError(t, d.RemoveDir(chain[i].name))
		chain[i-1].Release()
	}
	require.Zero(t, openNow(s))
	if runtime.GOOS != "windows" { // which has no ".." by handle
		require.LessOrEqual(t, opened, depth, "each parent is opened from its child")
	}
}

// The directory above a moved directory is not its parent.
func TestTheParentOfAMovedDirectory(t *testing.T) {
	root, path := tempRoot(t)
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a", "c"), 0o700))
	require.NoError(t, root.Mkdir("b"))
	s := NewHandles(2)
	r := s.Root(root)
	a := child(t, r, "a")
	c := child(t, a, "c")
	b := child(t, r, "b")
	for _, h := range []*Handle{c, b} {
		_, err := h.Acquire()
		require.NoError(t, err)
		h.Release()
	}
	require.Nil(t, a.dir, "b and c are open")
	require.NoError(t, os.Rename(filepath.Join(path, "a", "c"), filepath.Join(path, "b", "c")))
	c.Close()
	d, err := a.Acquire()
	require.NoError(t, err)
	_, err = d.Lstat("c")
	require.ErrorIs(t, err, fs.ErrNotExist)
	b.Close()
	a.Close()
	a.Release()
	require.Zero(t, openNow(s))
}

func TestHandleReopensTheSameDirectoryOnly(t *testing.T) {
	root, path := tempRoot(t)
	require.NoError(t, root.Mkdir("a"))
	require.NoError(t, root.Mkdir("b"))
	s := NewHandles(1)
	r := s.Root(root)
	a := child(t, r, "a")
	child(t, r, "b") // a is evicted by it
	require.Nil(t, a.dir)
	require.NoError(t, os.Rename(filepath.Join(path, "a"), filepath.Join(path, "old")))
	require.NoError(t, root.Mkdir("a"))
	_, err := a.Acquire()
	require.ErrorIs(t, err, ErrMoved)
	require.NoError(t, root.RemoveDir("a"))
	if err := root.Symlink("old", "a", Info{}); err == nil {
		_, err = a.Acquire()
		require.True(t, IsSymlinkRefusal(err), "%v", err)
		require.NoError(t, root.Remove("a"))
	} else {
		t.Logf("no symbolic link to swap in: %v", err)
	}
	require.NoError(t, os.Rename(filepath.Join(path, "old"), filepath.Join(path, "a")))
	_, err = a.Acquire()
	require.NoError(t, err)
	require.Equal(t, 1, openNow(s), "only a is open besides the root")
	a.Close()
	a.Release()
}

func TestHandleInUseIsNotEvicted(t *testing.T) {
	root, _ := tempRoot(t)
	s := NewHandles(1)
	r := s.Root(root)
	var held []*Handle
	for i := range 4 {
		name := strconv.Itoa(i)
		require.NoError(t, root.Mkdir(name))
		h := child(t, r, name)
		d, err := h.Acquire()
		require.NoError(t, err)
		require.Same(t, d, h.dir)
		held = append(held, h)
	}
	require.Equal(t, 4, openNow(s), "all are in use")
	for _, h := range held {
		_, err := h.dir.Stat()
		require.NoError(t, err)
		h.Close() // while in use: goes with Release
		require.NotNil(t, h.dir)
		h.Release()
		require.Nil(t, h.dir)
	}
	require.Zero(t, openNow(s))
}

func TestHandlesFromManyGoroutines(t *testing.T) {
	root, _ := tempRoot(t)
	s := NewHandles(3)
	all := []*Handle{s.Root(root)}
	for i := range 20 {
		parent := all[i/2]
		d, err := parent.Acquire()
		require.NoError(t, err)
		name := strconv.Itoa(i)
		require.NoError(t, d.Mkdir(name))
		parent.Release()
		all = append(all, child(t, parent, name))
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 300 {
				h := all[rand.IntN(len(all))]
				d, err := h.Acquire()
				if err != nil {
					t.Error(err)
					return
				}
				if info, err := d.Stat(); err != nil || h.parent != nil && info.ID != h.id {
					t.Errorf("%v %v", info.ID, err)
				}
				h.Release()
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, openNow(s), 3)
	for _, h := range all[1:] {
		require.Zero(t, h.users)
		h.Close()
	}
	require.Zero(t, openNow(s))
}

// A root that is in use when it is closed stays open until its last Release.
func TestRootClosedWhileInUse(t *testing.T) {
	root, err := newFS().OpenRoot(t.TempDir())
	require.NoError(t, err)
	h := NewHandles(1).Root(root)
	for range 2 {
		_, err := h.Acquire()
		require.NoError(t, err)
	}
	h.Close()
	h.Release()
	_, err = root.Stat()
	require.NoError(t, err, "one user is left")
	h.Release()
	_, err = root.Stat()
	require.Error(t, err)
}
