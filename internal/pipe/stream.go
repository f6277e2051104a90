package pipe

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// A Pipe holds what the transfers of one run share. All fields but Pool and
// QueueSize may be left out.
type Pipe struct {
	Pool      *Pool
	QueueSize int           // blocks that may wait in a lane
	KeepHoles bool          // holes of the source become holes of the sinks
	Limiter   *rate.Limiter // of the bytes read
	Bytes     *atomic.Int64 // counts the bytes read while they are
	inFlight  atomic.Int64  // files being read for their digests alone
}

// Sink is where the bytes of one file go at one destination.
type Sink struct {
	File   *fsys.Pending
	Behind *Behind // told what is written; nil for nobody
	Sparse bool    // make holes of zeros
	Err    error   // the first error; nothing is written after it
	end    int64   // end of the last byte written
	marks  marks
}

// Course says how a file is moved that need not be moved from its beginning, or
// perhaps not to its end in this run.
type Course struct {
	Start     int64           // the first byte to move; sinks and digests have what is before it
	MarkEvery int64           // bytes between two marks, see Sink.Reached; 0 for none
	Read      func(off int64) // told how far reading has come; may be nil
}

// piece is what lanes carry: a block's bytes at an offset, a hole, or a mark.
type piece struct {
	block *Block // nil for a hole and a mark
	data  []byte
	off   int64
	hole  int64 // bytes of zeros that need not be written
	mark  *mark
}

// maxHole bounds a piece that is a hole, so that hashing one is interruptible.
const maxHole = 16 << 20 // bytes

// Transfer reads the whole of src once, feeds the digests and writes every
// sink. It returns how far it has come. An error is the source's or the
// context's; a sink's is in the sink and does not hinder the others. Sinks must
// be finished with their size by the caller, who also proves the end of the
// file: bytes beyond info.Size are not looked for unless it is 0.
func (p *Pipe) Transfer(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*Sink, course Course) (int64, error) {
	holes := p.KeepHoles && info.Blocks*512 < info.Size
	if info.Size > int64(p.Pool.size) || course.Start > 0 {
		return p.throughLanes(ctx, src, info, holes, set, sinks, course)
	}
	if holes { // a short file: finding zeros is cheaper than asking for holes
		for _, s := range sinks {
			s.Sparse = true
		}
	}
	total, more, err := p.inline(ctx, src, info, set, sinks)
	if err != nil || !more {
		return total, err
	}
	// It is longer than it said: /proc, or it grew. What was written is written again.
	set.Reset()
	return p.throughLanes(ctx, src, info, false, set, sinks, Course{})
}

// inline moves a file of at most one block: one buffer, no channel, no
// goroutine. more says that the file did not end with the block.
func (p *Pipe) inline(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*Sink) (total int64, more bool, err error) {
	b, err := p.Pool.Get(ctx)
	if err != nil {
		return 0, false, err
	}
	defer b.Release()
	n := 0
	for {
		got, err := src.ReadSomeAt(b.Buf[n:], int64(n))
		if err != nil {
			return 0, false, err
		}
		n += got
		if got == 0 || int64(n) == info.Size {
			break
		}
		if n == len(b.Buf) {
			return int64(n), true, nil
		}
	}
	if err := p.Pace(ctx, n); err != nil {
		return 0, false, err
	}
	set.Write(b.Buf[:n])
	for _, s := range sinks {
		s.Write(b.Buf[:n], 0)
	}
	p.count(int64(n))
	return int64(n), false, nil
}

// throughLanes moves a longer file: the caller reads, each digest and each sink
// has a lane of its own, and buffered channels even out their stalls.
func (p *Pipe) throughLanes(ctx context.Context, src *fsys.File, info fsys.Info, holes bool, set *hash.Set, sinks []*Sink, course Course) (int64, error) {
	l := p.startLanes(set, sinks)
	wanted := func() bool { return l.writing.Load() > 0 && ctx.Err() == nil }
	read := course.Read
	if course.MarkEvery > 0 {
		next := course.Start + course.MarkEvery
		read = func(off int64) {
			if off >= next {
				l.send(piece{off: off, mark: newMark(off, set.Len())})
				next = off + course.MarkEvery
			}
			if course.Read != nil {
				course.Read(off)
			}
		}
	}
	total, err := p.read(ctx, src, info, course.Start, holes, wanted, l.send, read)
	l.close()
	if err == nil {
		err = ctx.Err()
	}
	return total, err
}

// lanes take the pieces of one file.
type lanes struct {
	channels []chan piece
	group    sync.WaitGroup
	writing  atomic.Int64 // sinks that have not failed
}

