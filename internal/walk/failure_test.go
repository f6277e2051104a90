package walk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// For a visitor that only counts entries, a directory that cannot be opened exists.
func TestADirectoryThatCannotBeOpenedIsEntered(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "bad/2", "bad/c/3", "file", "gone/5", "z")
	for _, workers := range []int{1, 3} {
		for _, refused := range []bool{false, true} {
			sys := faultfs.New(func(op fsys.Op, name string) error {
				switch {
				case op == fsys.OpOpenDir && name == "bad":
					return syscall.EACCES
				case op == fsys.OpOpenDir && name == "gone", op == fsys.OpStat && name == "gone":
					return syscall.ENOENT
				}
				return nil
			})
			v := newRecorder()
			v.fs = sys
			v.onEnter = func(d *Dir) bool {
				if d.Path() != "bad" {
					return true
				}
				require.NotZero(t, d.Info.ID)
				_, err := d.Acquire()
				require.ErrorIs(t, err, syscall.EACCES)
				return !refused
			}
			walkTree(t.Context(), t, root, 4, v, Options{Workers: workers, Found: v.found})
			require.ElementsMatch(t, []string{"a/1", "file", "z"}, v.paths("entry"))
			require.ElementsMatch(t, []string{"", "a", "bad"}, v.paths("enter"))
			require.ElementsMatch(t, []string{"", "a", "bad"}, v.paths("leave"))
			require.ErrorIs(t, v.failed["gone"], fs.ErrNotExist)
			if refused {
				require.Len(t, v.failed, 1)
			} else {
				require.Len(t, v.failed, 2)
				require.ErrorIs(t, v.failed["bad"], syscall.EACCES)
			}
			requireOrderly(t, v)
			v = newRecorder()
			v.fs = sys
			root := openRoot(t, nil, root, 4, v)
			root.Info.ID.Dev++ // so that everything is on another device
			Walk(t.Context(), root, Options{Workers: workers, OneFileSystem: true, Found: v.found})
			require.NotContains(t, v.failed, "bad")
			require.Contains(t, v.paths("enter"), "bad")
		}
	}
}

// Entries that are listed before an error are visited.
func TestAListingThatBreaksOff(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a removed directory ends in an error on Linux only")
	}
	var paths []string
	for i := range 6000 { // more than the system lists at once
		paths = append(paths, fmt.Sprintf("d/%d", i))
		if i%100 == 0 {
			paths = append(paths, fmt.Sprintf("d/sub%d/", i))
		}
	}
	for _, workers := range []int{1, 3} {
		root := tree(t, paths...)
		var once sync.Once
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpStat && name != "" {
				once.Do(func() { require.NoError(t, os.RemoveAll(root+"/d")) })
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		walkTree(t.Context(), t, root, 4, v, Options{Workers: workers, Found: v.found})
		subdirs := 0
		for path, err := range v.failed {
			require.ErrorIs(t, err, fs.ErrNotExist)
			if strings.HasPrefix(path, "d/sub") {
				subdirs++
			}
		}
		require.Contains(t, v.failed, "d")
		require.NotZero(t, subdirs)
		requireOrderly(t, v)
	}
}

func TestADirectoryThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			root := tree(t, "a/1", "bad/2", "bad/c/3", "d/4", "gone/5", "z")
			sys := faultfs.New(func(op fsys.Op, name string) error {
				switch {
				case op == fsys.OpOpenDir && name == "bad":
					return syscall.EACCES
				case op == fsys.OpOpenDir && name == "gone":
					return os.RemoveAll(filepath.Join(root, "gone"))
				}
				return nil
			})
			v := newRecorder()
			v.fs = sys
			walkTree(context.Background(), t, root, 4, v, Options{Workers: workers})
			require.ElementsMatch(t, []string{"a/1", "d/4", "z"}, v.paths("entry"))
			require.ElementsMatch(t, []string{"", "a", "d"}, v.paths("leave"))
			require.Len(t, v.failed, 2)
			require.ErrorIs(t, v.failed["bad"], syscall.EACCES)
			require.ErrorIs(t, v.failed["gone"], fs.ErrNotExist)
		})
	}
}

// An entry that has changed its kind since the listing is visited with the new kind.
func TestEntryThatChangesItsKind(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		root, outside := tree(t, "a/file", "b/directory/gone", "c"), tree(t, "secret")
		var swap sync.Once
		var shut sync.Once
		sys := faultfs.New(func(op fsys.Op, name string) (err error) {
			switch {
			case op == fsys.OpStat && name == "file":
				swap.Do(func() {
					path := filepath.Join(root, "a", "file")
					err = errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700), os.WriteFile(filepath.Join(path, "in", "new"), nil, 0o600))
				})
			case op == fsys.OpOpenDir && name == "directory":
				shut.Do(func() {
					path := filepath.Join(root, "b", "directory")
					err = errors.Join(os.RemoveAll(path), os.Symlink(outside, path))
				})
			}
			return err
		})
		v := newRecorder()
		v.fs = sys
		walkTree(context.Background(), t, root, 4, v, Options{Workers: workers, Found: v.found})
		require.Empty(t, v.failed)
		require.ElementsMatch(t, []string{"a/file/in/new", "b/directory", "c"}, v.paths("entry"))
		require.ElementsMatch(t, []string{"", "a", "b", "a/file", "a/file/in"}, v.paths("enter"))
		requireOrderly(t, v)
	}
}

func TestAListingThatFailsIsReported(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "b/2", "c/3")
	for nth := range 4 {
		var listings atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpList && listings.Add(1) == int64(nth)+1 {
				return syscall.EIO
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		walkTree(context.Background(), t, root, 4, v, Options{Workers: 1})
		want := map[int][]string{0: {}, 1: {"b/2", "c/3"}, 2: {"a/1", "c/3"}, 3: {"a/1", "b/2"}}[nth]
		require.Equal(t, want, v.paths("entry"))
		require.Len(t, v.failed, 1)
		for path, err := range v.failed {
			require.Equal(t, []string{"", "a", "b", "c"}[nth], path)
			require.ErrorIs(t, err, syscall.EIO)
		}
		requireOrderly(t, v)
	}
}

// A directory that was closed to save descriptors and exchanged for another
// meanwhile is not followed.
func TestADirectoryExchangedWhileClosed(t *testing.T) {
	root := tree(t, "a/b/c/1", "other/b/c/evil")
	v := newRecorder()
	exchanged := false
	var err error
	v.onEntry = func(d *Dir, _ string) {
		if exchanged || d.Path() != "a/b/c" {
			return
		}
		exchanged = true
		require.NoError(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "was")))
		require.NoError(t, os.Rename(filepath.Join(root, "other"), filepath.Join(root, "a")))
		_, err = d.Parent.Acquire() // closed by the limit
	}
	walkTree(context.Background(), t, root, 1, v, Options{Workers: 1})
	require.True(t, exchanged)
	require.ErrorIs(t, err, fsys.ErrMoved)
}

func TestAnUnknownKindIsLookedUp(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "b")
	only, err := filter.ReadOnly(strings.NewReader("a\nb\n"), false)
	require.NoError(t, err)
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpStat && name == "a" {
			return syscall.EIO
		}
		return nil
	})
	v := newRecorder()
	v.fs = sys
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1, Only: only})
	require.Equal(t, []string{"b"}, v.paths("entry"))
	require.True(t, errors.Is(v.failed["a"], syscall.EIO))
}
