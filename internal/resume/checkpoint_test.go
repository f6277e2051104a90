package resume

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/journal"
)

var errTest = errors.New("no checkpoint")

// A successful checkpoint covers the files that were added before it.
func TestCheckpointCoversWhatWasNotedBefore(t *testing.T) {
	root := openRoot(t, nil)
	j, r, w, _ := open(t, root, tested)
	file := func(path string) *journal.File { return &journal.File{Path: path, Size: 10, Digests: digests} }
	w.Add(file("dir/first"), true)
	require.NoError(t, w.Checkpoint(func(g *Group) error {
		require.EqualValues(t, 1, g.Files)
		require.Equal(t, map[string]string{"dir": "dir/first", ".": "dir"}, g.Dirs)
		w.Add(file("during"), false)
		return nil
	}))
	require.ErrorIs(t, w.Checkpoint(func(g *Group) error {
		require.EqualValues(t, 1, g.Files)
		require.Empty(t, g.Dirs)
		return errTest
	}), errTest)
	w.Close()
	r.Close()
	j.Close()

	_, r, _, _ = open(t, root, tested)
	_, _, listed, err := r.known.File("dir/first")
	require.NoError(t, err)
	require.True(t, listed)
	_, _, listed, err = r.known.File("during")
	require.NoError(t, err)
	require.False(t, listed)
}

// If the log cannot be synced, it fails. It returns the error once, and records nothing
// more.
func TestAFailedLogIsReportedOnce(t *testing.T) {
	var fails atomic.Bool
	root := openRoot(t, faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpSync && fails.Load() {
			return syscall.EIO
		}
		return nil
	}))
	_, _, w, _ := open(t, root, tested)
	require.True(t, w.Active())
	require.NoError(t, w.Failure())
	w.Add(&journal.File{Path: "f"}, false)
	fails.Store(true)
	require.NoError(t, w.Checkpoint(flushNothing), "the error is not that of the files")
	require.ErrorIs(t, w.Failure(), syscall.EIO)
	require.NoError(t, w.Failure())
	require.True(t, w.Failed())
	require.False(t, w.Active())
	w.Add(&journal.File{Path: "g"}, false)
	require.NoError(t, w.Checkpoint(func(g *Group) error {
		require.Zero(t, g.Files)
		return nil
	}))
}

// Without Durable, the log records nothing.
func TestNothingIsRecordedThatIsNotDurable(t *testing.T) {
	o := tested
	o.Durable = false
	_, _, w, _ := open(t, openRoot(t, nil), o)
	require.False(t, w.Active())
	w.Add(&journal.File{Path: "f"}, false)
	require.True(t, w.Worked())
	require.False(t, w.Due(time.Now().Add(time.Hour)))
	require.NoError(t, w.Checkpoint(func(g *Group) error {
		require.True(t, g.Empty())
		return nil
	}))
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // since the last checkpoint, which was after an hour
		bytes int64
		want  bool
	}{
		{"nothing was noted", time.Hour, -1, false},
		{"the longest interval", mostInterval, 1, true},
		{"a small part of the time", mostInterval - time.Second, 1, false},
		{"much was noted", time.Millisecond, mostVolume, true},
		{"less was noted", time.Millisecond, leastVolume - 1, false},
	} {
		_, _, w, _ := open(t, openRoot(t, nil), tested)
		w.start = w.mu.last.Add(-time.Hour)
		if c.bytes >= 0 {
			w.Add(&journal.File{Path: "f", Size: c.bytes}, false)
		}
		require.Equal(t, c.want, w.Due(w.mu.last.Add(c.after)), c.name)
	}
}

// large returns a large file that is being written to file, with off bytes written.
func large(file *fsys.Pending, off *atomic.Int64) LargeFile {
	return LargeFile{
		Path: "large", Source: fsys.Info{Size: 2 * LeastPartial}, File: file,
		Reached: func() (int64, [][]byte, bool) { return off.Load(), nil, off.Load() > 0 },
	}
}

// A checkpoint that has flushed file systems still syncs the large files that the flush
// does not cover.
func TestPartsAreSyncedWhereNoFlushCoversThem(t *testing.T) {
	var synced int
	root := openRoot(t, faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpSync {
			synced++
		}
		return nil
	}))
	_, _, w, _ := open(t, root, tested)
	var off atomic.Int64
	for _, separately := range []bool{false, true} {
		o := large(temporary(t, root), &off)
		o.Separately = separately
		f, err := w.Track(o)
		require.NoError(t, err)
		require.NotNil(t, f)
		defer f.Stop()
	}
	off.Store(1)
	require.NoError(t, w.Checkpoint(func(g *Group) error {
		require.False(t, g.Empty())
		synced = 0
		require.NoError(t, g.SyncParts(true))
		require.Equal(t, 1, synced)
		require.NoError(t, g.SyncParts(false))
		require.Equal(t, 3, synced)
		return nil
	}))
}

// Note never waits for a device. It does not wait while the log or a file is synced, or
// while a file is closed, which can wait for a file server.
func TestNoteDoesNotWaitForADevice(t *testing.T) {
	var log *Writer
	var begun atomic.Bool
	var mu sync.Mutex
	waited, slow := map[fsys.Op]int{}, map[fsys.Op]int{}
	root := openRoot(t, faultfs.New(func(op fsys.Op, _ string) error {
		if !begun.Load() || op != fsys.OpSync && op != fsys.OpCloseFile {
			return nil
		}
		noted := make(chan bool)
		go func() {
			log.Add(&journal.File{Path: "f"}, false)
			close(noted)
		}()
		mu.Lock()
		defer mu.Unlock()
		slow[op]++
		select {
		case <-noted:
		case <-time.After(time.Second):
			waited[op]++
		}
		return nil
	}))
	record(t, root, tested, func(w *journal.Writer) {
		require.NoError(t, w.Partial(&journal.Partial{
			Path: "left", Temp: ".sealift-1.tmp", Offset: 2, Size: 3, Mtime: source.Mtime, Ctime: source.Ctime,
		}))
	})
	left, err := root.Create(true)
	require.NoError(t, err)
	require.NoError(t, left.WriteAt([]byte("abc"), 0))
	require.NoError(t, left.Place(".sealift-1.tmp"))
	require.NoError(t, left.Keep())
	_, reader, log, _ := open(t, root, tested)
	var off atomic.Int64
	off.Store(LeastPartial)
	begun.Store(true)

	steps := map[string]func() error{
		"checkpoint of a large file": func() error {
			f, err := log.Track(large(temporary(t, root), &off))
			if err != nil {
				return err
			}
			return log.Checkpoint(func(g *Group) error {
				f.Stop() // the checkpoint closes the descriptor
				return g.SyncParts(false)
			})
		},
		"keeping a large file": func() error {
			f, err := log.Track(large(temporary(t, root), &off))
			if err != nil {
				return err
			}
			f.Stop()
			err = f.Keep(LeastPartial, nil)
			log.RecordKept()
			return err
		},
		"shortening what is left": func() error {
			left := reader.TakeLeftover(root, "left", fsys.Info{Size: 3, Mtime: source.Mtime, Ctime: source.Ctime}, log.Owner)
			require.NotNil(t, left)
			defer log.Discard(left)
			return log.Shorten(left, 1, nil)
		},
	}
	for name, step := range steps {
		waited, slow = map[fsys.Op]int{}, map[fsys.Op]int{}
		require.NoError(t, step(), name)
		require.NotEmpty(t, slow, name)
		require.Empty(t, waited, "%s: Note waited for it", name)
	}
	require.NoError(t, log.Failure())
	begun.Store(false)
}
