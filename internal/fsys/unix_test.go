//go:build unix

package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const emulated = false

func TestOpenOfAFifoDoesNotWait(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
	done := make(chan error, 1)
	go func() {
		f, info, err := d.Open("fifo")
		if err == nil {
			if info.Kind != Fifo {
				t.Errorf("kind %v", info.Kind)
			}
			f.Close()
		}
		o, openErr := d.OpenObject("fifo")
		if openErr == nil {
			o.Close()
		}
		if err == nil {
			err = openErr
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("waits for a writer")
	}
}

func TestTakeOverOfAnExchangedDirectory(t *testing.T) {
	path := t.TempDir()
	sys := &FS{Fault: func(c Call) error {
		if c.Op == OpOpenDir && c.Name == "closed" {
			return errors.Join(os.Rename(path+"/closed", path+"/was"), os.Rename(path+"/private", path+"/closed"))
		}
		return nil
	}}
	d, err := sys.OpenRoot(path)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, os.Mkdir(path+"/closed", 0o500))
	require.NoError(t, os.Mkdir(path+"/private", 0o700))
	_, _, err = d.TakeOver("closed")
	require.ErrorIs(t, err, errOtherDirectory)
	for name, mode := range map[string]uint32{"was": 0o500, "closed": 0o700} {
		info, err := d.Lstat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode, name)
	}
}

func TestTakeOver(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, os.Mkdir(filepath.Join(path, "dir"), 0))
	sub, mode, err := d.TakeOver("dir")
	require.NoError(t, err)
	require.Zero(t, mode)
	require.NoError(t, sub.Mkdir("x"))
	sub.Close()
	info, err := d.Lstat("dir")
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode)
	put(t, filepath.Join(path, "file"), "")
	_, _, err = d.TakeOver("file")
	require.True(t, IsSymlinkRefusal(err), "%v", err)
}

func TestRenameNewAndItsFallbacks(t *testing.T) {
	rename, link := system.exclusiveRename, system.hardLink
	noRename := func(int, string, string) error { return unix.EINVAL } // as of a file system that knows no flags
	calls := ""
	countLink := func(a int, b string, c int, e string, flags int) error {
		calls += "link "
		return link(a, b, c, e, flags)
	}
	noLink := func(int, string, int, string, int) error {
		calls += "no link "
		return unix.EPERM // as of FAT
	}
	for _, way := range []struct {
		name   string
		rename func(int, string, string) error
		link   func(int, string, int, string, int) error
		calls  string // of three renames
	}{
		{"the system's own", rename, countLink, ""},
		{"link and unlink", noRename, countLink, "link link link "},
		{"look, then rename", noRename, noLink, "no link no link no link "},
	} {
		t.Run(way.name, func(t *testing.T) {
			calls = ""
			d, path := ownRoot(t)
			d.calls().exclusiveRename, d.calls().hardLink = way.rename, way.link
			put(t, filepath.Join(path, "a"), "a")
			put(t, filepath.Join(path, "b"), "b")
			require.ErrorIs(t, d.renameNew("a", "b"), fs.ErrExist)
			require.Equal(t, "b", content(t, filepath.Join(path, "b")))
			require.NoError(t, d.renameNew("a", "c"))
			require.Equal(t, []string{"b", "c"}, names(t, d))
			require.ErrorIs(t, d.renameNew("none", "d"), fs.ErrNotExist)
			if !Unsupported(rename(d.fd, "none", "d")) { // else the first way links too
				require.Equal(t, way.calls, calls)
			}
		})
	}
}

func TestInfoEqualsStat(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "f"), "12345")
	require.NoError(t, unix.Chmod(filepath.Join(path, "f"), 0o4751))
	info, err := d.Lstat("f")
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(filepath.Join(path, "f"), &st))
	require.EqualValues(t, st.Ino, info.ID.Ino)
	require.EqualValues(t, 0o4751, info.Mode)
	require.EqualValues(t, 5, info.Size)
	require.EqualValues(t, st.Blocks, info.Blocks)
	require.NotZero(t, info.Ctime)
}