// startLanes starts a lane for each digest and each sink. The caller must close
// them.
func (p *Pipe) startLanes(set *hash.Set, sinks []*Sink) *lanes {
	l := &lanes{}
	for i := range set.Len() {
		h := set.Hash(i)
		l.add(p.QueueSize, func(q piece) {
			if q.mark != nil {
				q.mark.setState(i, hash.State(h))
				return
			}
			q.feed(h)
		})
	}
	l.writing.Store(int64(len(sinks)))
	for _, s := range sinks {
		l.add(p.QueueSize, func(q piece) {
			switch {
			case s.Err != nil:
			case q.mark != nil:
				if s.reach(q.off); s.Err == nil {
					s.marks.pass(q.mark)
				} else {
					l.writing.Add(-1)
				}
			case q.block != nil:
				if s.Write(q.data, q.off); s.Err != nil {
					l.writing.Add(-1)
				}
			}
		})
	}
	return l
}

func (l *lanes) add(queue int, consume func(piece)) {
	c := make(chan piece, queue)
	l.channels = append(l.channels, c)
	l.group.Go(func() {
		for q := range c {
			consume(q)
			if q.block != nil {
				q.block.Release()
			}
		}
	})
}

func (l *lanes) send(q piece) {
	if q.block != nil {
		q.block.refs.Store(int32(len(l.channels)))
	}
	for _, c := range l.channels {
		c <- q
	}
}

// close waits until the lanes have taken everything.
func (l *lanes) close() {
	for _, c := range l.channels {
		close(c)
	}
	l.group.Wait()
}

// feed gives the piece to a digest.
func (q piece) feed(w io.Writer) {
	for hole := q.hole; hole > 0; hole -= int64(len(zeros)) {
		_, _ = w.Write(zeros[:min(hole, int64(len(zeros)))]) // digests take everything
	}
	_, _ = w.Write(q.data)
}

// read sends the file piece by piece from start until it ends, nobody wants
// more, or an error, and returns how far it has come. It holds one block at a time and none while it waits for the next.
// behind, if not nil, is told how far it has come after each block.
func (p *Pipe) read(ctx context.Context, src *fsys.File, info fsys.Info, start int64, holes bool, wanted func() bool, send func(piece), behind func(off int64)) (int64, error) {
	off, dataEnd := start, int64(0)
	for wanted() && (off < info.Size || info.Size == 0) {
		limit := int64(p.Pool.size)
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
				p.count(size)
				continue
			default:
				dataEnd = hole
			}
		}
		if holes {
			// Whole units, which direct reads ask for; more than the hole has is zeros.
			limit = min(limit, alignUp(dataEnd)-off)
		}
		b, err := p.Pool.Get(ctx)
		if err != nil {
			return off, err
		}
		n, err := src.ReadAt(b.Buf[:limit], off)
		if err == nil && n > 0 {
			err = p.Pace(ctx, n)
		}
		if err != nil || n == 0 {
			b.Release()
			return off, err
		}
		send(piece{block: b, data: b.Buf[:n], off: off})
		off += int64(n)
		p.count(int64(n))
		if behind != nil {
			behind(off)
		}
	}
	return off, nil
}

func (p *Pipe) count(n int64) {
	if p.Bytes != nil {
		p.Bytes.Add(n)
	}
}

// Pace waits until n more bytes are within --bwlimit.
func (p *Pipe) Pace(ctx context.Context, n int) error {
	if p.Limiter == nil {
		return nil
	}
	return p.Limiter.WaitN(ctx, n)
}

// Write puts data at the offset off, unless an earlier write failed.
func (s *Sink) Write(data []byte, off int64) {
	if s.Err != nil {
		return
	}
	if !s.Sparse {
		s.put(data, off)
		return
	}
	for len(data) > 0 && s.Err == nil {
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

func (s *Sink) put(data []byte, off int64) {
	if len(data) == 0 {
		return
	}
	if s.Err = s.File.WriteAt(data, off); s.Err != nil {
		return
	}
	s.end = max(s.end, off+int64(len(data)))
	if s.Behind != nil {
		s.Behind.Wrote(off, int64(len(data)))
	}
}

// Continue makes the sink one of a file whose first start bytes are there.
func (s *Sink) Continue(start int64) {
	if s.Err = s.File.Truncate(start); s.Err == nil {
		s.end = start
	}
}

// reach gives the file at least the size off, where a hole ends there: whoever
// continues it must not take a shorter file for one.
func (s *Sink) reach(off int64) {
	if s.Err == nil && s.end < off {
		if s.Err = s.File.Truncate(off); s.Err == nil {
			s.end = off
		}
	}
}

// Stop ends the file at off, for somebody to continue it there.
func (s *Sink) Stop(off int64) error {
	s.reach(off)
	return s.Err
}

// Finish gives the file its size where the end of it is a hole.
func (s *Sink) Finish(size int64) {
	if s.Err == nil && s.end != size {
		s.Err = s.File.Truncate(size)
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
