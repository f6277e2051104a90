//go:build linux

package pipe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// flowing moves a file with two digests to two sinks while so many other files are
// under way, in virtual time: nothing takes any but what at makes wait. at is called
// in the goroutine that does the operation. It returns how many goroutines there
// were at most besides those at the beginning, and the blocks read before the first.
func flowing(t *testing.T, others int64, at func(p *Pipe, op fsys.Op, reads int64)) (lanes, reads int) {
	t.Helper()
	const size = 60*testBlock + 7
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(size, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o600))
	synctest.Test(t, func(t *testing.T) {
		sys := new(fsys.FS)
		d := openDirOf(t, sys, dir)
		src, info, err := d.Open("f")
		require.NoError(t, err)
		defer src.Close()
		p := mover(testBlock, 2, 7*testBlock, false)
		p.files.Add(others)
		out, set := sinks(t, d, 2), freshSet()
		before := bubbled()
		var done atomic.Int64
		var mu sync.Mutex
		unhook := hook(sys, func(op fsys.Op, _ string) error {
			if op == fsys.OpRead {
				mu.Lock()
				now := bubbled() - before
				if now > 0 && lanes == 0 {
					reads = int(done.Load())
				}
				lanes = max(lanes, now)
				mu.Unlock()
				done.Add(1)
			}
			if at != nil {
				at(p, op, done.Load())
			}
			return nil
		})
		n, err := p.Move(t.Context(), src, info, set, out, MoveOptions{MarkEvery: testBlock})
		unhook()
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		require.Equal(t, digestsOf(content), set.Digests())
		require.Zero(t, p.Pool.Out())
		for _, s := range out {
			require.NoError(t, s.Err)
			require.Equal(t, content, written(t, s))
		}
	})
	return lanes, reads
}

// bubbled counts the goroutines of the test's bubble: those of the runtime and of
// earlier tests, which come and go, are not in it. One that just starts may be
// missed. The bubble itself fails a test that leaves one behind.
func bubbled() int {
	buf := make([]byte, 1<<20)
	return bytes.Count(buf[:runtime.Stack(buf, true)], []byte("synctest bubble"))
}

// consumers are the lanes of a file in flowing.
const consumers = 2 + 2

// With as many files in progress as cores, the flow stays sequential to the end of a file.
func TestFlowIsSequentialWhileNoCoreIsIdle(t *testing.T) {
	lanes, _ := flowing(t, int64(runtime.GOMAXPROCS(0))-1, nil)
	require.Zero(t, lanes)
}

// A core is idle, from the beginning or from some block on: a file gets its lanes
// at the next look.
func TestFilesGetLanesForAnIdleCore(t *testing.T) {
	cores := int64(runtime.GOMAXPROCS(0))
	lanes, reads := flowing(t, -cores, nil)
	require.Equal(t, consumers, lanes)
	require.Equal(t, sequentialBlocks, reads)
	if cores == 1 {
		t.Skip("the only core is never idle while a file is under way")
	}
	lanes, reads = flowing(t, cores, func(p *Pipe, op fsys.Op, reads int64) {
		if op == fsys.OpRead && reads == 2*sequentialBlocks+3 {
			p.files.Add(-cores)
		}
	})
	require.Equal(t, consumers, lanes)
	require.Equal(t, 3*sequentialBlocks, reads)
}

// A device makes a file wait, on either side: it gets its lanes, whatever the
// others do.
func TestFilesGetLanesWhereADeviceWaits(t *testing.T) {
	cores := int64(runtime.GOMAXPROCS(0))
	block := testBlock * maxPerByte
	for _, op := range []fsys.Op{fsys.OpRead, fsys.OpWrite} {
		for _, from := range []int64{1, 20} {
			lanes, reads := flowing(t, cores, func(_ *Pipe, now fsys.Op, reads int64) {
				if now == op && reads >= from {
					time.Sleep(2 * block)
				}
			})
			require.Equal(t, consumers, lanes, "%s from %d", op, from)
			require.LessOrEqual(t, reads, int(from)+2*sequentialBlocks, "%s from %d", op, from)
		}
		lanes, _ := flowing(t, cores, func(_ *Pipe, now fsys.Op, _ int64) {
			if now == op {
				time.Sleep(block / 3) // two sinks are written
			}
		})
		require.Zero(t, lanes, "%s is fast enough", op)
	}
}

