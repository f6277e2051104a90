package engine

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// All goroutines share one block. A deadlock ends the bubble with a panic.
func TestTheSmallestPoolDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	src, files := littleTree(t)
	for _, workers := range []int{1, 2, 16} {
		for _, queue := range []int{1, 10} {
			synctest.Test(t, func(t *testing.T) {
				o := options(src, threeTargets(treetest.MemoryDir(t))...)
				o.Workers, o.QueueSize, o.Memory, o.Hashes = workers, queue, 1, hash.Algorithms()
				for _, chosen := range []policy.Policy{policy.Default, policy.Checksum} { // the second run compares
					o.Policy = chosen
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

// While all writes wait, reading stops at the memory limit. A reader that waits for a queue
// continues when half of it is empty, so at least the other half is full then. At first writes are
// only slow, in virtual time, so that files get lanes.
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
