package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The collector does not send an event to itself while its channel is full.
func TestCollectorDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a full disk with another error")
	src, dst := filepath.Join(treetest.MemoryDir(t), "src"), treetest.MemoryDir(t)
	deep := filepath.Join(src, strings.Repeat(strings.Repeat("d", 250)+"/", 14)) // long lines fill the log's buffer
	require.NoError(t, os.MkdirAll(deep, 0o755))
	for i := range 600 {
		require.NoError(t, os.WriteFile(filepath.Join(deep, fmt.Sprint("f", i)), []byte("x"), 0o600))
	}
	var full atomic.Bool
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op != fsys.OpWrite {
			return nil
		}
		stack := string(debug.Stack())
		if strings.Contains(stack, "engine.(*collector).run") && strings.Contains(stack, "resume.(*appender).Write") {
			if !full.Swap(true) {
				time.Sleep(300 * time.Millisecond) // in which the workers fill the channel
			}
			return syscall.ENOSPC
		}
		return nil
	})
	o := stopClock(options(src, dst)) // who writes the log else
	o.Sync = dest.SyncEnd
	o.Workers = 8
	o.FS = sys
	out := watched(t, o)
	require.NoError(t, out.err)
	require.True(t, full.Load(), "the collector has not written")
	require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.ENOSPC)
}

// The kernel reports a writeback error once, and the device's goroutine got it. A checkpoint
// whose own sync then succeeds is not written.
func TestNoCheckpointAfterASyncErrorReportedElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "big", treetest.Pattern(48<<20, 1), since)
	require.NoError(t, os.Mkdir(dst, 0o755))
	root, err := fsys.OpenRoot(dst)
	require.NoError(t, err)
	ranges := root.WritesBehind()
	root.Close()
	if !ranges {
		t.Skip("the temporary directory's file system has no writeback of ranges")
	}
	var taken atomic.Bool
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpWriteback && strings.Contains(string(debug.Stack()), "pipe.(*Device).run") && !taken.Swap(true) {
			time.Sleep(time.Second)
			return syscall.EIO
		}
		return nil
	})
	o := options(src, dst)
	o.Sync = dest.SyncEnd
	o.BlockSize = 0
	o.BytesPerSecond = 24 << 20
	o.FS = sys
	out := watched(t, o)
	require.True(t, taken.Load())
	require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EIO)
	logs, err := filepath.Glob(filepath.Join(dst, resume.JournalName(""), "log.*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	f, err := os.Open(logs[0])
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	log, err := journal.Read(f, info.Size())
	require.NoError(t, err)
	p, ok := log.Partial("big")
	require.False(t, ok, "what was lost is noted up to %d", p.Offset)
	require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
}

// The clock was ahead during the first run and has been set right. A change older than a
// checkpoint then proves nothing.
func TestCheckpointsFromTheFutureAreIgnored(t *testing.T) {
	t.Parallel()
	for _, ahead := range []string{"all", "checkpoint"} {
		src, dst := sourceAndDestination(t)
		write(t, src, "f", []byte("AAAA"), since)
		write(t, dst, "f", []byte("BBBB"), since) // today, by its change time
		root, err := fsys.OpenRoot(src)
		require.NoError(t, err)
		info, err := root.Lstat("f")
		root.Close()
		require.NoError(t, err)
		o := options(src, dst)
		o.Sync = dest.SyncEnd
		real, err := filepath.EvalSymlinks(src)
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(filepath.Join(dst, resume.JournalName("")), 0o700))
		f, err := os.Create(filepath.Join(dst, resume.JournalName(""), resume.LogName(real)))
		require.NoError(t, err)
		future := fsys.Time{Sec: time.Now().Unix() + 365*86400}
		begun := future
		if ahead == "checkpoint" {
			begun = fsys.Time{Sec: time.Now().Unix() - 100}
		}
		w, err := journal.Create(f, journal.Header{ID: journal.NewID(), Begun: begun, Options: o.logTerms(), Source: real})
		require.NoError(t, err)
		set := hash.NewSet(o.Hashes)
		set.Write([]byte("AAAA"))
		require.NoError(t, w.File(&journal.File{Path: "f", Size: 4, Mtime: info.Mtime, Ctime: info.Ctime, Digests: set.Digests()}))
		require.NoError(t, w.Checkpoint(w.Size(), future))
		require.NoError(t, w.Flush())
		require.NoError(t, f.Close())
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		require.Zero(t, s.ResumedFiles)
		have, err := os.ReadFile(filepath.Join(dst, "f"))
		require.NoError(t, err)
		require.Equal(t, "AAAA", string(have))
	}
}

// Renaming a directory does not change what is in it, nor its change time.
func TestListedFileInAnExchangedDirectory(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, filepath.Join(dir, "other"), "f", []byte("BBBB"), before)
	time.Sleep(20 * time.Millisecond)
	write(t, src, "dir/f", []byte("AAAA"), since)
	write(t, src, "z", treetest.Pattern(100, 1), since)
	o := options(src, dst)
	o.Sync = dest.SyncEnd
	o.FailFast = true
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpen && name == "z" {
			time.Sleep(50 * time.Millisecond) // the other file is done
			return syscall.EIO
		}
		return nil
	})
	o.FS = sys
	_, err := Run(t.Context(), &o, &counters.Set{})
	o.FS = nil
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dst, "dir", "f"))
	require.NoError(t, os.RemoveAll(filepath.Join(dst, "dir")))
	require.NoError(t, os.Rename(filepath.Join(dir, "other"), filepath.Join(dst, "dir")))
	o.FailFast = false
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	have, err := os.ReadFile(filepath.Join(dst, "dir", "f"))
	require.NoError(t, err)
	require.Equal(t, "AAAA", string(have))
}
