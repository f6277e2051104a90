package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPending(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(map[bool]string{false: "unnamed if possible", true: "named"}[named], func(t *testing.T) {
			d, path := tempRoot(t)
			file := filepath.Join(path, "f")

			p := begin(t, d, named, "one")
			for _, n := range names(t, d) {
				require.True(t, strings.HasPrefix(n, Reserved), n)
			}
			require.NoError(t, p.Commit("f"))
			p.Abort() // nothing
			require.Equal(t, []string{"f"}, names(t, d))
			require.Equal(t, "one", content(t, file))

			p = begin(t, d, named, "two")
			require.ErrorIs(t, p.Commit("f"), fs.ErrExist)
			require.Equal(t, "one", content(t, file))
			p.Abort()
			p = begin(t, d, named, "two2")
			require.NoError(t, p.CommitReplacing("f"))
			require.Equal(t, []string{"f"}, names(t, d))
			require.Equal(t, "two2", content(t, file))

			p = begin(t, d, named, "three")
			p.Abort()
			p.Abort()
			require.Equal(t, []string{"f"}, names(t, d))
			require.Equal(t, "two2", content(t, file))

			p = begin(t, d, named, "four") // a new name by the replacing way
			require.NoError(t, p.CommitReplacing("g"))
			require.Equal(t, []string{"f", "g"}, names(t, d))

			require.NoError(t, d.Mkdir("dir"))
			p = begin(t, d, named, "five")
			require.ErrorIs(t, p.Commit("dir"), fs.ErrExist)
			p.Abort()
			p = begin(t, d, named, "six")
			require.Error(t, p.CommitReplacing("dir"))
			p.Abort()
			require.Equal(t, []string{"dir", "f", "g"}, names(t, d))
		})
	}
}

func TestPendingReplacesReadOnlyAndOpenFiles(t *testing.T) {
	d, path := tempRoot(t)
	file := filepath.Join(path, "f")
	p := begin(t, d, true, "old")
	require.NoError(t, p.Chmod(0o444))
	require.NoError(t, p.Commit("f"))
	info, err := d.Lstat("f")
	require.NoError(t, err)
	require.EqualValues(t, 0o444, info.Mode&0o7777)

	p = begin(t, d, true, "new")
	require.NoError(t, p.Chmod(0o444))
	require.NoError(t, p.CommitReplacing("f"))
	require.Equal(t, "new", content(t, file))

	open, _, err := d.Open("f")
	require.NoError(t, err)
	p = begin(t, d, true, "newer")
	err = p.CommitReplacing("f")
	if err != nil { // a file system without POSIX renames on Windows
		require.True(t, NotPermitted(err), "%v", err)
		t.Logf("an open file cannot be replaced: %v", err)
		p.Abort()
	} else {
		require.Equal(t, "newer", content(t, file))
		got := make([]byte, 8)
		n, err := open.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, "new", string(got[:n]), "the reader keeps the old file")
	}
	open.Close()
	require.NoError(t, d.Remove("f"), "read-only")
	require.Empty(t, names(t, d))
}

func TestPendingMetadataBeforeTheName(t *testing.T) {
	d, _ := tempRoot(t)
	for _, named := range []bool{false, true} {
		p := begin(t, d, named, "x")
		require.NoError(t, p.SetTimes(Time{Sec: 1e9}, Time{Sec: 1_100_000_000, Nsec: 123456700}, Time{Sec: 9e8}))
		require.NoError(t, p.Sync())
		require.NoError(t, p.Commit("f"))
		info, err := d.Lstat("f")
		require.NoError(t, err)
		require.Equal(t, Time{Sec: 1_100_000_000, Nsec: 123456700}, info.Mtime)
		if info.Btime != (Time{}) && !emulated {
			require.Equal(t, Time{Sec: 900_000_000}, info.Btime)
		}
		require.NoError(t, d.Remove("f"))
	}
}

func TestFaultsAreAskedAndLeaveNothing(t *testing.T) {
	boom := errors.New("boom")
	d, path := ownRoot(t)
	fail := func(kinds ...Op) { failAll(&d.Object, boom, kinds...) }
	for _, named := range []bool{false, true} {
		put(t, filepath.Join(path, "f"), "old")
		fail(OpCreate)
		_, err := d.Create(named)
		require.ErrorIs(t, err, boom)
		fail(OpWrite)
		p, err := d.Create(named)
		require.NoError(t, err)
		require.ErrorIs(t, p.WriteAt([]byte("x"), 0), boom)
		fail(OpLink)
		require.ErrorIs(t, p.Commit("new"), boom)
		fail(OpRename)
		require.ErrorIs(t, p.CommitReplacing("f"), boom)
		fail(OpSync)
		require.ErrorIs(t, p.Sync(), boom)
		require.ErrorIs(t, d.Sync(), boom)
		fail()
		p.Abort()
		require.Equal(t, []string{"f"}, names(t, d))
		require.Equal(t, "old", content(t, filepath.Join(path, "f")))
		p = begin(t, d, named, "x")
		fail(OpCloseFile)
		require.ErrorIs(t, p.CommitReplacing("f"), boom, "a close that fails is a write that failed")
		p.Abort()
		p = begin(t, d, named, "x")
		require.ErrorIs(t, p.Commit("new"), boom)
		p.Abort()
		fail()
		require.Equal(t, []string{"f"}, names(t, d))
		require.Equal(t, "old", content(t, filepath.Join(path, "f")))
	}
	require.NoError(t, d.Sync())
	if err := d.SyncFS(); !Unsupported(err) {
		require.NoError(t, err)
	}
}

