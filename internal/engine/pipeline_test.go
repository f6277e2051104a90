package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Every run ends all its goroutines, and closes all descriptors. The test is not parallel, so
// that a goroutine that is left belongs to its run.
func TestEveryRunEndsAllItsGoroutines(t *testing.T) {
	src, files := littleTree(t)
	for name, change := range map[string]func(o *Options){
		"plain":    func(*Options) {},
		"totals":   func(*Options) {},
		"dry run":  func(o *Options) { o.DryRun = true },
		"no hash":  func(o *Options) { o.Hashes = nil },
		"all":      func(o *Options) { o.Hashes = hash.Algorithms() },
		"refused":  func(o *Options) { o.Targets = []string{src} },
		"missing":  func(o *Options) { o.Source = filepath.Join(src, "none") },
		"one file": func(o *Options) { o.Source = filepath.Join(src, "b/big") },
		"limited":  func(o *Options) { o.BytesPerSecond = 50 << 20 },
		"same":     func(o *Options) { o.Targets[1] = o.Targets[0] },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			open := &faultfs.OpenFiles{}
			o := in(&fsys.FS{Tracker: open}, options(src, threeTargets(t.TempDir())...))
			change(&o)
			o.scanAfter = 1
			s, err := Run(context.Background(), &o, &counters.Set{CountTotals: name == "totals"})
			if err == nil {
				require.Zero(t, s.Errors)
			}
			if name == "plain" {
				require.Equal(t, len(files), requireWhole(t, o.Targets[2], files))
			}
			require.Empty(t, open.Left())
		})
	}
}

func TestCancellationAtEveryOperation(t *testing.T) {
	linuxOnly(t, "system calls are slow elsewhere, and there is a run for each")
	t.Parallel()
	src, files := littleTree(t)
	dir := treetest.MemoryDir(t)
	var total atomic.Int64
	sys := faultfs.New(func(fsys.Op, string) error { total.Add(1); return nil })
	o := options(src, threeTargets(filepath.Join(dir, "count"))...)
	o.FS, o.scanAfter = sys, 1
	_, err := Run(context.Background(), &o, &counters.Set{CountTotals: true})
	require.NoError(t, err)
	o.FS = nil
	stopped := 0
	runs, stride := int64(0), sweepStride(11)
	for k := int64(1); k <= total.Load(); k += stride {
		runs++
		ctx, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("the user")
		var calls atomic.Int64
		sys := faultfs.New(func(fsys.Op, string) error {
			if calls.Add(1) == k {
				cancel(reason)
			}
			return nil
		})
		base := filepath.Join(dir, fmt.Sprint(k))
		o := options(src, threeTargets(base)...)
		o.scanAfter = 1
		var failed []string
		o.Report = func(e event.Event) {
			if e.Kind != event.Copied {
				failed = append(failed, fmt.Sprint(e))
			}
		}
		o.FS = sys
		s, err := Run(ctx, &o, &counters.Set{CountTotals: true})
		o.FS = nil
		cancel(nil)
		require.Empty(t, failed, "an interruption is no failure (operation %d)", k)
		if err != nil {
			stopped++
			require.ErrorIs(t, err, reason)
		}
		require.NotNil(t, s)
		for _, target := range o.Targets {
			count := requireWhole(t, target, files)
			_, err := os.Stat(filepath.Join(target, "SHA256SUMS"))
			if err == nil {
				require.Equal(t, len(files), count, "a manifest of a part")
			}
		}
		// Running again goes on where this one stopped.
		o = options(src, o.Targets...)
		s, err = Run(context.Background(), &o, &counters.Set{})
		require.NoError(t, err)
		require.Zero(t, s.Errors, "operation %d", k)
		for _, target := range o.Targets {
			require.Equal(t, len(files), requireWhole(t, target, files), "operation %d", k)
			require.FileExists(t, filepath.Join(target, "SHA256SUMS"))
			require.NoDirExists(t, filepath.Join(target, ".sealift-journal"), "operation %d", k)
		}
		treetest.Remove(t, base)
	}
	require.Greater(t, stopped, int(runs/2))
}

