package compare

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

const (
	blockSize = pipe.DefaultBlockSize // bytes that are compared at the same time
	readAhead = 4                     // blocks that each tree may be ahead of the comparison
)

// lane reads one file of a comparison. It allocates its buffers when it first needs them,
// and uses them again for the next file.
type lane struct {
	buffers  [readAhead][]byte
	requests chan int64 // offsets of blocks; nil if the lane is not reading
	pieces   chan piece // pieces of the file, one for each request, in the same order
}

// piece is a block that was read.
type piece struct {
	data []byte
	err  error
}

func (l *lane) buffer(i int) []byte {
	if l.buffers[i] == nil {
		l.buffers[i] = fsys.AlignedBuffer(blockSize)
	}
	return l.buffers[i]
}

// start reads the blocks of a file that are requested, in a goroutine. At most readAhead are in
// progress, so the oldest buffer is always free.
func (l *lane) start(s *side, readers *sync.WaitGroup) {
	requests, pieces := make(chan int64, readAhead), make(chan piece, readAhead)
	l.requests, l.pieces = requests, pieces
	readers.Go(func() {
		i := 0
		for off := range requests {
			p := l.buffer(i % readAhead)
			n, err := s.file.ReadAt(p, off)
			if err != nil {
				err = failure.At(err, off+int64(n))
			}
			s.reading.Read(off + int64(n))
			pieces <- piece{p[:n], err}
			i++
		}
	})
}

// stop ends the requests. The channel of pieces has space for those in progress.
func (l *lane) stop() {
	if l.requests != nil {
		close(l.requests)
		l.requests = nil
	}
}

// contents compares files of the same size until every other file differs from the first
// one, A's. It returns how many bytes of A were compared.
func (w *worker) contents(ctx context.Context, j *job, files []*side) (n int64) {
	defer func() {
		for _, s := range files {
			if s.reading != nil {
				s.reading.End(s.info.Size)
			}
		}
	}()
	if size := files[0].info.Size; size <= blockSize {
		if n, more := w.short(ctx, j, files, size); !more {
			return n
		}
		w.run.counters.Bytes.Add(-blockSize) // a file without a size, as in /proc, is read from the beginning
		return w.long(ctx, j, files, math.MaxInt64)
	}
	select {
	case w.run.large <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	defer func() { <-w.run.large }()
	return w.long(ctx, j, files, files[0].info.Size)
}

// short compares files of at most one block, with one read of each. more is true if a file
// without a size did not end with the block.
func (w *worker) short(ctx context.Context, j *job, files []*side, size int64) (n int64, more bool) {
	var pieces []piece
	for _, s := range files {
		if s.failed {
			pieces = append(pieces, piece{})
			continue
		}
		p := w.lanes[s.tree].buffer(0)
		n := 0
		for {
			got, err := s.file.ReadSomeAt(p[n:], int64(n))
			if err != nil {
				w.failed(j, s, failure.StageRead, failure.At(err, int64(n)))
				if s == files[0] {
					return 0, false
				}
			}
			n += got
			if err != nil || got == 0 || n == len(p) || size > 0 && int64(n) >= size {
				break
			}
		}
		pieces = append(pieces, piece{data: p[:n]})
	}
	first := pieces[0].data
	if w.run.pipe.Pace(ctx, len(first), nil) != nil {
		return 0, false
	}
	w.run.pipe.Count(int64(len(first)))
	for i, s := range files[1:] {
		if !s.failed {
			s.compareBlock(0, first, pieces[i+1].data, size)
		}
	}
	return int64(len(first)), size == 0 && len(first) == blockSize
}

// compareBlock compares the blocks at off.
func (s *side) compareBlock(off int64, first, own []byte, size int64) {
	if bytes.Equal(first, own) {
		return
	}
	same := 0
	for same < min(len(first), len(own)) && first[same] == own[same] {
		same++
	}
	of := ""
	if size > 0 && size < math.MaxInt64 {
		of = fmt.Sprintf(" of %d", size)
	}
	s.differs = true
	s.why = append(s.why, fmt.Sprintf("content in %s differs from byte %d%s", Letter(s.tree), off+int64(same)+1, of))
}

// long compares files block by block. A separate goroutine reads each file ahead of the
// comparison, so that the devices work at the same time. Ranges that are holes in all files
// are not read.
func (w *worker) long(ctx context.Context, j *job, files []*side, size int64) (total int64) {
	var readers sync.WaitGroup
	lanes := make([]*lane, len(files))
	for i, s := range files {
		s.dataEnd = 0
		lanes[i] = w.lanes[s.tree]
		if !s.failed && !s.differs {
			lanes[i].start(s, &readers)
		}
	}
	defer func() {
		for _, l := range lanes {
			l.stop()
		}
		readers.Wait()
	}()
	sparse := isSparse(files)
	var asked []int64 // offsets of the requested blocks
	for next := int64(0); ; {
		for len(asked) < readAhead && next < size {
			if sparse {
				data := nextData(files, next, size)
				w.run.pipe.Count(data - next)
				total += data - next
				if next = data; next >= size {
					break
				}
			}
			if w.run.pipe.Pace(ctx, int(min(blockSize, size-next)), nil) != nil {
				return total
			}
			for _, l := range lanes {
				if l.requests != nil {
					l.requests <- next
				}
			}
			asked = append(asked, next)
			next += blockSize
		}
		if len(asked) == 0 || ctx.Err() != nil {
			return total
		}
		off := asked[0]
		asked = asked[1:]
		first := <-lanes[0].pieces
		if first.err != nil {
			w.failed(j, files[0], failure.StageRead, first.err)
			return total
		}
		left := false
		for i, s := range files[1:] {
			l := lanes[i+1]
			if l.requests == nil {
				continue
			}
			if own := <-l.pieces; own.err != nil {
				w.failed(j, s, failure.StageRead, own.err)
			} else {
				s.compareBlock(off, first.data, own.data, size)
			}
			if s.failed || s.differs {
				l.stop()
			} else {
				left = true
			}
		}
		n := int64(len(first.data))
		w.run.pipe.Count(n)
		total += n
		if !left || n < blockSize {
			return total
		}
	}
}

// isSparse reports whether all of the files may have holes.
func isSparse(files []*side) bool {
	for _, s := range files {
		if !s.failed && s.info.Blocks*512 >= s.info.Size {
			return false
		}
	}
	return true
}

// nextData returns the beginning of the next block at or after off in which one of the
// files has data. It is at most size.
func nextData(files []*side, off, size int64) int64 {
	least := size
	for _, s := range files {
		if s.failed || s.differs {
			continue
		}
		if off < s.dataEnd {
			return off
		}
		data, hole, end, err := s.file.NextData(off)
		if err != nil {
			s.dataEnd = size // the next read reports the error
			return off
		}
		if end {
			data = size
		} else {
			s.dataEnd = hole
		}
		least = min(least, data)
	}
	if least < size {
		least = max(least&^(blockSize-1), off)
	}
	return least
}
