//go:build unix

package fsys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// doublesRoot is ownRoot on a file system on which the kernel treats "._x" as a part of x, as
// that of macOS does on exFAT.
func doublesRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	sys := newFS()
	moved := func(dir int, oldName string, to int, newName string, err error) error {
		if err != nil || strings.HasPrefix(oldName, doublePrefix) {
			return err
		}
		if unix.Renameat(dir, doublePrefix+oldName, to, doublePrefix+newName) != nil {
			_ = unix.Unlinkat(to, doublePrefix+newName, 0)
		}
		return nil
	}
	exclusive := sys.calls.exclusiveRename
	asked := 0
	sys.calls.keepsDoubles = func(int) bool { asked++; return true }
	t.Cleanup(func() { require.LessOrEqual(t, asked, 2, "once for each directory") })
	sys.calls.mkdir = func(dir int, name string, mode uint32) error {
		err := unix.Mkdirat(dir, name, mode)
		if err == nil && !strings.HasPrefix(name, doublePrefix) {
			_ = unix.Unlinkat(dir, doublePrefix+name, 0)
		}
		return err
	}
	sys.calls.rename = func(dir int, oldName string, to int, newName string) error {
		return moved(dir, oldName, to, newName, unix.Renameat(dir, oldName, to, newName))
	}
	sys.calls.exclusiveRename = func(dir int, oldName, newName string) error {
		return moved(dir, oldName, dir, newName, exclusive(dir, oldName, newName))
	}
	return tempRootOf(t, sys)
}

func TestAppleDoubleFilesAreKept(t *testing.T) {
	d, path := doublesRoot(t)
	put(t, filepath.Join(path, "._x"), "of the card")
	put(t, filepath.Join(path, "._d"), "of the card")
	unchanged := func(want ...string) {
		t.Helper()
		for _, name := range []string{"._x", "._d"} {
			require.Equal(t, "of the card", content(t, filepath.Join(path, name)))
		}
		require.Equal(t, append([]string{"._d", "._x"}, want...), names(t, d))
	}
	require.NoError(t, d.Mkdir("d"))
	unchanged("d")
	require.ErrorIs(t, d.Mkdir("d"), os.ErrExist)
	unchanged("d")
	require.NoError(t, begin(t, d, true, "first").Commit("x"))
	unchanged("d", "x")
	second := begin(t, d, true, "second")
	require.ErrorIs(t, second.Commit("x"), os.ErrExist)
	require.False(t, second.Abort(), "the temporary has its own name again")
	unchanged("d", "x")
	require.NoError(t, begin(t, d, true, "third").CommitReplacing("x"))
	unchanged("d", "x")
	require.Equal(t, "third", content(t, filepath.Join(path, "x")))

	backup, err := d.OpenDir("d")
	require.NoError(t, err)
	defer backup.Close()
	require.NoError(t, d.MoveTo("x", backup, "x"))
	unchanged("d")
	require.Equal(t, []string{"x"}, names(t, backup))
	require.NoError(t, d.RenameNew("d", "other"))
	unchanged("other")
	require.NoError(t, d.Symlink("other", "x", Info{}))
	unchanged("other", "x")
	require.NoError(t, d.Remove("x"))
	unchanged("other")
	require.NoError(t, backup.Remove("x"))
	require.NoError(t, d.RemoveDir("other"))
	unchanged()

	renames := 0
	rename := d.calls().exclusiveRename
	d.calls().exclusiveRename = func(dir int, oldName, newName string) error {
		renames++
		return rename(dir, oldName, newName)
	}
	require.NoError(t, d.Mkdir(Reserved+"journal"))
	require.NoError(t, d.RemoveDir(Reserved+"journal"))
	require.Zero(t, renames, "only mkdir excludes other processes on every file system")

	require.NoError(t, begin(t, d, true, "new").CommitReplacing("._x"))
	require.Equal(t, "new", content(t, filepath.Join(path, "._x")))
	long := strings.Repeat("n", MaxName)
	require.NoError(t, begin(t, d, true, "long").Commit(long))
	require.NoError(t, d.Remove(long))
	require.Equal(t, []string{"._d", "._x"}, names(t, d))
}

// A later run recognizes the temporaries that a kill leaves.
func TestTemporariesBesideAppleDoubleFiles(t *testing.T) {
	const id = "0123456789abcdef"
	d, _ := doublesRoot(t)
	d.SetTempID(id)
	p := begin(t, d, true, "x")
	require.True(t, strings.HasPrefix(p.Name(), doublePrefix), p.Name())
	require.True(t, IsTemp(p.Name()), p.Name())
	got, ok := TempID(p.Name())
	require.True(t, ok, p.Name())
	require.Equal(t, id, got)
	require.NoError(t, p.Commit("x"))
	require.False(t, IsTemp("._x"))
}
