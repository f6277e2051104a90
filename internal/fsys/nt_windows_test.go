package fsys

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		require.ErrorIs(t, d.Symlink("a", name, Info{}), windows.ERROR_INVALID_NAME, "%q", name)
	}
	require.Equal(t, []string{"a"}, names(t, d))

	long := strings.Repeat("x", 256)
	err := d.Rename("a", long)
	require.Error(t, err)
	require.True(t, NameRefused(long, err), "%v", err)
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

// Only a handle with the right SYNCHRONIZE can be waited for.
func TestEveryHandleCanBeWaitedFor(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "x")
	for _, access := range []uint32{windows.DELETE, readAttributes, windows.GENERIC_READ} {
		h, err := openAt(d.h, "f", access, windows.FILE_OPEN, 0)
		require.NoError(t, err)
		_, err = windows.WaitForSingleObject(h, 0)
		require.NoError(t, err, "access %x", access)
		require.NoError(t, windows.CloseHandle(h))
	}
}

func TestAvailableSpace(t *testing.T) {
	d, path := tempRoot(t)
	wide, err := windows.UTF16PtrFromString(path)
	require.NoError(t, err)
	var available, total uint64
	require.NoError(t, windows.GetDiskFreeSpaceEx(wide, &available, &total, nil))
	got := d.Available()
	require.Positive(t, got)
	require.LessOrEqual(t, uint64(got), total)
	require.InEpsilon(t, available, got, 0.5, "other programs write at the same time")
}

// TimeStamps would trust a change time that is always zero.
func TestNoChangeTimes(t *testing.T) {
	d, _ := tempRoot(t)
	info, err := d.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Ctime)
	require.False(t, d.KeepsChangeTime())
}

func TestSyncOfADirectory(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, d.Mkdir("d"))
	sub, err := d.OpenDir("d")
	require.NoError(t, err)
	require.NoError(t, sub.Sync())
	require.NoError(t, d.Sync())
	held, err := windows.UTF16PtrFromString(filepath.Join(path, "d"))
	require.NoError(t, err)
	h, err := windows.CreateFile(held, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	require.NoError(t, err)
	require.NoError(t, sub.Sync(), "another process has it open")
	windows.CloseHandle(h)
	sub.Close()
	require.ErrorIs(t, sub.sync(), windows.ERROR_INVALID_HANDLE, "the call reaches the system")
}

// The test reads a regular file. A disk would refuse the reads with an error.
func TestReadsOfADiskStopAtItsEnd(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "disk"), "0123456789")
	f, _, err := d.Open("disk")
	require.NoError(t, err)
	defer f.Close()
	disk := Stream{File: File{Object: Object{h: f.h}}, Info: Info{Kind: BlockDevice}, Size: 4, Seeks: true}
	p := make([]byte, 8)
	for off, want := range []int{4, 3, 2, 1, 0, 0} {
		n, err := disk.ReadSome(p, int64(off))
		require.NoError(t, err)
		require.Equal(t, want, n, "at %d", off)
	}
}

// Scanners open new files for a moment and do not allow others to remove them.
func TestRenamingAndRemovingAFileInUse(t *testing.T) {
	d, path := tempRoot(t)
	held := filepath.Join(path, "held")
	wide, err := windows.UTF16PtrFromString(held)
	require.NoError(t, err)
	rename := func() error { return d.Rename("held", "other") }
	for name, change := range map[string]func() error{
		"rename": rename, "exclusive rename": func() error { return d.RenameNew("held", "new") }, "remove": func() error { return d.Remove("held") },
	} {
		put(t, held, "x")
		h, err := windows.CreateFile(wide, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
		require.NoError(t, err)
		time.AfterFunc(30*time.Millisecond, func() { windows.CloseHandle(h) })
		require.NoError(t, change(), name)
		require.NoFileExists(t, held, name)
	}
	require.ErrorIs(t, rename(), fs.ErrNotExist)
	put(t, held, "x")
	h, err := windows.CreateFile(wide, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
	require.NoError(t, err)
	err = rename()
	windows.CloseHandle(h)
	require.True(t, InUse(err), "%v", err)
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
