package pipe

import (
	"context"
	"math"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// A Pipe has the resources and options that all files of a run share. Only Pool and QueueSize
// are required.
type Pipe struct {
	Pool      *Pool
	QueueSize int           // blocks that may wait in a lane
	KeepHoles bool          // true if holes of the source become holes of the sinks
	Limiter   *rate.Limiter // limit of the bytes read
	Bytes     *atomic.Int64 // counts the bytes as they are read; may be nil

	also   *atomic.Int64 // a second counter of the bytes; may be nil
	files  atomic.Int64  // number of files in progress
	parent *Pipe         // the Pipe whose count of files is used; nil for p itself
}

// Counting returns a copy of p with other counters of bytes. also may be nil.
func (p *Pipe) Counting(bytes, also *atomic.Int64) *Pipe {
	return &Pipe{
		Pool: p.Pool, QueueSize: p.QueueSize, KeepHoles: p.KeepHoles, Limiter: p.Limiter,
		Bytes: bytes, also: also, parent: p,
	}
}

// inProgress returns the counter of files in progress.
func (p *Pipe) inProgress() *atomic.Int64 {
	if p.parent != nil {
		return p.parent.inProgress()
	}
	return &p.files
}

// MoveOptions are the options of Move. All of them are optional.
type MoveOptions struct {
	Start     int64           // the offset of the first byte to move; sinks and digests have the bytes before it
	MarkEvery int64           // bytes between two marks, see Sink.Reached; 0 for none
	Read      func(off int64) // a function that gets the offset after each read; may be nil
	// Activity is that of the caller, which has set it to the place of the file that is read. It may be nil.
	Activity *timing.Activity
}

// piece is an element of a lane's channel: a block's bytes at an offset, a hole, or a mark.
type piece struct {
	block *Block // the block that has data; nil for a hole and a mark
	data  []byte
	off   int64
	hole  int64 // length of a hole in bytes
	mark  *mark
}

// maxHole is the largest hole in one piece if there are digests, so that a long hole can be
// interrupted.
const maxHole = 16 << 20 // bytes

// Move reads src once, feeds the digests and writes every sink. It returns the offset that
// it has reached. An error is the source's or the context's; a sink's error is in the sink
// and does not stop the others. The caller must call Finish for each sink, and check that
// the file ends at info.Size: Move reads no further, unless info.Size is 0.
func (p *Pipe) Move(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*Sink, o MoveOptions) (int64, error) {
	holes := p.KeepHoles && len(sinks) > 0 && info.Blocks*512 < info.Size
	p.inProgress().Add(1)
	defer p.inProgress().Add(-1)
	long := info.Size > int64(p.Pool.size) || o.Start > 0
	if holes && (!long || !findsHoles(src)) { // for a short file finding zeros is cheaper; else there is no other way
		for _, s := range sinks {
			s.Sparse = true
		}
		holes = false
	}
	if long {
		return p.stream(ctx, src, info, holes, set, sinks, o)
	}
	total, more, err := p.inline(ctx, src, info, set, sinks, o.Activity)
	if err != nil || !more {
		return total, err
	}
	// It is longer than info.Size, as in /proc, or it has grown. Sealift writes it again.
	set.Reset()
	return p.stream(ctx, src, info, false, set, sinks, MoveOptions{Read: o.Read, Activity: o.Activity})
}

// findsHoles reports whether the system can find the holes of src.
func findsHoles(src *fsys.File) bool {
	_, _, _, err := src.NextData(0)
	return !fsys.Unsupported(err)
}

// inline moves a file of at most one block, without channels and goroutines. more reports that
// the file did not end with the block.
func (p *Pipe) inline(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, sinks []*Sink, activity *timing.Activity) (total int64, more bool, err error) {
	b, err := p.get(ctx, activity)
	if err != nil {
		return 0, false, err
	}
	defer b.Release()
	n := 0
	for {
		got, err := src.ReadSomeAt(b.Buf[n:], int64(n))
		if err != nil {
			return 0, false, failure.At(err, int64(n))
		}
		n += got
		if got == 0 || int64(n) == info.Size {
			break
		}
		if n == len(b.Buf) {
			return int64(n), true, nil
		}
	}
	if err := p.Pace(ctx, n, activity); err != nil {
		return 0, false, err
	}
	q := piece{block: b, data: b.Buf[:n]}
	from := activity.At(timing.CPU)
	for i := range set.Len() {
		q.digest(set, i)
	}
	for _, s := range sinks {
		activity.At(s.Place)
		s.take(q)
	}
	activity.At(from)
	p.Count(int64(n))
	return int64(n), false, nil
}

// get waits for a block.
func (p *Pipe) get(ctx context.Context, activity *timing.Activity) (*Block, error) {
	if b := p.Pool.tryGet(ctx); b != nil {
		return b, nil
	}
	defer activity.At(activity.At(timing.None))
	return p.Pool.Get(ctx)
}

// stream moves a longer file, piece by piece.
func (p *Pipe) stream(ctx context.Context, src *fsys.File, info fsys.Info, holes bool, set *hash.Set, sinks []*Sink, o MoveOptions) (int64, error) {
	f := newFlow(p, set, sinks, o.Activity)
	// The end of the context ends reading between two blocks, without an error. The lanes take what
	// was sent. So a later run can continue the file at the returned offset.
	wanted := func() bool { return f.wanted() && ctx.Err() == nil }
	afterRead := o.Read
	if o.MarkEvery > 0 {
		next := o.Start + o.MarkEvery
		afterRead = func(off int64) {
			if off >= next {
				f.send(piece{off: off, mark: newMark(off, set.Len())})
				next = off + o.MarkEvery
			}
			if o.Read != nil {
				o.Read(off)
			}
		}
	}
	start := o.Start
	var err error
	if f.offloads(sinks) {
		start, err = f.offload(ctx, sinks[0], src, info.Size, start, holes, afterRead)
	}
	longest := int64(0) // bytes of a hole in one piece; 0 to read holes as zeros
	switch {
	case holes && set.Len() > 0:
		longest = maxHole
	case holes:
		longest = math.MaxInt64
	}
	total := start
	if err == nil {
		total, err = f.read(ctx, src, info, start, longest, wanted, afterRead)
	}
	f.close()
	if err == nil {
		err = ctx.Err()
	}
	return total, err
}

// read sends the file piece by piece from start until it ends, wanted returns false, or an
// error occurs. It returns the offset that it has reached, and calls afterRead, if not nil, with that
// offset after each block. It holds one block at a time, and none while it
// waits for the next. Holes become pieces of at most longest bytes; if longest is 0, holes are
// read as zeros.
func (f *flow) read(ctx context.Context, src *fsys.File, info fsys.Info, start, longest int64, wanted func() bool, afterRead func(off int64)) (int64, error) {
	p := f.pipe
	off, dataEnd, holes := start, int64(0), longest > 0
	for wanted() && (off < info.Size || info.Size == 0) {
		limit := int64(p.Pool.size)
		if holes && off >= dataEnd {
			data, hole, end, err := src.NextData(off)
			switch {
			case err != nil && !fsys.Unsupported(err):
				return off, failure.At(err, off)
			case err != nil:
				holes = false
			case end || data > off:
				if end {
					data = info.Size
				}
				size := min(min(data, info.Size)-off, longest)
				f.send(piece{off: off, hole: size})
				off += size
				p.Count(size)
				continue
			default:
				dataEnd = hole
			}
		}
		if holes {
			// Complete units, as direct reads require. They may include zeros of the next
			// hole.
			limit = min(limit, alignUp(dataEnd)-off)
		}
		b, err := f.get(ctx)
		if err != nil {
			return off, err
		}
		n, err := src.ReadAt(b.Buf[:limit], off)
		if err != nil {
			err = failure.At(err, off+int64(n))
		} else if n > 0 {
			err = p.Pace(ctx, n, f.activity)
		}
		if err != nil || n == 0 {
			b.Release()
			return off, err
		}
		f.send(piece{block: b, data: b.Buf[:n], off: off})
		off += int64(n)
		p.Count(int64(n))
		if afterRead != nil {
			afterRead(off)
		}
	}
	return off, nil
}

// Count adds n to the counters of bytes.
func (p *Pipe) Count(n int64) {
	for _, c := range [...]*atomic.Int64{p.Bytes, p.also} {
		if c != nil {
			counters.Grow(c, n)
		}
	}
}

// Pace waits until n more bytes are within --bwlimit. The activity is the
// caller's and may be nil.
func (p *Pipe) Pace(ctx context.Context, n int, activity *timing.Activity) error {
	if p.Limiter == nil {
		return nil
	}
	defer activity.At(activity.At(timing.UserLimit))
	return p.Limiter.WaitN(ctx, n)
}