// A mark in a sequential flow is the same as through lanes: the digests can continue from
// there, and the sinks have all data before it. A sequential flow has no data after it.
func TestSequentialMarksAreThoseOfLanes(t *testing.T) {
	const size, every = 41*testBlock + 99, 4 * testBlock
	cores := int64(runtime.GOMAXPROCS(0))
	dir := treetest.MemoryDir(t)
	content := makeStretches(t, filepath.Join(dir, "f"),
		stretch{n: 10 * testBlock}, stretch{11 * testBlock, true}, stretch{n: size - 21*testBlock})
	d := openDir(t, dir)
	var marks [2]Mark
	for i, others := range []int64{cores, -cores} {
		sequential := i == 0
		t.Run(fmt.Sprint("in turn ", sequential), func(t *testing.T) {
			src, info, err := d.Open("f")
			require.NoError(t, err)
			defer src.Close()
			p := mover(testBlock, 2, 4*testBlock, false)
			p.files.Add(others)
			set, s := freshSet(), sinks(t, d, 1)[0]
			s.Sparse = true // so that some marks are in a hole
			seen := map[int64]Mark{}
			o := MoveOptions{MarkEvery: every, Read: func(off int64) {
				m, ok := s.Reached()
				if ok {
					seen[m.Off] = m
					have, err := s.File.Stat()
					require.NoError(t, err)
					require.GreaterOrEqual(t, have.Size, m.Off)
				}
				if sequential && off >= every {
					require.True(t, ok)
					require.Less(t, off-m.Off, int64(every))
				}
			}}
			synctest.Test(t, func(t *testing.T) { // no device is slow
				_, err := p.Move(t.Context(), src, info, set, []*Sink{s}, o)
				require.NoError(t, err)
			})
			last, ok := s.Reached()
			require.True(t, ok)
			seen[last.Off] = last
			marks[i] = last
			require.Equal(t, digestsOf(content), set.Digests())
			s.Finish(size)
			got := written(t, s)
			require.True(t, string(content) == string(got))
			for off, m := range seen {
				again := freshSet()
				require.Empty(t, again.Restore(m.States))
				again.Write(content[off:])
				require.Equal(t, digestsOf(content), again.Digests(), "from %d", off)
			}
		})
	}
	require.Equal(t, marks[0], marks[1])
}

// A sink that fails gets no more data, in a sequential flow and through lanes, and the
// other sink gets everything.
func TestASinkFailsAlone(t *testing.T) {
	cores := int64(runtime.GOMAXPROCS(0))
	dir := treetest.MemoryDir(t)
	content := treetest.Pattern(40*testBlock, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o600))
	sys := new(fsys.FS)
	d := openDirOf(t, sys, dir)
	for _, others := range []int64{cores, -cores} {
		for _, nth := range []int64{1, 11, 50} {
			for _, all := range []bool{false, true} {
				src, info, err := d.Open("f")
				require.NoError(t, err)
				p := mover(testBlock, 2, 4*testBlock, false)
				p.files.Add(others)
				var writes, failed, reads atomic.Int64
				unhook := hook(sys, func(op fsys.Op, _ string) error {
					if op == fsys.OpRead {
						reads.Add(1)
					}
					if op == fsys.OpWrite && (writes.Add(1) == nth || all && writes.Load() > nth) {
						failed.Add(1)
						return os.ErrInvalid
					}
					return nil
				})
				out := sinks(t, d, 2)
				_, err = p.Move(t.Context(), src, info, hash.NewSet(nil), out, MoveOptions{MarkEvery: testBlock})
				unhook()
				src.Close()
				require.NoError(t, err)
				require.Zero(t, p.Pool.Out())
				whole := 0
				for _, s := range out {
					if s.Err == nil {
						whole++
						require.Equal(t, content, written(t, s))
						continue
					}
					require.ErrorIs(t, s.Err, os.ErrInvalid)
					s.File.Abort()
				}
				if all {
					require.Zero(t, whole)
					require.EqualValues(t, 2, failed.Load())
					require.Less(t, reads.Load(), int64(40), "no lane needs the rest")
				} else {
					require.Equal(t, 1, whole)
				}
			}
		}
	}
}

// A consumer that wakes its sender for each piece does little else when data is in memory.
func TestSenderOfAFullLaneContinuesWhenHalfOfItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow[*Sink](&Pipe{QueueSize: 4}, hash.NewSet(nil), nil, nil)
		f.lanes = &lanes{}
		step := make(chan struct{})
		var taken, sent atomic.Int64
		f.lanes.add(f, timing.CPU, func(piece) {
			<-step
			taken.Add(1)
		})
		send := func() {
			f.lanes.send(piece{}, nil)
			sent.Add(1)
		}
		send()
		synctest.Wait() // the consumer has this piece, so the next four fill the queue
		go func() {
			for range 11 {
				send()
			}
			f.close()
		}()
		var sentAfter []int64
		for taken.Load() < 12 {
			synctest.Wait()
			sentAfter = append(sentAfter, sent.Load())
			step <- struct{}{}
			synctest.Wait()
		}
		require.Equal(t, []int64{5, 5, 7, 7, 9, 9, 11, 11, 12, 12, 12, 12}, sentAfter)
	})
}
