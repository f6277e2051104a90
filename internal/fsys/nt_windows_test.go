package fsys

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
	"pgregory.net/rapid"
)

// emulated tells Wine, which cannot set creation times on Linux and is bound to
// its host's PATH_MAX.
var emulated = windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	d, _ := tempRoot(t)
	require.NoError(t, d.Mkdir("a"))
	for _, name := range []string{"", ".", "..", `a\..`, "a/b", `..\x`, "f:stream", `C:`, "x\x00", "x\xff", `\\?\C:\`, "*", "<"} {
		_, err := d.Lstat(name)
		require.ErrorIs(t, err, windows.ERROR_INVALID_NAME, "%q", name)
		require.ErrorIs(t, d.Mkdir(name), windows.ERROR_INVALID_NAME, "%q", name)
		require.ErrorIs(t, d.Rename("a", name), windows.ERROR_INVALID_NAME, "%q", name)
		require.ErrorIs(t, d.Symlink("a", name), windows.ERROR_INVALID_NAME, "%q", name)
	}
	require.Equal(t, []string{"a"}, names(t, d))
}

// syscall.ENOTDIR would be fs.ErrNotExist on this system.
func TestAFileIsNoMissingDirectory(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	_, inTree := d.OpenDir("f")
	_, asRoot := OpenRoot(filepath.Join(path, "f"))
	_, _, taken := d.TakeOver("f")
	for _, err := range []error{inTree, asRoot, taken, d.RemoveDir("f")} {
		require.True(t, IsSymlinkRefusal(err), "%v", err)
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := d.OpenDir("missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.False(t, IsSymlinkRefusal(err))
}

func TestSyncOfAReadOnlyFile(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	f, info, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	require.NoError(t, f.Chmod(0o444))
	require.NoError(t, f.SetTimes(info.Atime, info.Mtime, info.Btime))
	err = f.Sync()
	if emulated && NotPermitted(err) {
		t.Skip("Wine wants the right to write for attributes")
	}
	require.NoError(t, err)
	info, err = f.Stat()
	require.NoError(t, err)
	require.Equal(t, uint32(0o444), info.Mode)
}

func TestFiletimeConversion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Time{Sec: rapid.Int64Range(-11644473599, 900_000_000_000).Draw(t, "sec"), Nsec: 100 * rapid.Int64Range(0, 9_999_999).Draw(t, "ticks")}
		require.Equal(t, want, timeOf(filetimeOf(want)))
	})
	require.Equal(t, windows.Filetime{LowDateTime: 1}, filetimeOf(Time{Sec: -1 << 63}))
	require.Equal(t, windows.Filetime{LowDateTime: 1<<32 - 1, HighDateTime: 1<<31 - 1}, filetimeOf(Time{Sec: 1<<63 - 1}))
}

func TestKindOfReparsePoint(t *testing.T) {
	require.Equal(t, Symlink, kindOfReparsePoint(windows.IO_REPARSE_TAG_SYMLINK, Directory))
	require.Equal(t, Irregular, kindOfReparsePoint(windows.IO_REPARSE_TAG_MOUNT_POINT, Directory))
	require.Equal(t, Regular, kindOfReparsePoint(0x80000013, Regular), "deduplicated")
	require.Equal(t, Directory, kindOfReparsePoint(0x9000001A, Directory), "in a cloud")
	require.Equal(t, Socket, kindOfReparsePoint(0x80000023, Regular))
}
