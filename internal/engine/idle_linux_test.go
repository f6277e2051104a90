package engine

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A second run over an unchanged tree describes each file by its name, and opens none. It
// opens those that have extended attributes on either side, and keeps these equal.
func TestIdleRunOpensNoFile(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for _, name := range []string{"a", "b", "sub/c", "sub/d"} {
		write(t, src, name, []byte(name), since)
	}
	if !listsXattrsByName(t, src) {
		t.Skip("the kernel does not list extended attributes by name")
	}
	o := options(src, dst)
	mustRun(t, o)

	second := func() (opened []string) {
		var mu sync.Mutex
		o := options(src, dst)
		o.FS = faultfs.New(func(op fsys.Op, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if op == fsys.OpOpen && (name == "a" || name == "b" || name == "c" || name == "d") {
				opened = append(opened, name)
			}
			return nil
		})
		out := runReported(t, o)
		require.Empty(t, out.bad())
		require.EqualValues(t, 4, out.summary.Skipped)
		return opened
	}
	require.Empty(t, second())

	require.NoError(t, unix.Setxattr(filepath.Join(src, "a"), "user.new", []byte("1"), 0))
	require.NoError(t, unix.Setxattr(filepath.Join(dst, "sub/d"), "user.old", []byte("1"), 0))
	require.NoError(t, os.Chmod(filepath.Join(src, "b"), 0o604))
	require.ElementsMatch(t, []string{"a", "a", "b", "d"}, second())
	value := make([]byte, 8)
	n, err := unix.Getxattr(filepath.Join(dst, "a"), "user.new", value)
	require.NoError(t, err)
	require.Equal(t, "1", string(value[:n]))
	_, err = unix.Getxattr(filepath.Join(dst, "sub/d"), "user.old", value)
	require.ErrorIs(t, err, unix.ENODATA)
	info, err := os.Stat(filepath.Join(dst, "b"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o604), info.Mode().Perm())
}

// A file that is replaced between the stat and the read is described again: the copy has the
// times of the content that was read.
func TestFileExchangedBeforeItsContentIsOpened(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "a", []byte("old"), since)
	write(t, src, "d", []byte("d"), since)
	o := options(src, dst)
	mustRun(t, o)
	write(t, src, "a", []byte("new 1"), since.Add(1e9))
	write(t, dir, "other", []byte("new content 2"), since.Add(2e9))

	var once sync.Once
	o = options(src, dst)
	o.FS = faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "a" {
			once.Do(func() { require.NoError(t, os.Rename(filepath.Join(dir, "other"), filepath.Join(src, "a"))) })
		}
		return nil
	})
	mustRun(t, o)
	have := look(t, dst)["a"]
	require.Equal(t, "new content 2", have.content)
	info, err := os.Stat(filepath.Join(dst, "a"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(since.Add(2e9)), info.ModTime())
}

func listsXattrsByName(t *testing.T, path string) bool {
	t.Helper()
	d, err := fsys.OpenRoot(path)
	require.NoError(t, err)
	defer d.Close()
	return !d.MayHaveXattrs("a")
}

// An attribute that the destination refuses is a warning in each run, and not an update of the file,
// whether the file is writable or not.
func TestARefusedAttributeIsNoUpdate(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for _, name := range []string{"a", "read-only"} {
		write(t, src, name, []byte(name), since)
		if err := unix.Setxattr(filepath.Join(src, name), "user.big", []byte("too big"), 0); err != nil {
			t.Skipf("no user attributes here: %v", err)
		}
	}
	require.NoError(t, os.Chmod(filepath.Join(src, "read-only"), 0o400))
	for run := range 3 {
		o := options(src, dst)
		o.FS = faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpSetXattr && name == "user.big" {
				return unix.ENOSPC
			}
			return nil
		})
		out := runReported(t, o)
		require.Len(t, out.bad(), 1)
		require.Empty(t, out.mismatches())
		require.ErrorContains(t, out.bad()[0].Err, "extended attributes of user cannot be kept there ('user.big')")
		if run > 0 {
			require.EqualValues(t, 2, out.summary.UpToDate)
			require.Zero(t, out.summary.Updated)
		}
		info, err := os.Stat(filepath.Join(dst, "read-only"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o400), info.Mode())
	}
}
