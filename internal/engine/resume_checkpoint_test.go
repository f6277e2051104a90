package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// manyFiles makes a source with more files than one checkpoint covers.
func manyFiles(t *testing.T) (source string, files map[string][]byte) {
	t.Helper()
	source = filepath.Join(treetest.MemoryDir(t), "src")
	files = map[string][]byte{}
	for i := range 40 {
		files[fmt.Sprintf("%02d", i)] = treetest.Pattern(1000+i, byte(i))
	}
	for name, content := range files {
		write(t, source, name, content, since)
	}
	return source, files
}

// until waits for something that a checkpoint does.
func until(what *atomic.Bool) {
	for range 2000 {
		if what.Load() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// zero replaces the content of a file by zeros, as a power cut may leave a file that was not
// synced.
func zero(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// zeroAll calls zero for every file of a destination.
func zeroAll(t *testing.T, dir string, files map[string][]byte) (count int) {
	t.Helper()
	for name := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			zero(t, filepath.Join(dir, name))
			count++
		}
	}
	return count
}

// A checkpoint that fails to sync drops its destination, and is reported and not retried. That
// destination gets no manifest, the journal stays, and the next run replaces the lost content.
// The other destination is not affected.
func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it refuses to flush a file system")
	source, files := manyFiles(t)
	o := sweepOptions(source, []string{filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")}, dest.SyncEnd)
	var refused atomic.Bool
	sys := faultfs.New(func(op fsys.Op, name string) error {
		switch {
		case op == fsys.OpOpen && name == "30":
			until(&refused)
		case op == fsys.OpSyncFS && refused.CompareAndSwap(false, true):
			return syscall.EIO
		}
		return nil
	})
	o.FS = sys
	out := watched(t, o)
	require.True(t, refused.Load(), "or this tests nothing")
	require.NoError(t, out.err)
	require.EqualValues(t, 1, out.summary.Errors, "%s", out)
	lost, kept := 0, 1
	if out.summary.Targets[1].Lost != nil {
		lost, kept = 1, 0
	}
	require.ErrorIs(t, out.summary.Targets[lost].Lost, syscall.EIO)
	require.NoError(t, out.summary.Targets[kept].Lost)
	require.Empty(t, out.summary.Targets[lost].Manifests)
	require.NoFileExists(t, filepath.Join(o.Targets[lost], "SHA256SUMS"))
	require.Len(t, logs(t, o.Targets[lost]), 1)
	o.FS = nil
	one := o
	one.Targets = []string{o.Targets[kept]}
	requireContent(t, one, files)

	require.NotZero(t, zeroAll(t, o.Targets[lost], files))
	requireCopied(t, o, files)
}

// A sync that failed is not tried again, also at the end of the run.
func TestCheckpointRefusedIsNotRetried(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it refuses to flush a file system")
	source, files := manyFiles(t)
	for _, refusal := range []error{syscall.EIO, syscall.ENOSPC} {
		o := sweepOptions(source, []string{filepath.Join(t.TempDir(), "dst")}, dest.SyncEnd)
		var refused atomic.Bool
		var again atomic.Int64
		sys := faultfs.New(func(op fsys.Op, name string) error {
			switch {
			case op == fsys.OpOpen && name == "30":
				until(&refused)
			case op == fsys.OpSyncFS && refused.CompareAndSwap(false, true):
				return refusal
			case (op == fsys.OpSyncFS || op == fsys.OpSync) && refused.Load():
				again.Add(1)
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		require.True(t, refused.Load(), "or this tests nothing")
		require.NoError(t, out.err)
		require.Zero(t, again.Load(), "forced again after %v", refusal)
		require.NoFileExists(t, filepath.Join(o.Targets[0], "SHA256SUMS"))
		require.Len(t, logs(t, o.Targets[0]), 1)
		log, err := os.ReadFile(logs(t, o.Targets[0])[0])
		require.NoError(t, err)
		require.NotContains(t, string(log), " c ", "a checkpoint that did not take place")
		require.NotZero(t, zeroAll(t, o.Targets[0], files))
		o.FS = nil
		requireCopied(t, o, files)
	}
}

// A failed writeback of a large file drops its destination in the same way.
func TestWritebackRefused(t *testing.T) {
	t.Parallel()
	_, source, files := largeSource(t)
	write(t, source, "a", treetest.Pattern(100, 2), since)
	files["a"] = treetest.Pattern(100, 2)
	for _, window := range []int64{DirtyWindowAuto, 1 << 20} {
		o := largeOptions(source, filepath.Join(t.TempDir(), "dst"))
		o.DirtyWindow = window
		var refused atomic.Bool
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpWriteback && refused.CompareAndSwap(false, true) {
				return syscall.EIO
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		if !refused.Load() {
			t.Skip("the file system of temporary files is not followed by writeback")
		}
		require.NoError(t, out.err)
		require.EqualValues(t, 1, out.summary.Errors, "%s", out)
		require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EIO)
		require.NoFileExists(t, filepath.Join(o.Targets[0], "SHA256SUMS"))
		require.Len(t, logs(t, o.Targets[0]), 1)
		zeroAll(t, o.Targets[0], files)
		o.FS = nil
		requireCopied(t, o, files)
	}
}

// A journal that cannot be written or synced is reported once, and the lines of the manifest
// are right.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it waits for the flush of a file system")
	source, files := manyFiles(t)
	for _, failing := range []fsys.Op{fsys.OpSync, fsys.OpWrite} {
		o := sweepOptions(source, []string{filepath.Join(t.TempDir(), "dst")}, dest.SyncEnd)
		var flushed, refused atomic.Bool
		sys := faultfs.New(func(op fsys.Op, name string) error {
			switch {
			case op == fsys.OpOpen && name == "30":
				until(&refused)
			case op == fsys.OpSyncFS:
				flushed.Store(true)
			// After the flush, the checkpoint writes and syncs its log. No other goroutine does
			// anything, because the only worker waits.
			case op == failing && flushed.Load() && refused.CompareAndSwap(false, true):
				return syscall.EIO
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		require.True(t, refused.Load(), "or this tests nothing")
		require.NoError(t, out.err)
		require.EqualValues(t, 1, out.summary.Errors, "%s: %s", failing, out)
		require.Contains(t, out.String(), "journal")
		if list, err := os.ReadFile(filepath.Join(o.Targets[0], "SHA256SUMS")); err == nil {
			for name, digest := range readManifest(t, string(list)) {
				require.Equal(t, sha(string(files[name])), digest, name)
			}
		}
		zeroAll(t, o.Targets[0], files)
		o.FS = nil
		again := o
		again.Policy = policy.Checksum
		requireCopied(t, again, files)
	}
}

// A journal that cannot be opened or read is not removed: its records of the destination's
// files are still right.
func TestAJournalThatCannotBeReadStays(t *testing.T) {
	t.Parallel()
	source, files := manyFiles(t)
	write(t, source, "large", treetest.Pattern(largeSize, 3), since)
	files["large"] = treetest.Pattern(largeSize, 3)
	for _, failing := range []fsys.Op{fsys.OpOpen, fsys.OpTruncate} {
		o := largeOptions(source, filepath.Join(t.TempDir(), "dst"))
		o.Hashes = nil
		stopAt(t, o, secondStop)
		require.Len(t, logs(t, o.Targets[0]), 1)
		var hit atomic.Bool
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == failing && (op != fsys.OpOpen || strings.HasPrefix(name, "log.")) && hit.CompareAndSwap(false, true) {
				return syscall.EIO
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		require.True(t, hit.Load(), "or this tests nothing")
		require.NoError(t, out.err)
		require.NotZero(t, out.summary.Errors)
		require.Len(t, logs(t, o.Targets[0]), 1, "after %s has failed", failing)
		zeroAll(t, o.Targets[0], files)
		o.FS = nil
		requireCopied(t, o, files)
	}
}

// A run that was stopped syncs its files before the journal lists them.
func TestAStoppedRunHasSyncedTheFilesThatItLists(t *testing.T) {
	t.Parallel()
	source, files := manyFiles(t)
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
		o := sweepOptions(source, []string{filepath.Join(t.TempDir(), "dst")}, sync)
		ctx, cancel := context.WithCancel(t.Context())
		var stopped, refused atomic.Bool
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpOpen && name == "30" {
				cancel()
				stopped.Store(true)
			}
			if (op == fsys.OpSyncFS || op == fsys.OpSync) && stopped.Load() && refused.CompareAndSwap(false, true) {
				return syscall.EIO
			}
			return nil
		})
		o.FS = sys
		_, err := Run(ctx, &o, &counters.Set{})
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, refused.Load(), "nothing was forced")
		log, err := os.ReadFile(logs(t, o.Targets[0])[0])
		require.NoError(t, err)
		if sync == dest.SyncEnd {
			require.NotContains(t, string(log), " c ", "a checkpoint that did not take place")
			require.NotZero(t, zeroAll(t, o.Targets[0], files))
		}
		o.FS = nil
		requireCopied(t, o, files)
	}
}

// With --sync=none the journal records no files, and nothing is synced.
func TestWithoutSyncTheJournalRecordsNothing(t *testing.T) {
	t.Parallel()
	_, source, files := largeSource(t)
	for i := range 10 {
		name := fmt.Sprintf("%02d", i)
		files[name] = treetest.Pattern(1000, byte(i))
		write(t, source, name, files[name], since)
	}
	o := largeOptions(source, filepath.Join(t.TempDir(), "dst"))
	o.Sync, o.DirtyWindow = dest.SyncNone, DirtyWindowOff
	o.Hashes = nil // so that only the journal shows that the files may be incomplete
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpSync || op == fsys.OpSyncFS || op == fsys.OpSyncDrive || op == fsys.OpWriteback {
			return errors.New("it was forced")
		}
		return nil
	})
	stopAt(t, in(sys, o), secondStop)
	log, err := os.ReadFile(logs(t, o.Targets[0])[0])
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(log, []byte("\n")), "%s", log)
	require.Empty(t, temporaries(t, o.Targets[0]))
	require.NotZero(t, zeroAll(t, o.Targets[0], files))
	requireCopied(t, o, files)
}
