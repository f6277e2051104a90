package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// atFirst calls f once, just before the first operation op on name.
func atFirst(t *testing.T, op fsys.Op, name string, f func()) *fsys.FS {
	done := false
	t.Cleanup(func() { require.True(t, done, "%s of %s never came", op, name) })
	return faultfs.New(func(o fsys.Op, n string) error {
		if !done && o == op && n == name {
			done = true
			f()
		}
		return nil
	})
}

// within fails a run that does not end.
func within(t *testing.T, limit time.Duration, o Options) (*Summary, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	type result struct {
		summary *Summary
		err     error
	}
	ended := make(chan result, 1)
	go func() {
		summary, err := Run(ctx, &o, &counters.Set{})
		ended <- result{summary, err}
	}()
	select {
	case got := <-ended:
		return got.summary, got.err
	case <-time.After(2 * limit):
		t.Fatal("the run does not end")
		return nil, nil
	}
}

// A directory that another process makes just before the copy would is used. Its
// metadata is the user's.
func TestDirectoryMadeMeanwhileIsUsed(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows has no modes")
	src, _ := littleTree(t)
	require.NoError(t, os.Chmod(src, 0o750))
	for _, single := range []bool{false, true} {
		dst := filepath.Join(treetest.MemoryDir(t), "dst")
		o := options(src, dst)
		if single {
			o = options(filepath.Join(src, "a"), dst+"/")
		}
		o.FS = atFirst(t, fsys.OpMkdir, "dst", func() {
			require.NoError(t, os.Mkdir(dst, 0o711))
		})
		summary, err := within(t, 10*time.Second, o)
		require.NoError(t, err)
		require.Zero(t, summary.Errors)
		require.FileExists(t, filepath.Join(dst, "a"))
		info, err := os.Stat(dst)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
	}
}

// A directory that this run made and that another process removes before anything is
// in it is made again.
func TestNewDirectoryRemovedMeanwhileIsMadeAgain(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows does not remove a directory that is open")
	src, files := littleTree(t)
	dst := filepath.Join(treetest.MemoryDir(t), "parent", "dst")
	sys := atFirst(t, fsys.OpMkdir, resume.JournalName(""), func() {
		require.NoError(t, os.Remove(dst))
		require.NoError(t, os.Remove(filepath.Dir(dst)))
	})
	summary, err := within(t, 10*time.Second, in(sys, options(src, dst)))
	require.NoError(t, err)
	require.Zero(t, summary.Errors)
	requireWhole(t, dst, files)
}

// A directory that existed and is removed is reported, because a removed mount point
// must not become a directory of the disk below.
func TestOldDirectoryRemovedMeanwhileIsReported(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows does not remove a directory that is open")
	src, _ := littleTree(t)
	dst := filepath.Join(treetest.MemoryDir(t), "dst")
	require.NoError(t, os.Mkdir(dst, 0o755))
	sys := atFirst(t, fsys.OpMkdir, resume.JournalName(""), func() {
		require.NoError(t, os.Remove(dst))
	})
	summary, err := within(t, 10*time.Second, in(sys, options(src, dst)))
	require.NoError(t, err)
	require.ErrorIs(t, summary.Targets[0].Lost, resume.ErrRootRemoved)
	require.NoDirExists(t, dst)
}

// Only empty directories that this run made are removed again.
func TestUndoneDirectories(t *testing.T) {
	t.Parallel()
	top := treetest.MemoryDir(t)
	fresh := &target{Destination: dest.New(route.Destination{Dir: filepath.Join(top, "a", "b", "dst"), Anchor: top}, 0, nil, nil, nil)}
	require.NoError(t, fresh.Make())
	fresh.Root.Close()
	require.NoError(t, os.WriteFile(filepath.Join(top, "a", "theirs"), nil, 0o600))
	fresh.undo(&run{})
	require.NoDirExists(t, filepath.Join(top, "a", "b"))
	require.FileExists(t, filepath.Join(top, "a", "theirs"))

	theirs := &target{Destination: dest.New(route.Destination{Dir: filepath.Join(top, "c", "dst"), Anchor: top}, 0, nil, nil, nil)}
	require.NoError(t, os.MkdirAll(theirs.Dir, 0o700)) // since the paths were resolved
	require.NoError(t, theirs.Make())
	theirs.Root.Close()
	require.False(t, theirs.Created)
	theirs.undo(&run{})
	require.DirExists(t, theirs.Dir)
}

// A copy that is killed leaves a new directory private. The next copy gives it the mode and the time
// of the source, also if the first one was killed before the journal recorded who made the directory.
func TestNewDirectoryOfAKilledCopyGetsTheSourcesMetadata(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "other systems do not mark a new directory")
	src, files := littleTree(t)
	require.NoError(t, os.Chmod(src, 0o751))
	require.NoError(t, os.Chtimes(src, since, since))
	base := treetest.MemoryDir(t)
	killed := errors.New("killed")
	unmarked := 0
	for n := 0; ; n++ {
		dst := filepath.Join(base, strconv.Itoa(n))
		var left atomic.Int64
		left.Store(int64(n))
		sys := faultfs.New(func(fsys.Op, string) error {
			if left.Add(-1) < 0 { // everything fails from here on, so nothing is cleaned up
				return killed
			}
			return nil
		})
		o := in(sys, options(src, dst))
		o.Workers = 1
		_, _ = within(t, 10*time.Second, o)
		if left.Load() >= 0 { // it was not killed
			break
		}
		before, made := os.Lstat(dst)
		if _, marked := os.Lstat(filepath.Join(dst, resume.JournalName(""), "root")); made == nil && marked != nil && left.Load() < 0 {
			unmarked++
		}
		_, err := within(t, 10*time.Second, options(src, dst))
		require.NoError(t, err, "operation %d", n)
		requireWhole(t, dst, files)
		info, err := os.Lstat(dst)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o751, info.Mode(), "operation %d", n)
		if made == nil && before.Mode() == info.Mode() {
			info = before // it was complete, and the next copy does not set its time
		}
		require.WithinDuration(t, since, info.ModTime(), 0, "operation %d", n)
	}
	require.Positive(t, unmarked)
}

// Of two copies into a new directory, one makes it and the other can get the lock. The
// directory then gets the source's metadata all the same, and stays.
func TestNewDirectoryIsLeftToTheRunWithTheLock(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "other systems do not mark a new directory")
	src, files := littleTree(t)
	require.NoError(t, os.Chmod(src, 0o751))
	dst := filepath.Join(treetest.MemoryDir(t), "dst")
	maker, made, goOn := make(chan error, 1), make(chan bool), make(chan bool)
	first := true
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if first && op == fsys.OpMkdir && name == resume.JournalName("") {
			first = false
			made <- true
			<-goOn
		}
		return nil
	})
	go func() {
		o := in(sys, options(src, dst))
		_, err := Run(t.Context(), &o, &counters.Set{})
		maker <- err
	}()
	<-made
	o := in(sys, options(src, dst))
	var refusal error
	began := false
	o.Report = func(e event.Event) {
		if e.Kind == event.Copied && !began { // it has the lock
			began = true
			close(goOn)
			refusal = <-maker
		}
	}
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	var refused *failure.RefusedError
	require.ErrorAs(t, refusal, &refused)
	requireWhole(t, dst, files)
	info, err := os.Stat(dst)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o751), info.Mode().Perm())
	require.NoDirExists(t, filepath.Join(dst, resume.JournalName("")))
}
