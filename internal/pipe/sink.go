package pipe

import (
	"bytes"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// Sink writes the bytes of one file at one destination.
type Sink struct {
	File   *fsys.Pending
	Behind *Behind      // starts writeback of the written data; may be nil
	Sparse bool         // make holes of zeros
	Clone  bool         // true if File has all content already: nothing is written
	Err    error        // the first error; nothing is written after it
	Place  timing.Place // place of the destination

	// Refused is set when the system refuses to copy between the two devices, so that the next
	// file does not try it. If it is nil, the sink never tries it.
	Refused *atomic.Bool

	end   int64 // end of the last byte written
	marks marks
}

// Write puts data at the offset off, unless an earlier write failed.
func (s *Sink) Write(data []byte, off int64) {
	if s.Err != nil || s.Clone {
		return
	}
	if !s.Sparse {
		s.put(data, off)
		return
	}
	EachRun(data, off, func(part []byte, off int64, zero bool) bool {
		if !zero {
			s.put(part, off)
		}
		return s.Err == nil
	})
}

func (s *Sink) failed() bool { return s.Err != nil }

func (s *Sink) place() timing.Place { return s.Place }

func (s *Sink) take(q piece) {
	switch {
	case q.mark != nil:
		if s.reach(q.off); s.Err == nil {
			s.marks.pass(q.mark)
		}
	case q.block != nil:
		s.Write(q.data, q.off)
	}
}

func (s *Sink) put(data []byte, off int64) {
	if len(data) == 0 {
		return
	}
	if s.Err = s.File.WriteAt(data, off); s.Err != nil {
		return
	}
	s.wrote(off, int64(len(data)))
}

// wrote accounts for n bytes that were written at the offset off.
func (s *Sink) wrote(off, n int64) {
	s.end = max(s.end, off+n)
	if s.Behind != nil {
		s.Behind.Wrote(off, n)
	}
}

// Continue prepares the sink for a file that already has its first start bytes.
func (s *Sink) Continue(start int64) {
	if s.Err = s.File.Truncate(start); s.Err == nil {
		s.end = start
	}
}

// reach extends the file to off if a hole ends there. A file that is shorter than its last
// mark cannot be continued.
func (s *Sink) reach(off int64) {
	if s.Err == nil && s.end < off && !s.Clone {
		if s.Err = s.File.Truncate(off); s.Err == nil {
			s.end = off
		}
	}
}

// Stop ends the file at off, so that a later run can continue it there, and frees what was
// preallocated.
func (s *Sink) Stop(off int64) error {
	if s.Err == nil && !s.Clone {
		s.Err = s.File.Truncate(off)
	}
	return s.Err
}

// Finish sets the size of a file that ends in a hole.
func (s *Sink) Finish(size int64) {
	if s.Err == nil && s.end != size && !s.Clone {
		s.Err = s.File.Truncate(size)
	}
}

// sparseUnit is the shortest run of zeros that becomes a hole: a page, which is also the block
// size of most file systems.
const sparseUnit = 4096 // bytes

// EachRun splits data, which is at the offset off of a file, into the longest runs of zeros
// that are worth a hole, and the runs between them. It stops when yield returns false.
func EachRun(data []byte, off int64, yield func(part []byte, off int64, zero bool) (more bool)) {
	for len(data) > 0 {
		n := min(len(data), sparseUnit-int(off%sparseUnit))
		zero := isZero(data[:n])
		for n < len(data) {
			end := min(n+sparseUnit, len(data))
			if isZero(data[n:end]) != zero {
				break
			}
			n = end
		}
		if !yield(data[:n], off, zero) {
			return
		}
		data, off = data[n:], off+int64(n)
	}
}

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