// A close that fails is known before the file has its name. Otherwise the process, if it was stopped in
// between, would remove the file with which another one has replaced it.
func TestAFailingCloseDoesNotRemoveTheFileOfAnother(t *testing.T) {
	d, path := ownRoot(t)
	for _, named := range []bool{false, true} {
		p := begin(t, d, named, "x")
		d.FS().Fault = func(c Call) error {
			if c.Op != OpCloseFile {
				return nil
			}
			require.NoFileExists(t, filepath.Join(path, "f"))
			put(t, filepath.Join(path, "f"), "other")
			return errBoom
		}
		require.ErrorIs(t, p.Commit("f"), errBoom)
		p.Abort()
		d.FS().Fault = nil
		require.Equal(t, "other", content(t, filepath.Join(path, "f")))
		require.Equal(t, []string{"f"}, names(t, d))
		require.NoError(t, d.Remove("f"))
	}
}

func TestFileReadsAndWritesAtOffsets(t *testing.T) {
	d, path := tempRoot(t)
	p, err := d.Create(false)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt([]byte("tail"), 1<<20))
	buf := []byte("????")
	n, err := p.ReadAt(buf, 1<<20+2)
	require.NoError(t, err)
	require.Equal(t, "il??", string(buf[:n])+string(buf[n:]))
	n, err = p.ReadAt(buf, 1<<21)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = p.ReadAt(buf, 0)
	require.NoError(t, err)
	require.Equal(t, "\x00\x00\x00\x00", string(buf[:n]))
	n, err = p.ReadSomeAt(buf, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "tail"[:n], string(buf[:n]))
	require.NoError(t, p.Truncate(1<<22))
	data, hole, end, err := p.NextData(0)
	if !Unsupported(err) {
		require.NoError(t, err)
		require.False(t, end)
		require.LessOrEqual(t, data, int64(1<<20))
		require.Greater(t, hole, int64(1<<20+3))
		_, _, end, err = p.NextData(1 << 22)
		require.NoError(t, err)
		require.True(t, end)
	}
	require.NoError(t, p.Truncate(1<<20+2))
	require.NoError(t, p.Commit("f"))
	b, err := os.ReadFile(filepath.Join(path, "f"))
	require.NoError(t, err)
	require.Len(t, b, 1<<20+2)
	f, info, err := d.Open("f")
	require.NoError(t, err)
	require.EqualValues(t, 1<<20+2, info.Size)
	require.NoError(t, f.Sync(), "a file opened for reading too")
	f.Close()
}

