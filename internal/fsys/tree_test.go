package fsys

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListReturnsNamesAndKinds(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "file"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(path, "dir"), 0o755))
	for range 2 { // the second time from the start again
		require.Equal(t, []string{"dir", "file"}, names(t, d))
	}
	l, err := d.List()
	require.NoError(t, err)
	for i := range l.Len() {
		info, err := d.Lstat(l.Name(i))
		require.NoError(t, err)
		if k := l.Kind(i); k != Unknown {
			require.Equal(t, info.Kind, k, l.Name(i))
		}
	}
}

// A directory opens itself by ".", also where that is no name for the system.
func TestADirectoryOpensItself(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "file"), "x")
	again, err := d.OpenDir(".")
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, []string{"file"}, names(t, again))
	info, err := d.Stat()
	require.NoError(t, err)
	same, err := again.Stat()
	require.NoError(t, err)
	require.Equal(t, info.ID, same.ID)
}

func TestListOfManyEntries(t *testing.T) {
	d, path := tempRoot(t)
	const count = 3000 // several reads
	for i := range count {
		put(t, filepath.Join(path, strings.Repeat("n", 1+i%60)+"-"+strconv.Itoa(i)), "")
	}
	require.Len(t, names(t, d), count)
}

func TestNamesAreBytes(t *testing.T) {
	for _, name := range []string{"new\nline", "invalid-\xff\xfe-utf8", "tab\tquote\"star*", "ümläut", strings.Repeat("l", 255),
		"back\\slash", " blank ", "dot."} {
		t.Run(name, func(t *testing.T) {
			d, _ := tempRoot(t)
			p, err := d.Create(true)
			require.NoError(t, err)
			if err = p.Commit(name); err != nil && runtime.GOOS != "linux" {
				p.Abort()
				require.Empty(t, names(t, d), "refused and yet there")
				t.Skipf("this file system does not take the name %q: %v", name, err)
			}
			require.NoError(t, err)
			require.Equal(t, []string{name}, names(t, d))
			info, err := d.Lstat(name)
			require.NoError(t, err)
			require.Equal(t, Regular, info.Kind)
			require.NoError(t, d.Remove(name))
			require.Empty(t, names(t, d))
		})
	}
}

func TestLinksAreNeverFollowed(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, d.Mkdir("dir"))
	put(t, filepath.Join(path, "file"), "x")
	need(t, "symbolic links", d.Symlink("dir", "to-dir", Info{}))
	require.NoError(t, d.Symlink("file", "to-file", Info{}))
	require.ErrorIs(t, d.Symlink("file", "to-file", Info{}), fs.ErrExist)

	_, err := d.OpenDir("to-dir")
	require.True(t, IsSymlinkRefusal(err), "%v", err)
	_, err = d.OpenDir("file")
	require.True(t, IsSymlinkRefusal(err), "%v", err)
	_, _, err = d.Open("to-file")
	require.True(t, IsSymlinkRefusal(err), "%v", err)
	_, _, err = d.TakeOver("to-dir")
	require.True(t, IsSymlinkRefusal(err), "%v", err)
	_, err = d.Lock("to-file")
	require.Error(t, err)

	before, err := d.Lstat("file")
	require.NoError(t, err)
	o, err := d.OpenObject("to-file")
	require.NoError(t, err)
	info, err := o.Stat()
	require.NoError(t, err)
	require.Equal(t, Symlink, info.Kind)
	require.NoError(t, o.SetTimes(Time{Sec: 1e9}, Time{Sec: 1e9, Nsec: 5e8}, Time{}))
	o.Close()
	info, err = d.Lstat("to-file")
	require.NoError(t, err)
	require.Equal(t, Time{Sec: 1e9, Nsec: 5e8}, info.Mtime)
	after, err := d.Lstat("file")
	require.NoError(t, err)
	require.Equal(t, before.Mtime, after.Mtime, "the target was touched")

	target, err := d.Readlink("to-dir")
	require.NoError(t, err)
	require.Equal(t, "dir", target)
	require.NoError(t, d.Remove("to-dir"))
	info, err = d.Lstat("dir")
	require.NoError(t, err)
	require.Equal(t, Directory, info.Kind)
}

func TestRemoveAndRenameSemantics(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, d.Mkdir("dir"))
	require.ErrorIs(t, d.Mkdir("dir"), fs.ErrExist)
	sub, err := d.OpenDir("dir")
	require.NoError(t, err)
	put(t, filepath.Join(path, "a"), "a")
	put(t, filepath.Join(path, "b"), "b")
	require.Error(t, d.Remove("dir"))
	require.Error(t, d.RemoveDir("a"))
	require.NoError(t, d.Rename("a", "b"))
	require.Equal(t, "a", content(t, filepath.Join(path, "b")))
	require.NoError(t, d.MoveTo("b", sub, "c"))
	require.Equal(t, []string{"c"}, names(t, sub))
	require.ErrorIs(t, d.RemoveDir("dir"), fs.ErrExist) // how Go knows ENOTEMPTY
	err = sub.Link("c", d, "linked")
	if !LinkRefused(err) {
		require.NoError(t, err)
		info, err := d.Lstat("linked")
		require.NoError(t, err)
		require.EqualValues(t, 2, info.Nlink)
		require.ErrorIs(t, sub.Link("c", d, "linked"), fs.ErrExist)
	}
	require.NoError(t, sub.Remove("c"))
	sub.Close()
	require.NoError(t, d.RemoveDir("dir"))
	_, err = d.Lstat("dir")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.OpenDir("dir")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, d.Remove("none"), fs.ErrNotExist)
}
