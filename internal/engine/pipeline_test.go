package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
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
	o.FS = sys
	_, err := Run(context.Background(), &o, &counters.Set{CountTotals: true})
	require.NoError(t, err)
	o.FS = nil
	stopped := 0
	runs, stride := int64(0), sweepStride(7)
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
		var failed []string
		o.Report = func(e Event) {
			if e.Kind != EventCopied {
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

// All goroutines share one block. A deadlock ends the bubble with a panic.
func TestTheSmallestPoolDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	src, files := littleTree(t)
	for _, workers := range []int{1, 2, 16} {
		for _, queue := range []int{1, 10} {
			synctest.Test(t, func(t *testing.T) {
				o := options(src, threeTargets(treetest.MemoryDir(t))...)
				o.Workers, o.QueueSize, o.Memory, o.Hashes = workers, queue, 1, hash.Algorithms()
				for _, policy := range []Policy{PolicyDefault, PolicyChecksum} { // the second run compares
					o.Policy = policy
					s, err := Run(t.Context(), &o, &counters.Set{})
					require.NoError(t, err)
					require.Zero(t, s.Errors)
				}
				for _, target := range o.Targets {
					require.Equal(t, len(files), requireWhole(t, target, files))
				}
			})
		}
	}
}

// While all writes wait, reading stops at the memory limit. A reader that waits for a queue goes on
// when half of it is empty, so at least the other half is full then. At first writes
// are only slow, in virtual time, so that files get lanes.
func TestASlowSinkDoesNotLetMemoryGrow(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	for i := range 8 {
		write(t, src, fmt.Sprint("big", i), treetest.Pattern(50*sweepBlock, byte(i)), since)
	}
	for _, c := range []struct{ workers, queue, blocks, least, most int }{
		{4, 10, 7, 7, 7},      // the ceiling
		{4, 2, 1000, 12, 16},  // the queues: in each file one in the writer's hand, two queued, one in the reader's
		{2, 2, 1000, 6, 8},    // the workers
		{1, 20, 1000, 12, 22}, // the queue
		{4, 10, 0, 28, 48},    // the default: workers x (queue + 2)
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const sequentialBlocks = 8 // blocks of a file
				var reads, writes, opens atomic.Int64
				release := make(chan struct{})
				sys := faultfs.New(func(op fsys.Op, name string) error {
					switch {
					case op == fsys.OpRead:
						reads.Add(1)
					case op == fsys.OpOpen && strings.HasPrefix(name, "big"):
						opens.Add(1)
					case op == fsys.OpWrite && opens.Load() > 0: // not the journal's
						if writes.Add(1) <= int64(2*c.workers*sequentialBlocks) { // at two destinations
							time.Sleep(time.Second)
							return nil
						}
						<-release
					}
					return nil
				})
				o := options(src, filepath.Join(treetest.MemoryDir(t), "dst"), filepath.Join(treetest.MemoryDir(t), "dst"))
				o.Workers, o.QueueSize, o.Memory = c.workers, c.queue, int64(c.blocks*sweepBlock)
				var running sync.WaitGroup
				running.Go(func() {
					o.FS = sys
					s, err := Run(t.Context(), &o, &counters.Set{})
					if err != nil || s.Errors > 0 {
						t.Errorf("%v, %+v", err, s)
					}
				})
				time.Sleep(3 * sequentialBlocks * time.Second)
				synctest.Wait()
				held := int(reads.Load()) - c.workers*sequentialBlocks
				require.GreaterOrEqual(t, held, c.least)
				require.LessOrEqual(t, held, c.most)
				require.LessOrEqual(t, opens.Load(), int64(c.workers))
				close(release)
				running.Wait()
			})
		})
	}
}

func TestBlockSizeActs(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	write(t, src, "file", treetest.Pattern(100_000, 1), since)
	for _, size := range []int{4 << 10, 10_000, 50_000, 100_000, 1 << 20} {
		var writes, reads atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			switch op {
			case fsys.OpWrite:
				if reads.Load() > 0 { // not the journal's
					writes.Add(1)
				}
			case fsys.OpRead:
				reads.Add(1)
			}
			return nil
		})
		o := options(src, filepath.Join(treetest.MemoryDir(t), "dst"))
		o.BlockSize, o.Hashes, o.Reflink = size, nil, ReflinkNever // else the system copies
		o.FS = sys
		_, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		want := int64((100_000 + size - 1) / size)
		require.Equal(t, want, writes.Load(), "blocks of %d", size)
		require.Equal(t, want, reads.Load(), "blocks of %d", size)
	}
}

func TestWorkersAct(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	for i := range 20 {
		write(t, src, fmt.Sprint("f", i), treetest.Pattern(10, byte(i)), since)
	}
	for _, workers := range []int{1, 3, 12} {
		synctest.Test(t, func(t *testing.T) {
			var reading, writing atomic.Int64
			release := make(chan struct{})
			sys := faultfs.New(func(op fsys.Op, _ string) error {
				switch {
				case op == fsys.OpRead:
					reading.Add(1)
				case op == fsys.OpWrite && reading.Load() > 0: // not the journal's
					writing.Add(1)
					<-release
				}
				return nil
			})
			o := options(src, filepath.Join(treetest.MemoryDir(t), "dst"))
			o.Workers = workers
			var running sync.WaitGroup
			running.Go(func() {
				o.FS = sys
				if _, err := Run(t.Context(), &o, &counters.Set{}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			require.EqualValues(t, workers, writing.Load())
			close(release)
			running.Wait()
		})
	}
}

// Time is virtual and passes only while a goroutine waits.
func TestBandwidthLimitActs(t *testing.T) {
	t.Parallel()
	src := filepath.Join(treetest.MemoryDir(t), "src")
	for i := range 4 {
		write(t, src, fmt.Sprint("f", i), treetest.Pattern(250_000, byte(i)), since)
	}
	synctest.Test(t, func(t *testing.T) {
		o := options(src, filepath.Join(treetest.MemoryDir(t), "dst"))
		o.BytesPerSecond = 100_000
		begun := time.Now()
		_, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.InDelta(t, 10, time.Since(begun).Seconds(), 0.1)
	})
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
	count := func(policy Policy) int {
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
		o.Policy, o.Sync = policy, SyncFile
		o.FS = sys
		s, err := Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.EqualValues(t, 1, s.Files)
		return n
	}
	require.Equal(t, count(PolicyUpdate), count(PolicyNever))
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
		o.Sync = SyncFile
		o.Hashes = nil // whether a file is as old as its manifest does not matter
		o.Report = func(e Event) { refreshed = refreshed || e.Action == "metadata" }
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

// Pending links that were moved to the temporary file are linked as the others.
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
	o.pendingLinksMemory = 1 << 10
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