// A run that replaces files is stopped, and another source is copied. No manifest has a line
// of the replaced content.
func TestAnInterruptedReplacementLeavesNoFalseLine(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"unreadable", "other source"} {
		t.Run(second, func(t *testing.T) {
			dir := treetest.MemoryDir(t)
			src, other, dst := filepath.Join(dir, "src"), filepath.Join(dir, "other"), filepath.Join(dir, "dst")
			write(t, src, "a", []byte("old a"), before)
			write(t, src, "b", []byte("old b"), before)
			write(t, other, "c", []byte("c"), before)
			o := options(src, dst)
			o.Workers = 1
			_, err := Run(context.Background(), &o, &counters.Set{})
			require.NoError(t, err)
			write(t, src, "a", []byte("new a"), since)
			write(t, src, "b", []byte("new b"), since)

			ctx, cancel := context.WithCancel(context.Background())
			replaced := false
			sys := faultfs.New(func(op fsys.Op, name string) error {
				if op == fsys.OpRename && name == "a" {
					replaced = true
				} else if replaced && op == fsys.OpCloseFile {
					cancel()
				}
				return nil
			})
			o = options(src, dst)
			o.Workers = 1
			o.FS = sys
			_, err = Run(ctx, &o, &counters.Set{})
			o.FS = nil
			require.ErrorIs(t, err, context.Canceled)
			content, err := os.ReadFile(filepath.Join(dst, "a"))
			require.NoError(t, err)
			require.Equal(t, "new a", string(content))
			require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))

			o = options(src, dst)
			if second == "other source" {
				o = options(other, dst)
			} else {
				o.FS = faultfs.New(func(op fsys.Op, name string) error {
					if op == fsys.OpOpen && name == "a" {
						return syscall.EACCES
					}
					return nil
				})
			}
			_, err = Run(context.Background(), &o, &counters.Set{})
			require.NoError(t, err)
			b, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
			require.NoError(t, err)
			for path, digest := range readManifest(t, string(b)) {
				content, err := os.ReadFile(filepath.Join(dst, path))
				require.NoError(t, err)
				require.Equal(t, sha(string(content)), digest, "the line of %s is false", path)
			}
		})
	}
}

// A refusal comes before the first write.
func TestARefusalWritesNothing(t *testing.T) {
	t.Parallel()
	src, _ := littleTree(t)
	dir := treetest.MemoryDir(t)
	busy := filepath.Join(dir, "busy")
	require.NoError(t, os.Mkdir(busy, 0o755))
	root, err := fsys.OpenRoot(busy)
	require.NoError(t, err)
	defer root.Close()
	j, err := resume.OpenJournal(root, resume.JournalName(""))
	require.NoError(t, err)
	defer j.Close()
	o := options(src, filepath.Join(dir, "new"), busy)
	_, err = Run(t.Context(), &o, &counters.Set{})
	var refused *failure.RefusedError
	require.ErrorAs(t, err, &refused)
	require.NoDirExists(t, filepath.Join(dir, "new"))
}

// With --sync=file every directory that got a new name is synced, whatever the policy.
func TestSyncFileSyncsDirectoriesUnderEveryPolicy(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	write(t, src, "sub/new", []byte("x"), since)
	count := func(policy policy.Policy) int {
		dst := filepath.Join(treetest.MemoryDir(t), "dst")
		require.NoError(t, os.MkdirAll(filepath.Join(dst, "sub"), 0o755))
		n := 0
		var mu sync.Mutex
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpSync {
				mu.Lock()
				n++
				mu.Unlock()
			}
			return nil
		})
		o := options(src, dst)
		o.Policy, o.Sync = policy, dest.SyncFile
		o.FS = sys
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.EqualValues(t, 1, s.Files)
		return n
	}
	require.Equal(t, count(policy.Update), count(policy.Never))
}

