package engine

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// sink is where the bytes of one file go at one destination.
type sink struct {
	file   *fsys.Pending
	sparse bool  // make holes of zeros
	end    int64 // end of the last byte written
	err    error // the first error; nothing is written after it
}

// piece is what lanes carry: a block's bytes at an offset, or a hole.
type piece struct {
	block *block // nil for a hole
	data  []byte
	off   int64
	hole  int64 // bytes of zeros that need not be written
}

// maxHole bounds a piece that is a hole, so that hashing one is interruptible.
const maxHole = 16 << 20 // bytes

// transfer reads the whole of src once, feeds the digests and writes every
// sink. It returns the number of bytes read. An error is the source's or the
// context's; a sink's is in the sink and does not hinder the others. Sinks must
// be finished with their size by the caller, who also proves the end of the
// file: bytes beyond info.Size are not looked for unless it is 0.
func (r *run) transfer(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*sink) (int64, error) {
	holes := r.opts.Sparse == SparseAuto && info.Blocks*512 < info.Size
	if info.Size > int64(r.pool.size) {
		return r.throughLanes(ctx, src, info, holes, set, sinks)
	}
	if holes { // a short file: finding zeros is cheaper than asking for holes
		for _, s := range sinks {
			s.sparse = true
		}
	}
	total, more, err := r.inline(ctx, src, info, set, sinks)
	if err != nil || !more {
		return total, err
	}
	// It is longer than it said: /proc, or it grew. What was written is written again.
	set.Reset()
	return r.throughLanes(ctx, src, info, false, set, sinks)
}

// inline moves a file of at most one block: one buffer, no channel, no
// goroutine. more says that the file did not end with the block.
func (r *run) inline(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*sink) (total int64, more bool, err error) {
	b, err := r.pool.get(ctx)
	if err != nil {
		return 0, false, err
	}
	defer b.release()
	n := 0
	for {
		got, err := src.ReadSomeAt(b.buf[n:], int64(n))
		if err != nil {
			return 0, false, err
		}
		n += got
		if got == 0 || int64(n) == info.Size {
			break
		}
		if n == len(b.buf) {
			return int64(n), true, nil
		}
	}
	if err := r.pace(ctx, n); err != nil {
		return 0, false, err
	}
	set.Write(b.buf[:n])
	for _, s := range sinks {
		s.write(b.buf[:n], 0)
	}
	r.counters.Bytes.Add(int64(n))
	return int64(n), false, nil
}

// throughLanes moves a longer file: the caller reads, each digest and each sink
// has a lane of its own, and buffered channels even out their stalls.
func (r *run) throughLanes(ctx context.Context, src *fsys.File, info fsys.Info, holes bool, set *hash.Set, sinks []*sink) (int64, error) {
	var (
		lanes   []chan piece
		group   sync.WaitGroup
		writing atomic.Int64 // sinks that have not failed
	)
	lane := func(consume func(piece)) {
		c := make(chan piece, r.opts.QueueSize)
		lanes = append(lanes, c)
		group.Go(func() {
			for p := range c {
				consume(p)
				if p.block != nil {
					p.block.release()
				}
			}
		})
	}
	for i := range set.Len() {
		h := set.Hash(i)
		lane(func(p piece) {
			for hole := p.hole; hole > 0; hole -= int64(len(zeros)) {
				h.Write(zeros[:min(hole, int64(len(zeros)))])
			}
			h.Write(p.data)
		})
	}
	writing.Store(int64(len(sinks)))
	for _, s := range sinks {
		lane(func(p piece) {
			if s.err == nil && p.block != nil {
				if s.write(p.data, p.off); s.err != nil {
					writing.Add(-1)
				}
			}
		})
	}
	send := func(p piece) {
		if p.block != nil {
			p.block.refs.Store(int32(len(lanes)))
		}
		for _, c := range lanes {
			c <- p
		}
	}
	wanted := func() bool { return writing.Load() > 0 && ctx.Err() == nil }
	total, err := r.read(ctx, src, info, holes, wanted, send)
	for _, c := range lanes {
		close(c)
	}
	group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return total, err
}

// read sends the file piece by piece until it ends, nobody wants more, or an
// error. It holds one block at a time and none while it waits for the next.
func (r *run) read(ctx context.Context, src *fsys.File, info fsys.Info, holes bool, wanted func() bool, send func(piece)) (int64, error) {
	off, dataEnd := int64(0), int64(0)
	for wanted() && (off < info.Size || info.Size == 0) {
		limit := int64(r.pool.size)
		if holes && off >= dataEnd {
			data, hole, end, err := src.NextData(off)
			switch {
			case err != nil && !fsys.Unsupported(err):
				return off, err
			case err != nil:
				holes = false
			case end || data > off:
				if end {
					data = info.Size
				}
				size := min(min(data, info.Size)-off, maxHole)
				send(piece{off: off, hole: size})
				off += size
				r.counters.Bytes.Add(size)
				continue
			default:
				dataEnd = hole
			}
		}
		if holes {
			limit = min(limit, dataEnd-off)
		}
		b, err := r.pool.get(ctx)
		if err != nil {
			return off, err
		}
		n, err := src.ReadAt(b.buf[:limit], off)
		if err == nil && n > 0 {
			err = r.pace(ctx, n)
		}
		if err != nil || n == 0 {
			b.release()
			return off, err
		}
		send(piece{block: b, data: b.buf[:n], off: off})
		off += int64(n)
		r.counters.Bytes.Add(int64(n))
	}
	return off, nil
}

// pace waits until n more bytes are within --bwlimit.
func (r *run) pace(ctx context.Context, n int) error {
	if r.limiter == nil {
		return nil
	}
	return r.limiter.WaitN(ctx, n)
}

// write puts data at the offset off, unless an earlier write failed.
func (s *sink) write(data []byte, off int64) {
	if s.err != nil {
		return
	}
	if !s.sparse {
		s.put(data, off)
		return
	}
	for len(data) > 0 && s.err == nil {
		n := min(len(data), sparseUnit-int(off%sparseUnit))
		zero := isZero(data[:n])
		for n < len(data) {
			end := min(n+sparseUnit, len(data))
			if isZero(data[n:end]) != zero {
				break
			}
			n = end
		}
		if !zero {
			s.put(data[:n], off)
		}
		data, off = data[n:], off+int64(n)
	}
}

func (s *sink) put(data []byte, off int64) {
	if len(data) == 0 {
		return
	}
	if s.err = s.file.WriteAt(data, off); s.err == nil {
		s.end = max(s.end, off+int64(len(data)))
	}
}

// finish gives the file its size where the end of it is a hole.
func (s *sink) finish(size int64) {
	if s.err == nil && s.end != size {
		s.err = s.file.Truncate(size)
	}
}

// sparseUnit is the least run of zeros that becomes a hole: a page, which is
// also the block size of most file systems.
const sparseUnit = 4096 // bytes

var zeros [64 << 10]byte

func isZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}
