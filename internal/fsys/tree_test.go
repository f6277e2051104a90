package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFS is like the system, until the test changes it.
func newFS() *FS {
	calls := system
	return &FS{calls: &calls}
}

// failAll makes all operations of some kinds fail that are done through o's FS, and
// nothing with an error of nil.
func failAll(o *Object, err error, kinds ...Op) {
	o.FS().Fault = func(c Call) error {
		if slices.Contains(kinds, c.Op) {
			return err
		}
		return nil
	}
}

// tempRoot opens a fresh directory and returns its path as well.
func tempRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	return tempRootOf(t, nil)
}

// ownRoot is tempRoot of an FS that belongs to the test.
func ownRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	return tempRootOf(t, newFS())
}

func tempRootOf(t *testing.T, sys *FS) (*Dir, string) {
	t.Helper()
	path, err := os.MkdirTemp("", "fsys")
	require.NoError(t, err)
	d, err := sys.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(func() {
		// Not t.TempDir: os.RemoveAll of Windows does not work under Wine 8, which
		// has no FileDispositionInformationEx.
		require.NoError(t, clear(d))
		d.Close()
		require.NoError(t, os.Remove(path))
	})
	return d, path
}

func clear(d *Dir) error {
	l, err := d.List()
	if err != nil {
		return err
	}
	for i := range l.Len() {
		name := l.Name(i)
		sub, err := d.OpenDir(name)
		if err != nil {
			if err := d.Remove(name); err != nil {
				return err
			}
			continue
		}
		err = errors.Join(clear(sub), d.RemoveDir(name))
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// need skips, with the reason in print, where err says that this system or file
// system cannot do what the test is about.
func need(t *testing.T, what string, err error) {
	t.Helper()
	if Unsupported(err) || err != nil && runtime.GOOS != "linux" && NotPermitted(err) {
		t.Skipf("%s: %v", what, err)
	}
	require.NoError(t, err, what)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, d *Dir) []string {
	t.Helper()
	l, err := d.List()
	require.NoError(t, err)
	list := []string{}
	for i := range l.Len() {
		list = append(list, strings.Clone(l.Name(i)))
	}
	slices.Sort(list)
	return list
}

func TestListTellsNamesAndKinds(t *testing.T) {
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
	need(t, "symbolic links", d.Symlink("dir", "to-dir"))
	require.NoError(t, d.Symlink("file", "to-file"))
	require.ErrorIs(t, d.Symlink("file", "to-file"), fs.ErrExist)

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