// With --sync=file updated metadata is synced too.
func TestSyncFileSyncsUpdatedMetadata(t *testing.T) {
	linuxOnly(t, "it counts system calls")
	t.Parallel()
	src, dst := filepath.Join(treetest.MemoryDir(t), "src"), filepath.Join(treetest.MemoryDir(t), "dst")
	write(t, src, "file", []byte("x"), since)
	o := options(src, dst)
	_, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	count := func() (refreshed bool, syncs int) {
		var mu sync.Mutex
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if op == fsys.OpSync {
				syncs++
			}
			return nil
		})
		o := stopClock(options(src, dst))
		o.Sync = dest.SyncFile
		o.Hashes = nil // whether a file is as old as its manifest does not matter
		o.Report = func(e event.Event) { refreshed = refreshed || e.Action == "metadata updated" }
		o.FS = sys
		_, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		return refreshed, syncs
	}
	refreshed, idle := count()
	require.False(t, refreshed)
	require.NoError(t, os.Chmod(filepath.Join(dst, "file"), 0o600))
	refreshed, syncs := count()
	require.True(t, refreshed)
	require.Equal(t, idle+1, syncs)
}

// Progress counts the bytes of a file once, however often they are copied.
func TestProgressCountsAFileOnce(t *testing.T) {
	t.Parallel()
	src, dst := filepath.Join(treetest.MemoryDir(t), "src"), filepath.Join(treetest.MemoryDir(t), "dst")
	write(t, src, "file", treetest.Pattern(bigSize, 1), since)
	t.Run("the name has appeared", func(t *testing.T) {
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpLink && name == "file" {
				write(t, dst, "file", []byte("somebody's"), longAgo)
			}
			return nil
		})
		c := &counters.Set{}
		o := options(src, dst)
		o.FS = sys
		s, err := Run(t.Context(), &o, c)
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		require.EqualValues(t, 1, s.Files)
		require.EqualValues(t, bigSize, c.Bytes.Load())
	})
	t.Run("reading fails half-way", func(t *testing.T) {
		short := filepath.Join(treetest.MemoryDir(t), "src")
		write(t, short, "file", treetest.Pattern(100, 1), since)
		var reads int
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op != fsys.OpRead {
				return nil
			}
			if reads++; reads == 1 {
				return os.Truncate(filepath.Join(short, "file"), 60)
			}
			return syscall.EIO
		})
		c := &counters.Set{}
		o := options(short, filepath.Join(treetest.MemoryDir(t), "dst"))
		o.FS = sys
		s, err := Run(t.Context(), &o, c)
		require.NoError(t, err)
		require.EqualValues(t, 1, s.Errors)
		require.EqualValues(t, 100, c.Bytes.Load())
	})
}

// Names that were moved to the temporary file are linked as the others.
func TestHardLinksThatOutgrowMemory(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	const n = 200
	for i := range n {
		write(t, src, fmt.Sprintf("a/%03d", i), []byte(fmt.Sprint(i)), since)
	}
	for _, dir := range []string{"b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(src, dir), 0o755))
		for i := range n {
			require.NoError(t, os.Link(filepath.Join(src, fmt.Sprintf("a/%03d", i)), filepath.Join(src, fmt.Sprintf("%s/%03d", dir, i))))
		}
	}
	targets := threeTargets(treetest.MemoryDir(t))
	o := options(src, targets...)
	o.linkedMemory = 1 << 10
	s, err := Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.Zero(t, s.Errors)
	require.EqualValues(t, 2*n, s.HardLinks)
	for _, target := range targets {
		for i := range n {
			first, err := os.Stat(filepath.Join(target, fmt.Sprintf("a/%03d", i)))
			require.NoError(t, err)
			for _, dir := range []string{"b", "c"} {
				other, err := os.Stat(filepath.Join(target, fmt.Sprintf("%s/%03d", dir, i)))
				require.NoError(t, err)
				require.True(t, os.SameFile(first, other))
			}
		}
	}
	s, err = Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)
	require.EqualValues(t, 3*n, s.Skipped)
}
