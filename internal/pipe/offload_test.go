//go:build linux

package pipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// offloadUnit is how much the system copies at once with the window of offloadWindow.
const (
	offloadUnit   = chunkUnit
	offloadWindow = 2 * chunkUnit
)

// The system copies the file with its holes. Progress is visible meanwhile: bytes are
// counted, the device is informed, and marks have the offset.
func TestOffloadCopiesDataAndHoles(t *testing.T) {
	const unit = offloadUnit
	files := map[string][]stretch{
		"data":            {dense(20)},
		"a hole first":    {{3 * unit, true}, dense(9)},
		"a hole between":  {{5 * unit, false}, {40 * unit, true}, dense(7)},
		"a hole at last":  {dense(6), {7 * unit, true}},
		"nothing but one": {{50*unit + 1, true}},
		"two":             {{unit, true}, {2 * unit, false}, {3 * unit, true}, {unit, false}, {1, true}},
	}
	for _, dir := range []string{treetest.MemoryDir(t), t.TempDir()} {
		for name, parts := range files {
			for _, start := range []int64{0, 2*unit + 17} {
				t.Run(fmt.Sprint(name, " from ", start), func(t *testing.T) {
					t.Cleanup(func() { goleak.VerifyNone(t) })
					sys := new(fsys.FS)
					d, src, info, content := rangeSource(t, sys, dir, parts...)
					skipWithoutRanges(t, d, src)
					device := newDevice(t, DeviceOptions{Window: offloadWindow, Ranges: true})
					s, watched := rangeSink(t, d, device)
					require.NoError(t, s.File.WriteAt(content[:start], 0))
					s.Continue(start)
					p := mover(testBlock, 2, 2*testBlock, true)
					read := int64(0)
					o := MoveOptions{Start: start, MarkEvery: 2 * unit, Read: func(off int64) {
						require.Greater(t, off, read)
						read = off
						if m, ok := s.Reached(); ok {
							have, err := s.File.Stat()
							require.NoError(t, err)
							require.LessOrEqual(t, m.Off, have.Size, "who continues there must not take it for another file")
							require.Greater(t, m.Off, off-2*unit-int64(len(content)))
						}
					}}
					c := count(sys, p, nil)
					n, err := p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{s}, o)
					require.NoError(t, err)
					require.Equal(t, info.Size, n)
					require.Equal(t, info.Size-start, p.Bytes.Load())
					require.Zero(t, c.reads)
					require.Zero(t, c.writes)
					require.Zero(t, p.Pool.Out())
					s.Finish(n)
					require.NoError(t, s.Err)
					s.Behind.Finish()
					device.Drain()
					require.Zero(t, device.Unwritten())
					if name == "data" {
						require.LessOrEqual(t, c.step, int64(unit), "the window is for a step, too")
						m, ok := s.Reached()
						require.True(t, ok)
						require.Greater(t, m.Off, info.Size-4*unit)
						end := start
						for _, chunk := range watched.chunks {
							require.Equal(t, end, chunk[0], "the device gets all written data")
							end = chunk[1]
						}
						require.Equal(t, info.Size, end)
					}
					require.LessOrEqual(t, blocksOf(t, s), info.Blocks*512+3*unit)
					require.True(t, string(content) == string(written(t, s)))
				})
			}
		}
	}
}

// Refused, whenever that is, the file is read and written from there on.
func TestRefusedOffloadContinuesByReadingAndWriting(t *testing.T) {
	for _, refusal := range []struct {
		err  error
		pair bool
	}{{syscall.EXDEV, true}, {syscall.ENOSYS, true}, {syscall.EOPNOTSUPP, true}, {syscall.EINVAL, false}, {syscall.EPERM, false}} {
		for _, nth := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(refusal.err, nth), func(t *testing.T) {
				sys := new(fsys.FS)
				d, src, info, content := rangeSource(t, sys, treetest.MemoryDir(t), dense(3), stretch{4 * offloadUnit, true}, dense(5))
				skipWithoutRanges(t, d, src)
				device := newDevice(t, DeviceOptions{Window: offloadWindow, Ranges: true})
				s, _ := rangeSink(t, d, device)
				p := mover(testBlock, 2, 2*testBlock, true)
				c := count(sys, p, func(c *calls, op fsys.Op) error {
					if op == fsys.OpCopyRange && c.ranges >= nth {
						return refusal.err
					}
					return nil
				})
				o := MoveOptions{MarkEvery: offloadUnit}
				n, err := p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{s}, o)
				require.NoError(t, err)
				require.Equal(t, info.Size, n)
				require.Equal(t, info.Size, p.Bytes.Load())
				require.Equal(t, nth, c.ranges, "asked once")
				require.Positive(t, c.reads)
				require.Equal(t, refusal.pair, s.Refused.Load())
				s.Finish(n)
				require.NoError(t, s.Err)
				m, ok := s.Reached()
				require.True(t, ok)
				require.Greater(t, m.Off, n-2*offloadUnit)
				s.Behind.Finish()
				require.True(t, string(content) == string(written(t, s)))

				// The next file reports it.
				next, _ := rangeSink(t, d, nil)
				next.Refused = s.Refused
				before := c.ranges
				_, err = p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{next}, MoveOptions{})
				require.NoError(t, err)
				require.Equal(t, refusal.pair, c.ranges == before)
				next.Finish(n)
				require.True(t, string(content) == string(written(t, next)))
			})
		}
	}
}

