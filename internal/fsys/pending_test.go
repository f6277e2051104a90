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

// begin makes a pending file of the wanted sort with content.
func begin(t *testing.T, d *Dir, named bool, content string) *Pending {
	t.Helper()
	p, err := d.Create(named)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt([]byte(content), 0))
	return p
}

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
	require.EqualValues(t, 0o444, info.Mode)

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
	defer func() { Fault = nil }()
	boom := errors.New("boom")
	d, path := tempRoot(t)
	fail := func(op Op) {
		Fault = func(o Op, _ string) error {
			if o == op {
				return boom
			}
			return nil
		}
	}
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
		Fault = nil
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
		Fault = nil
		require.Equal(t, []string{"f"}, names(t, d))
		require.Equal(t, "old", content(t, filepath.Join(path, "f")))
	}
	require.NoError(t, d.Sync())
	if err := d.SyncFS(); !Unsupported(err) {
		require.NoError(t, err)
	}
}

func TestFileIO(t *testing.T) {
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
