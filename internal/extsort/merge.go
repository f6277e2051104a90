package extsort

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"slices"
)

// Sizes of the buffers that read runs, in bytes. One run has at most maxRunBuffer, and all
// together have mergeMemory. A buffer has at least minRunBuffer, because with smaller ones the
// system calls would need more time than the copying.
const (
	mergeMemory  = 4 << 20
	maxRunBuffer = 64 << 10
	minRunBuffer = 4 << 10
)

// merge yields the records of several sources in order: a heap of sources by their current keys,
// and by age if those are equal. The first head has the next record.
type merge struct{ heads []*head }

// head is a source and its current record.
type head struct {
	record
	age int
	src source
}

// source yields records in order. A record is valid until the next call but one. The error at the
// end is io.EOF.
type source interface{ next() (record, error) }

// merge opens the runs and the records in memory. They must not change until it is done.
func (s *Sorter) merge() (*merge, error) {
	s.sort()
	m := &merge{}
	size := max(minRunBuffer, min(maxRunBuffer, mergeMemory/max(len(s.runs), 1)))
	for _, r := range s.runs {
		left := r.end - r.start
		in := bufio.NewReaderSize(io.NewSectionReader(s.spill, r.start, left), size)
		if err := m.open(&spilledRun{in: in, left: left}); err != nil {
			return nil, err
		}
	}
	if err := m.open(&memoryRun{s, s.offsets}); err != nil {
		return nil, err
	}
	heap.Init(m)
	return m, nil
}

// open adds a source that is newer than those before.
func (m *merge) open(src source) error {
	r, err := src.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	m.heads = append(m.heads, &head{r, len(m.heads), src})
	return nil
}

// advance replaces the first record by the next one of its source.
func (m *merge) advance() error {
	h := m.heads[0]
	r, err := h.src.next()
	switch {
	case err == nil:
		h.record = r
		heap.Fix(m, 0)
	case errors.Is(err, io.EOF):
		heap.Pop(m)
	default:
		return err
	}
	return nil
}

// The methods of heap.Interface.

func (m *merge) Len() int      { return len(m.heads) }
func (m *merge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merge) Push(any)      {} // heads are added before the heap is used
func (m *merge) Less(i, j int) bool {
	if c := bytes.Compare(m.heads[i].key, m.heads[j].key); c != 0 {
		return c < 0
	}
	return m.heads[i].age < m.heads[j].age
}

func (m *merge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}

// memoryRun yields the sorted records of the arena.
type memoryRun struct {
	s       *Sorter
	offsets []uint32
}

func (m *memoryRun) next() (record, error) {
	if len(m.offsets) == 0 {
		return record{}, io.EOF
	}
	r, _ := m.s.at(m.offsets[0])
	m.offsets = m.offsets[1:]
	return r, nil
}

// spilledRun yields the records of a run in the spill.
type spilledRun struct {
	in   *bufio.Reader
	left int64 // rest of the run in bytes
	// The records take turns: the one before is still in use when the next one is read.
	bodies [2][]byte
}

func (s *spilledRun) next() (record, error) {
	if s.left == 0 {
		return record{}, io.EOF
	}
	s.bodies[0], s.bodies[1] = s.bodies[1], s.bodies[0][:0]
	err := s.part()
	key := len(s.bodies[1])
	if err == nil {
		err = s.part()
	}
	if errors.Is(err, io.EOF) { // the file is shorter than what was written
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return record{}, spillError(err)
	}
	body := s.bodies[1]
	return record{body[:key], body[key:]}, nil
}

// part appends the next key or value to bodies[1].
func (s *spilledRun) part() error {
	n, err := binary.ReadUvarint(s.in)
	if err != nil {
		return err
	}
	s.left -= int64(bits.Len64(n|1)+6) / 7 // the size of the varint
	if n > uint64(max(s.left, 0)) {
		return io.ErrUnexpectedEOF
	}
	s.left -= int64(n)
	body := s.bodies[1]
	s.bodies[1] = slices.Grow(body, int(n))[:len(body)+int(n)]
	_, err = io.ReadFull(s.in, s.bodies[1][len(body):])
	return err
}