// A file that turns out to be shorter ends the copying, early or late: 0 bytes are
// no reason to ask again.
func TestOffloadOfAFileThatShrinks(t *testing.T) {
	for _, nth := range []int{1, 4} {
		for _, to := range []int64{0, 2 * offloadUnit, 5*offloadUnit + 1} {
			for _, parts := range [][]stretch{{dense(12)}, {dense(8), {3 * offloadUnit, true}, dense(1)}} {
				dir := treetest.MemoryDir(t)
				sys := new(fsys.FS)
				d, src, info, content := rangeSource(t, sys, dir, parts...)
				skipWithoutRanges(t, d, src)
				device := newDevice(t, DeviceOptions{Window: offloadWindow, Ranges: true})
				s, _ := rangeSink(t, d, device)
				p := mover(testBlock, 2, 2*testBlock, true)
				c := count(sys, p, func(c *calls, op fsys.Op) error {
					if op == fsys.OpCopyRange && c.ranges == nth {
						return os.Truncate(filepath.Join(dir, "src"), to)
					}
					return nil
				})
				n, err := p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{s}, MoveOptions{})
				require.NoError(t, err)
				require.NoError(t, s.Err)
				require.Equal(t, n, p.Bytes.Load())
				if len(parts) == 1 { // else what is missing is taken for a hole, and the caller looks
					require.Equal(t, max(to, int64(nth-1)*offloadUnit), n)
				}
				require.Less(t, c.ranges, 20)
				s.Behind.Finish()
				got := written(t, s)
				require.True(t, string(content[:min(int64(len(got)), to)]) == string(got[:min(int64(len(got)), to)]))
			}
		}
	}
}

// A file that reports a size of 0 may have content.
func TestOffloadOfFilesWithoutASize(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	require.NoError(t, err)
	sys := new(fsys.FS)
	src, info, err := openDirOf(t, sys, "/proc").Open("version")
	require.NoError(t, err)
	defer src.Close()
	info.Size = int64(len(want))
	s, _ := rangeSink(t, openDirOf(t, sys, treetest.MemoryDir(t)), nil)
	p := mover(16, 2, 64, false)
	c := count(sys, p, nil)
	n, err := p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{s}, MoveOptions{})
	require.NoError(t, err)
	require.Equal(t, info.Size, n)
	require.Equal(t, 1, c.ranges)
	s.Finish(n)
	require.Equal(t, string(want), string(written(t, s)))
}

// An error of copying is the sink's, unless the source cannot be read there; then
// it is the source's. Nothing is copied after it.
func TestOffloadErrorIsTheSinksUnlessTheSourceFails(t *testing.T) {
	for _, nth := range []int{1, 4} {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
			for _, badRead := range []int{0, 1, 9} { // 9: far behind where copying began
				t.Run(fmt.Sprint(err, nth, badRead), func(t *testing.T) {
					sys := new(fsys.FS)
					d, src, info, content := rangeSource(t, sys, treetest.MemoryDir(t), dense(12))
					skipWithoutRanges(t, d, src)
					device := newDevice(t, DeviceOptions{Window: offloadWindow, Ranges: true})
					s, _ := rangeSink(t, d, device)
					p := mover(testBlock, 2, testBlock, true)
					broken := errors.New("the source")
					c := count(sys, p, func(c *calls, op fsys.Op) error {
						switch {
						case op == fsys.OpCopyRange && c.ranges == nth:
							return err
						case op == fsys.OpRead && c.reads == badRead:
							return broken
						}
						return nil
					})
					n, got := p.Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{s}, MoveOptions{})
					if badRead > 0 {
						require.ErrorIs(t, got, broken)
						require.NoError(t, s.Err)
					} else {
						require.NoError(t, got)
						require.ErrorIs(t, s.Err, err)
						require.EqualValues(t, offloadUnit/testBlock, c.reads, "what may have failed, and no more")
					}
					require.Equal(t, nth, c.ranges)
					require.Zero(t, c.writes)
					require.Equal(t, int64(nth-1)*offloadUnit, n)
					require.Equal(t, n, p.Bytes.Load())
					require.Zero(t, p.Pool.Out())
					require.False(t, s.Refused.Load())
					s.Behind.Finish()
					require.True(t, string(content[:n]) == string(written(t, s)))
				})
			}
		}
	}
}

