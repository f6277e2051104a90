package manifest

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Sizes of the buffers that read runs back, in bytes. One run has at most maxRunBuffer, and
// all together have mergeMemory. A buffer has at least minRunBuffer, because with smaller
// ones the system calls would need more time than the copying.
const (
	mergeMemory  = 2 << 20
	maxRunBuffer = 64 << 10
	minRunBuffer = 4 << 10
)

// spillArena writes the arena to the spill as one run and empties it.
func (b *Builder) spillArena() error {
	b.sortArena()
	if b.spill == nil {
		spill, err := b.newSpill()
		if err != nil {
			return fmt.Errorf("manifest: spill: %w", err)
		}
		b.spill = spill
		b.out = bufio.NewWriterSize(spill, ioBuffer)
	}
	r := run{start: b.spilled, end: b.spilled}
	for _, offset := range b.offsets {
		rec := b.at(offset)
		n := recordHeader + len(rec.path) + len(rec.rest)
		if _, err := b.out.Write(b.arena[offset:][:n]); err != nil {
			return fmt.Errorf("manifest: spill: %w", err)
		}
		r.end += int64(n)
	}
	if err := b.out.Flush(); err != nil {
		return fmt.Errorf("manifest: spill: %w", err)
	}
	b.runs, b.spilled = append(b.runs, r), r.end
	b.arena, b.offsets = b.arena[:0], b.offsets[:0]
	if cap(b.arena) > b.maxBytes { // after a record longer than the limit
		b.arena = nil
	}
	return nil
}

// merge returns all records in order, from the runs and the arena. Neither must change
// until it is done.
func (b *Builder) merge() (*merge, error) {
	b.sortArena()
	m := &merge{}
	size := max(minRunBuffer, min(maxRunBuffer, mergeMemory/max(len(b.runs), 1)))
	for _, r := range b.runs {
		in := bufio.NewReaderSize(io.NewSectionReader(b.spill, r.start, r.end-r.start), size)
		src := &runSource{in: in, left: r.end - r.start, restSize: b.restSize}
		if err := m.open(src); err != nil {
			return nil, err
		}
	}
	if err := m.open(&arenaSource{b, b.offsets}); err != nil {
		return nil, err
	}
	heap.Init(m)
	return m, nil
}

// merge is a k-way merge: a heap of sources sorted by their current paths, and by age if
// those are equal.
type merge struct {
	heads      []*head
	path, rest []byte // of the record that next returns
}

// head is a source and its current record.
type head struct {
	record
	age int
	src source
}

// source yields records in order, with one record for each path. The record is valid until
// the next call; the error at the end is io.EOF.
type source interface {
	next() (record, error)
}

// open adds a source that is newer than those before.
func (m *merge) open(src source) error {
	rec, err := src.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	m.heads = append(m.heads, &head{rec, len(m.heads), src})
	return nil
}

// next returns the newest record of the next path, or io.EOF. The record is valid until the
// next call.
func (m *merge) next() (record, error) {
	if len(m.heads) == 0 {
		return record{}, io.EOF
	}
	rec := m.keep(m.heads[0].record)
	if err := m.advance(); err != nil {
		return record{}, err
	}
	for len(m.heads) > 0 && bytes.Equal(m.heads[0].path, rec.path) {
		rec = m.keep(m.heads[0].record) // newer
		if err := m.advance(); err != nil {
			return record{}, err
		}
	}
	return rec, nil
}

// keep copies a record that its source is going to overwrite.
func (m *merge) keep(rec record) record {
	m.path = append(m.path[:0], rec.path...)
	m.rest = append(m.rest[:0], rec.rest...)
	return record{rec.kind, m.path, m.rest}
}

// advance replaces the first record by the next one of its source.
func (m *merge) advance() error {
	h := m.heads[0]
	rec, err := h.src.next()
	switch {
	case err == nil:
		h.record = rec
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
func (m *merge) Push(x any)    { m.heads = append(m.heads, x.(*head)) }
func (m *merge) Less(i, j int) bool {
	if c := bytes.Compare(m.heads[i].path, m.heads[j].path); c != 0 {
		return c < 0
	}
	return m.heads[i].age < m.heads[j].age
}

func (m *merge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}

// arenaSource yields the records of a sorted arena.
type arenaSource struct {
	b       *Builder
	offsets []uint32
}

func (s *arenaSource) next() (record, error) {
	if len(s.offsets) == 0 {
		return record{}, io.EOF
	}
	rec := s.b.at(s.offsets[0])
	s.offsets = s.offsets[1:]
	return rec, nil
}

// runSource yields the records of a run in the spill.
type runSource struct {
	in       *bufio.Reader
	left     int64 // bytes of the run
	restSize int
	header   [recordHeader]byte
	body     []byte
}

func (s *runSource) next() (record, error) {
	if s.left == 0 {
		return record{}, io.EOF
	}
	if err := s.read(s.header[:]); err != nil {
		return record{}, err
	}
	header := binary.LittleEndian.Uint32(s.header[:])
	n := int(header >> kindBits)
	s.body = slices.Grow(s.body[:0], n+s.restSize)[:n+s.restSize]
	if err := s.read(s.body); err != nil {
		return record{}, err
	}
	return record{kindOf(header), s.body[:n], s.body[n:]}, nil
}

// read fills p. A run that ends before its size is an error.
func (s *runSource) read(p []byte) error {
	n, err := io.ReadFull(s.in, p)
	s.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("manifest: spill: %w", err)
	}
	return nil
}