func TestReopenNeitherWaitsForAFifoNorOpensOtherFiles(t *testing.T) {
	d, path := tempRoot(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
	done := make(chan error, 1)
	go func() {
		_, _, err := d.Reopen("fifo", me())
		done <- err
	}()
	select {
	case err := <-done:
		require.ErrorIs(t, err, errNotOurTemp)
	case <-time.After(5 * time.Second):
		t.Fatal("waits for a writer")
	}
	put(t, filepath.Join(path, "theirs"), "x")
	if err := os.Chown(filepath.Join(path, "theirs"), os.Geteuid()+1, -1); err != nil {
		t.Skip("giving a file away: ", err)
	}
	_, _, err := d.Reopen("theirs", me())
	require.ErrorIs(t, err, errNotOurTemp)
}

func TestValuesThatAreRefusedDoNotHideTheOthers(t *testing.T) {
	answers := map[string]error{"user.a": nil, "user.gone": errNoXattr, "user.refused": unix.EPERM, "user.z": nil, "user.left-out": unix.EIO}
	value := func(name string) ([]byte, error) { return []byte(name), answers[name] }
	keep := func(name string) bool { return name != "user.left-out" }
	list, err := valuesOf(splitNames([]byte("user.a\x00user.gone\x00user.refused\x00user.left-out\x00user.z\x00")), keep, value)
	require.ErrorIs(t, err, ErrUnread)
	require.ErrorContains(t, err, `"user.refused"`)
	require.False(t, NotPermitted(err) || Unsupported(err), "of the file system")
	require.Equal(t, []Xattr{{"user.a", []byte("user.a")}, {"user.z", []byte("user.z")}}, list)

	_, err = valuesOf([]string{"user.a", "user.left-out"}, func(string) bool { return true }, value)
	require.Equal(t, unix.EIO, err)
	list, err = valuesOf(splitNames(nil), keep, value)
	require.NoError(t, err)
	require.Empty(t, list)
}

// If every call may wait, a write to a pipe without a reader writes no more than the pipe
// accepts, so that the Stop ends it.
func TestStopEndsAWriteToAFullPipe(t *testing.T) {
	for _, nowait := range []bool{canNowait, false} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		stop, err := NewStop()
		require.NoError(t, err)
		s, err := (*FS)(nil).InheritStream(w, stop, true)
		require.NoError(t, err)
		s.system.nowait = nowait
		done := make(chan error, 1)
		go func() {
			_, err := s.WriteAll(make([]byte, 1<<20), 0)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond) // until it is full
		stop.Raise()
		select {
		case err := <-done:
			require.Equal(t, ErrStopped, err)
		case <-time.After(5 * time.Second):
			t.Fatal("it waits")
		}
		s.Close()
		stop.Close()
		require.NoError(t, errors.Join(r.Close(), w.Close()))
	}
}

// The last holder removes the file, and another process may have made a new one, between
// opening and locking.
func TestLockIsOfTheFileThatHasTheNameNow(t *testing.T) {
	for _, another := range []bool{false, true} {
		d, path := ownRoot(t)
		looks := 0
		d.FS().Fault = func(c Call) error {
			if c.Op != OpStat || c.Name != "lock" {
				return nil
			}
			if looks++; looks == 2 { // after the file was locked
				require.NoError(t, os.Rename(filepath.Join(path, "lock"), filepath.Join(path, "old")))
				if another {
					put(t, filepath.Join(path, "lock"), "")
				}
			}
			return nil
		}
		lock, err := d.Lock("lock")
		require.NoError(t, err)
		locked, err := lock.file.stat()
		require.NoError(t, err)
		now, err := d.Lstat("lock")
		require.NoError(t, err)
		require.Equal(t, now.ID, locked.ID)
		_, err = d.Lock("lock")
		require.ErrorIs(t, err, ErrLocked)
		lock.Unlock()
	}
}