func TestKeepAndReopen(t *testing.T) {
	d, path := tempRoot(t)
	keep := func(text string) string {
		t.Helper()
		p := begin(t, d, true, text)
		name := p.Name()
		require.True(t, strings.HasPrefix(name, Reserved), name)
		require.NoError(t, p.Keep())
		require.Empty(t, p.Name())
		p.Abort() // nothing
		require.Equal(t, text, content(t, filepath.Join(path, name)))
		return name
	}
	reopen := func(name string) *Pending {
		t.Helper()
		p, info, err := d.Reopen(name, me())
		require.NoError(t, err)
		require.Equal(t, Regular, info.Kind)
		require.EqualValues(t, 3, info.Size)
		require.Equal(t, name, p.Name())
		got := make([]byte, 8)
		n, err := p.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, "one", string(got[:n]))
		require.NoError(t, p.WriteAt([]byte("two"), 3))
		return p
	}
	p := reopen(keep("one"))
	require.NoError(t, p.Sync())
	require.NoError(t, p.Commit("f"))
	require.Empty(t, p.Name())
	p.Abort()
	require.Equal(t, []string{"f"}, names(t, d))
	require.Equal(t, "onetwo", content(t, filepath.Join(path, "f")))

	p = reopen(keep("one"))
	require.ErrorIs(t, p.Commit("f"), fs.ErrExist)
	p.Abort()
	require.Equal(t, []string{"f"}, names(t, d))

	put(t, filepath.Join(path, "f"), "old")
	p = reopen(keep("one"))
	require.NoError(t, p.CommitReplacing("f"))
	require.Equal(t, []string{"f"}, names(t, d))
	require.Equal(t, "onetwo", content(t, filepath.Join(path, "f")))

	p = reopen(keep("one"))
	p.Abort()
	require.Equal(t, []string{"f"}, names(t, d))

	p = reopen(keep("one")) // interrupted again
	name := p.Name()
	require.NoError(t, p.Keep())
	require.Equal(t, "onetwo", content(t, filepath.Join(path, name)))

	_, _, err := d.Reopen("none", me())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestReopenRefusesForeignFiles(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, d.Mkdir("dir"))
	_, _, err := d.Reopen("dir", me())
	require.ErrorIs(t, err, errNotOurTemp)

	put(t, filepath.Join(path, "f"), "x")
	p, _, err := d.Reopen("f", me())
	require.NoError(t, err)
	require.NoError(t, p.Keep())
	err = d.Link("f", d, "second")
	need(t, "hard links", err)
	require.NoError(t, err)
	for _, name := range []string{"f", "second"} {
		_, _, err = d.Reopen(name, me())
		require.ErrorIs(t, err, errNotOurTemp)
	}
	require.NoError(t, d.Remove("second"))
	err = d.Symlink("f", "link", Info{})
	need(t, "symbolic links", err)
	require.NoError(t, err)
	_, _, err = d.Reopen("link", me())
	require.ErrorIs(t, err, errNotOurTemp)
	require.Equal(t, "x", content(t, filepath.Join(path, "f")), "untouched")
}

func TestKeepOfAnUnnamedFileOrAFailingClose(t *testing.T) {
	d, _ := ownRoot(t)
	p := begin(t, d, false, "x")
	if p.Name() == "" {
		require.ErrorIs(t, p.Keep(), errNoTemp)
		require.NoError(t, p.WriteAt([]byte("y"), 0), "it is still open")
	}
	p.Abort()
	p = begin(t, d, true, "x")
	failAll(&d.Object, errBoom, OpCloseFile, OpOpen)
	require.ErrorIs(t, p.Keep(), errBoom)
	_, _, err := d.Reopen(p.Name(), me())
	require.ErrorIs(t, err, errBoom)
	_, err = p.Dup()
	require.ErrorIs(t, err, errBoom)
	failAll(&d.Object, nil)
	p.Abort()
	require.Empty(t, names(t, d))
}

func TestDupOutlivesTheFirst(t *testing.T) {
	d, _ := tempRoot(t)
	p := begin(t, d, true, "one")
	dup, err := p.Dup()
	require.NoError(t, err)
	defer dup.Close()
	require.NoError(t, p.Commit("f")) // which closes the first
	require.NoError(t, dup.WriteAt([]byte("two"), 3))
	require.NoError(t, dup.Datasync())
	got := make([]byte, 8)
	n, err := dup.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, "onetwo", string(got[:n]))
	f, _, err := d.Open("f") // not by package os, which shares no file that may be renamed on Windows
	require.NoError(t, err)
	defer f.Close()
	n, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, "onetwo", string(got[:n]))
	info, err := dup.Stat()
	require.NoError(t, err)
	named, err := d.Lstat("f")
	require.NoError(t, err)
	require.Equal(t, named.ID, info.ID)
}

func TestFaultsOfWriteback(t *testing.T) {
	d, _ := ownRoot(t)
	p := begin(t, d, false, "x")
	defer p.Abort()
	for _, f := range []func() error{
		func() error { return p.StartWriteback(0, 0) },
		func() error { return p.WaitWriteback(0, 1) },
	} {
		failAll(&d.Object, nil)
		if err := f(); !Unsupported(err) {
			require.NoError(t, err)
		}
		failAll(&d.Object, errBoom, OpWriteback)
		require.ErrorIs(t, f(), errBoom)
	}
	failAll(&d.Object, errBoom, OpSync)
	require.ErrorIs(t, p.Datasync(), errBoom)
}

func TestMemory(t *testing.T) {
	n := Memory()
	t.Logf("%d bytes", n)
	require.True(t, n == 0 || n > 1<<20, "%d", n)
}

func TestPlaceLeavesTheFileOpen(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "log"), "old")
	p := begin(t, d, true, "new")
	require.NoError(t, p.Place("log"))
	require.Equal(t, []string{"log"}, names(t, d))
	require.NoError(t, p.WriteAt([]byte("er"), 3))
	require.NoError(t, p.Keep())
	require.Equal(t, "newer", content(t, filepath.Join(path, "log")))
	p.Abort() // nothing
	require.Equal(t, []string{"log"}, names(t, d))
}
