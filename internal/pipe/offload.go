package pipe

import (
	"context"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// offloadStep is the largest number of bytes that the system copies with one call. It is large
// enough for few calls. It is small enough that checkpoints and the end of the context do not
// wait long.
const offloadStep = 8 << 20 // bytes

// step returns the number of bytes that the system copies with one call: at most a chunk of
// the unwritten data.
func (s *Sink) step() int64 {
	if s.Behind == nil {
		return offloadStep
	}
	d := s.Behind.device
	d.mu.Lock()
	defer d.mu.Unlock()
	return min(offloadStep, d.chunkSize())
}

// offloads reports whether the system may copy the file without Sealift reading it: no
// digest, limit or transformation needs its bytes.
func (f *flow) offloads(sinks []*Sink) bool {
	if f.set.Len() > 0 || len(sinks) != 1 || f.pipe.Limiter != nil {
		return false
	}
	s := sinks[0]
	return !s.Clone && !s.Sparse && s.Refused != nil && !s.Refused.Load()
}

// offload lets the system copy src to the flow's only sink s from start on, and returns the
// offset that it has reached. That is the end, or the point where reading and writing has to
// continue. They continue after every refusal and at every end that comes too early,
// because only reading shows whether the file has shrunk or cannot be copied in this way.
// The bytes before that offset are correct.
func (f *flow) offload(ctx context.Context, s *Sink, src *fsys.File, size, start int64, holes bool, afterRead func(off int64)) (off int64, err error) {
	dataEnd := size
	if holes {
		dataEnd = start
	}
	place := f.offloading(s, src)
	defer f.activity.At(f.from)
	for off = start; off < size && s.Err == nil && ctx.Err() == nil; {
		if off >= dataEnd {
			data, hole, end, err := src.NextData(off)
			switch {
			case err != nil:
				return off, nil // the caller reads from here and gets the error
			case end:
				data, hole = size, size
			}
			f.pipe.Count(min(data, size) - off)
			off, dataEnd = min(data, size), min(hole, size)
			continue
		}
		step := min(dataEnd-off, s.step())
		f.activity.At(place)
		n, handled, err := s.File.CopyRange(src, off, step)
		switch {
		case !handled:
			if fsys.RefusalOf(err) == fsys.RefusedPair {
				s.Refused.Store(true)
			}
			return off, nil
		case err != nil:
			return off, f.blame(ctx, s, src, off, off+step, err)
		case n == 0:
			return off, nil
		}
		f.activity.At(s.Place)
		s.wrote(off, n)
		off += n
		f.pipe.Count(n)
		if afterRead != nil {
			afterRead(off)
		}
	}
	return off, nil
}

// offloading returns the place for the time of a copy by the system, which does not report how
// the time divides into reading and writing. It counts as reading if nothing of the source is in
// memory and a Behind waits for the writing.
func (f *flow) offloading(s *Sink, src *fsys.File) timing.Place {
	if s.Behind != nil {
		if held, known := src.Cached(0, 0); known && !held {
			return f.from
		}
	}
	return s.Place
}

// blame determines whether the source or the sink caused the error of copying the bytes from
// off to end. It returns an error of the source; the sink gets its own. A server does not
// report how far it has come, so blame reads all of these bytes.
func (f *flow) blame(ctx context.Context, s *Sink, src *fsys.File, off, end int64, err error) error {
	b, noBlock := f.get(ctx)
	if noBlock != nil {
		return noBlock
	}
	defer b.Release()
	for off < end {
		n, failed := src.ReadAt(b.Buf[:min(int64(len(b.Buf)), end-off)], off)
		if failed != nil {
			failed = failure.At(failed, off+int64(n))
		} else {
			failed = ctx.Err()
		}
		if failed != nil {
			return failed
		}
		if n == 0 {
			break
		}
		off += int64(n)
	}
	s.Err = err
	f.writing.Add(-1)
	return nil
}
