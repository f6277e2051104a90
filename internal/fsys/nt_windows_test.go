package fsys

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
	"pgregory.net/rapid"
)

// emulated reports whether the system is Wine, which cannot set creation times on Linux and
// has its host's PATH_MAX.
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
	require.Equal(t, uint32(0o444), info.Mode&0o7777)
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

// A file that another process has open exclusively for a moment is replaced when that ends.
// If it lasts longer, the error has the cause.
func TestReplacingAFileInUse(t *testing.T) {
	d, path := tempRoot(t)
	held := filepath.Join(path, "held")
	put(t, held, "old")
	wide, err := windows.UTF16PtrFromString(held)
	require.NoError(t, err)
	hold := func() windows.Handle {
		h, err := windows.CreateFile(wide, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
		require.NoError(t, err)
		return h
	}
	h := hold()
	p := begin(t, d, true, "new")
	err = p.CommitReplacing("held")
	require.ErrorIs(t, err, windows.ERROR_SHARING_VIOLATION)
	require.True(t, InUse(err))
	require.False(t, p.Abort())
	require.Equal(t, "old", content(t, held))
	require.Equal(t, []string{"held"}, names(t, d))
	windows.CloseHandle(h)

	// It is let go at some instant, also between the rename and the question why not.
	for i := range 50 {
		h = hold()
		time.AfterFunc(time.Duration(i)*50*time.Microsecond, func() { windows.CloseHandle(h) })
		require.NoError(t, begin(t, d, true, "new").CommitReplacing("held"), "after %d", i)
		require.Equal(t, "new", content(t, held))
		require.Equal(t, []string{"held"}, names(t, d))
	}
}

func TestAttributesAreKept(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	require.NoError(t, d.Mkdir("d"))
	const bits = keptAttributes | windows.FILE_ATTRIBUTE_READONLY
	attributes := func(name string) uint32 {
		o, err := d.OpenObject(name)
		require.NoError(t, err)
		defer o.Close()
		var i windows.ByHandleFileInformation
		require.NoError(t, windows.GetFileInformationByHandle(o.h, &i))
		return i.FileAttributes & bits
	}
	chmod := func(name string, mode uint32) {
		o, err := d.OpenObject(name)
		require.NoError(t, err)
		defer o.Close()
		require.NoError(t, o.Chmod(mode))
	}
	for _, want := range []uint32{
		windows.FILE_ATTRIBUTE_HIDDEN, windows.FILE_ATTRIBUTE_SYSTEM, windows.FILE_ATTRIBUTE_HIDDEN | windows.FILE_ATTRIBUTE_READONLY, 0,
	} {
		for name, kind := range map[string]uint32{"f": windows.FILE_ATTRIBUTE_ARCHIVE, "d": windows.FILE_ATTRIBUTE_DIRECTORY} {
			if emulated && name == "d" { // Wine keeps this one of files only
				want &^= windows.FILE_ATTRIBUTE_READONLY
			}
			mode := modeOf(want | kind)
			chmod(name, mode)
			require.Equal(t, (want|kind)&bits, attributes(name), name)
			info, err := d.Lstat(name)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode, name)
			chmod(name, mode&0o777) // says nothing of attributes
			require.Equal(t, (want|kind)&bits, attributes(name), name)
		}
	}
	chmod("f", 0o444)
	require.Equal(t, uint32(windows.FILE_ATTRIBUTE_READONLY|windows.FILE_ATTRIBUTE_ARCHIVE), attributes("f"))
	chmod("d", 0o555)
	require.Zero(t, attributes("d"), "that does not prevent writes")
}

func TestStreamsAreFound(t *testing.T) {
	list := func(names ...string) (b []byte) {
		for i, name := range names {
			wide := utf16.Encode([]rune(name))
			size := (24 + 2*len(wide) + 7) &^ 7
			next := size
			if i == len(names)-1 {
				next = 0
			}
			entry := binary.LittleEndian.AppendUint32(nil, uint32(next))
			entry = binary.LittleEndian.AppendUint32(entry, uint32(2*len(wide)))
			entry = append(entry, make([]byte, 16)...)
			for _, c := range wide {
				entry = binary.LittleEndian.AppendUint16(entry, c)
			}
			b = append(b, append(entry, make([]byte, size-len(entry))...)...)
		}
		return b
	}
	require.False(t, hasStreams(make([]byte, 4096)))
	require.False(t, hasStreams(list("::$DATA")))
	require.False(t, hasStreams(list("::$DATA")[:20]))
	require.True(t, hasStreams(list("::$DATA", ":Zone.Identifier:$DATA")))
	require.True(t, hasStreams(list("::$DATA", ":x:$DATA")))
	require.True(t, hasStreams(list(":AFP_AfpInfo:$DATA", "::$DATA")))
	require.True(t, hasStreams(list(":x:$DATA")), "of a directory")

	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	err := os.WriteFile(filepath.Join(path, "f:stream"), []byte("s"), 0o600)
	if err != nil || len(names(t, d)) != 1 {
		_ = os.Remove(filepath.Join(path, "f:stream")) // Wine makes a file of it
		t.Skipf("no streams here: %v", err)
	}
	o, err := d.OpenObject("f")
	require.NoError(t, err)
	defer o.Close()
	_, err = o.Xattrs(nil)
	require.ErrorAs(t, err, new(*NotKeptError))
	require.True(t, Unsupported(err))
}