// Stopped, the sink has all that was counted.
func TestOffloadStoppedHasAllThatWasCounted(t *testing.T) {
	sys := new(fsys.FS)
	d, src, info, content := rangeSource(t, sys, treetest.MemoryDir(t), dense(4), stretch{4 * offloadUnit, true}, dense(8))
	skipWithoutRanges(t, d, src)
	for nth := 1; nth < 12; nth++ {
		ctx, cancel := context.WithCancel(t.Context())
		device := newDevice(t, DeviceOptions{Window: offloadWindow, Ranges: true})
		s, _ := rangeSink(t, d, device)
		p := mover(testBlock, 2, testBlock, true)
		c := count(sys, p, func(c *calls, op fsys.Op) error {
			if op == fsys.OpCopyRange && c.ranges == nth {
				cancel()
			}
			return nil
		})
		n, err := p.Move(ctx, src, info, hash.NewSet(nil), []*Sink{s}, MoveOptions{MarkEvery: offloadUnit})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, nth, c.ranges)
		require.Less(t, n, info.Size)
		require.Equal(t, n, p.Bytes.Load())
		require.NoError(t, s.Stop(n))
		s.Behind.Finish()
		require.True(t, string(content[:n]) == string(written(t, s)))
	}
}

// The system does not copy files whose bytes a digest needs or a limit counts.
func TestOffloadIsNotForAll(t *testing.T) {
	sys := new(fsys.FS)
	d, src, info, content := rangeSource(t, sys, treetest.MemoryDir(t), dense(3))
	for name, change := range map[string]func(p *Pipe, s *Sink){
		"limited":      func(p *Pipe, _ *Sink) { p.Limiter = rate.NewLimiter(rate.Inf, testBlock) },
		"sparse":       func(_ *Pipe, s *Sink) { s.Sparse = true },
		"never":        func(_ *Pipe, s *Sink) { s.Refused = nil },
		"refused":      func(_ *Pipe, s *Sink) { s.Refused.Store(true) },
		"digest":       nil,
		"second sink":  nil,
		"direct write": func(_ *Pipe, s *Sink) { _, _ = s.File.SetDirect(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := rangeSink(t, d, nil)
			out, set := []*Sink{s}, hash.NewSet(nil)
			p := mover(testBlock, 2, 4*testBlock, true)
			switch name {
			case "digest":
				set = freshSet()
			case "second sink":
				second, _ := rangeSink(t, d, nil)
				out = append(out, second)
			default:
				change(p, s)
			}
			c := count(sys, p, nil)
			n, err := p.Move(t.Context(), src, info, set, out, MoveOptions{})
			require.NoError(t, err)
			if name != "direct write" { // which the offload refuses itself
				require.Zero(t, c.ranges)
			}
			require.Positive(t, c.writes)
			for _, s := range out {
				s.Finish(n)
				require.NoError(t, s.Err)
				require.True(t, string(content) == string(written(t, s)))
			}
			if name == "digest" {
				require.Equal(t, digestsOf(content), set.Digests())
			}
		})
	}
}

// A clone is read, for its digests and marks, and never written.
func TestACloneIsOnlyRead(t *testing.T) {
	const markAt = 4 * testBlock
	for _, size := range []int64{1, testBlock, testBlock + 1, 30*testBlock + 5} {
		sys := new(fsys.FS)
		d, src, info, content := rangeSource(t, sys, treetest.MemoryDir(t), stretch{n: size})
		clone, _ := rangeSink(t, d, nil)
		require.NoError(t, clone.File.WriteAt(content, 0))
		clone.Clone = true
		other, _ := rangeSink(t, d, nil)
		for _, out := range [][]*Sink{{clone}, {clone, other}} {
			p := mover(testBlock, 2, 4*testBlock, true)
			c := count(sys, p, nil)
			set := freshSet()
			n, err := p.Move(t.Context(), src, info, set, out, MoveOptions{MarkEvery: markAt})
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.Equal(t, size, p.Bytes.Load())
			require.Equal(t, digestsOf(content), set.Digests())
			require.Equal(t, len(out) > 1, c.writes > 0)
			if size > 2*markAt {
				m, ok := clone.Reached()
				require.True(t, ok)
				require.Equal(t, size/markAt*markAt, m.Off)
				require.NotEmpty(t, m.States)
			}
			clone.Finish(n - 1)
			require.NoError(t, clone.Stop(n-1), "nothing is cut off")
			require.Zero(t, c.ranges)
			require.Zero(t, c.truncates)
		}
		require.Equal(t, content, written(t, clone))
		require.Equal(t, content, written(t, other))
	}
}
