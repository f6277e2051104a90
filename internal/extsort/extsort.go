// Package extsort sorts records in bounded memory. Records that do not fit into memory are
// sorted in parts, which go to a temporary file and are merged when they are read.
package extsort

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
)

const (
	// maxArena keeps offsets into the arena within 32 bits, and int, in bytes.
	maxArena = 1 << 30

	// offsetSize is the size of an offset into the arena, in bytes.
	offsetSize = 4

	// writeBuffer is the size of the buffer before the spill, in bytes.
	writeBuffer = 64 << 10
)

// Spill is the temporary file of a Sorter, which writes it from its beginning. Close must
// remove the file.
type Spill interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Sorter collects records in any order and yields them sorted by the bytes of their keys. Records
// with equal keys keep their order. Its memory does not depend on their number. One goroutine
// uses it.
//
// An error of the spill is returned by the call that causes it and by all later ones, because
// records are lost.
type Sorter struct {
	newSpill   func() (Spill, error)
	arena      []byte   // records, one after the other
	offsets    []uint32 // offsets of the records in arena; in the order of arrival, or sorted
	maxBytes   int      // limit of arena
	maxRecords int      // limit of the number of records

	spill   Spill // storage beyond the limits; nil until the arena was full once
	spilled int64 // number of bytes in spill
	runs    []run
	out     *bufio.Writer // a buffer before spill
	reading bool          // true while Each is running
	err     error         // the error of all later calls
}

// run is a sorted sequence of records in the spill, from start up to end. Later runs have later
// records.
type run struct{ start, end int64 }

// record is a key and the value that is stored with it. In the arena and in the spill each of them
// follows its length, which is a varint.
type record struct{ key, value []byte }

var (
	errClosed  = errors.New("the records are closed")
	errReading = errors.New("the records are used while they are read")
)

// New returns an empty Sorter. When its records exceed memory, in bytes, it sorts them and writes
// them to a file from newSpill. It calls newSpill at most once. Reading needs up to about 4 MiB
// more, and 4 KiB for each run beyond 1024. The caller must Close the Sorter.
func New(newSpill func() (Spill, error), memory int) *Sorter {
	// Offsets get an eighth. Records are usually longer than 32 bytes, so the arena is full first.
	return &Sorter{
		newSpill:   newSpill,
		maxBytes:   min(memory-memory/8, maxArena),
		maxRecords: max(memory/8/offsetSize, 1),
	}
}

// Add adds a record. The Sorter copies key and value.
func (s *Sorter) Add(key, value []byte) error {
	if s.err == nil && s.reading {
		s.err = errReading
	}
	if s.err != nil {
		return s.err
	}
	need := len(key) + len(value) + 2*binary.MaxVarintLen32
	if len(s.offsets) == s.maxRecords || len(s.offsets) > 0 && len(s.arena)+need > s.maxBytes {
		if s.err = s.flush(); s.err != nil {
			return s.err
		}
	}
	s.arena = grow(s.arena, need, s.maxBytes)
	s.offsets = grow(s.offsets, 1, s.maxRecords)
	s.offsets = append(s.offsets, uint32(len(s.arena)))
	s.arena = binary.AppendUvarint(s.arena, uint64(len(key)))
	s.arena = append(s.arena, key...)
	s.arena = binary.AppendUvarint(s.arena, uint64(len(value)))
	s.arena = append(s.arena, value...)
	return nil
}

// grow makes space for need more elements in a few steps, the last of which reaches the
// limit. The doubling of append would discard a slice of half the limit in its last step.
func grow[E any](s []E, need, limit int) []E {
	want := len(s) + need
	if want <= cap(s) {
		return s
	}
	size := max(want, limit)
	for _, step := range [...]int{256, 4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		if want <= step && step < limit {
			size = step
			break
		}
	}
	return append(make([]E, 0, size), s...)
}

// Empty reports whether nothing was added.
func (s *Sorter) Empty() bool { return len(s.runs) == 0 && len(s.offsets) == 0 }

// Seal says that nothing will be added. If there is a spill, Seal frees the memory.
func (s *Sorter) Seal() error {
	if s.err != nil || s.spill == nil || len(s.offsets) == 0 {
		return s.err
	}
	s.err = s.flush()
	s.arena, s.offsets = nil, nil
	return s.err
}

// Each calls yield for all records in order. Key and value are valid during the call. Each may be
// called again, also after further records. But yield must not call methods of the Sorter: they
// fail, and so do all later calls. The error is the first one of yield, or that of the spill.
func (s *Sorter) Each(yield func(key, value []byte) error) error { return s.each(yield, false) }

// EachLast is Each with only the last of the records that have equal keys.
func (s *Sorter) EachLast(yield func(key, value []byte) error) error { return s.each(yield, true) }

func (s *Sorter) each(yield func(key, value []byte) error, last bool) error {
	if s.err == nil && s.reading {
		s.err = errReading
	}
	if s.err != nil {
		return s.err
	}
	s.reading = true
	defer func() { s.reading = false }()
	m, err := s.merge()
	if err != nil {
		s.err = err
		return err
	}
	for len(m.heads) > 0 {
		r := m.heads[0].record
		if err := m.advance(); err != nil {
			s.err = err
			return err
		}
		if last && len(m.heads) > 0 && bytes.Equal(m.heads[0].key, r.key) {
			continue
		}
		if err := yield(r.key, r.value); err != nil {
			return err
		}
		if s.err != nil { // yield has called a method and changed the records
			return s.err
		}
	}
	return nil
}

// Seq returns the elements for which each calls yield as an iterator. An error of each comes last.
func Seq[T any](each func(yield func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		enough := errors.New("enough")
		err := each(func(element T) error {
			if !yield(element, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(*new(T), err)
		}
	}
}

// Close closes the spill and returns its error. The Sorter cannot be used afterwards; closing it
// again has no effect.
func (s *Sorter) Close() error {
	spill := s.spill
	s.spill, s.arena, s.offsets, s.runs, s.out = nil, nil, nil, nil, nil
	if s.err == nil {
		s.err = errClosed
	}
	if spill == nil {
		return nil
	}
	return spill.Close()
}

// sort sorts the records in memory. Records that were added later have higher offsets.
func (s *Sorter) sort() {
	slices.SortFunc(s.offsets, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(s.key(a), s.key(b)), cmp.Compare(a, b))
	})
}

// key returns the key of the record at offset in the arena.
func (s *Sorter) key(offset uint32) []byte {
	rest := s.arena[offset:]
	if n := rest[0]; n < 0x80 { // a varint of one byte
		return rest[1:][:n]
	}
	n, size := binary.Uvarint(rest)
	return rest[size:][:n]
}

// at returns the record at offset in the arena, and its end there.
func (s *Sorter) at(offset uint32) (r record, end int) {
	end = int(offset)
	for _, part := range [...]*[]byte{&r.key, &r.value} {
		n, size := binary.Uvarint(s.arena[end:])
		*part = s.arena[end+size:][:n]
		end += size + int(n)
	}
	return r, end
}

// flush writes the records in memory to the spill as one run.
func (s *Sorter) flush() error {
	s.sort()
	if s.spill == nil {
		spill, err := s.newSpill()
		if err != nil {
			return spillError(err)
		}
		s.spill, s.out = spill, bufio.NewWriterSize(spill, writeBuffer)
	}
	r := run{start: s.spilled, end: s.spilled}
	for _, offset := range s.offsets {
		_, end := s.at(offset)
		n, err := s.out.Write(s.arena[offset:end])
		if err != nil {
			return spillError(err)
		}
		r.end += int64(n)
	}
	if err := s.out.Flush(); err != nil {
		return spillError(err)
	}
	s.runs, s.spilled = append(s.runs, r), r.end
	s.arena, s.offsets = s.arena[:0], s.offsets[:0]
	if cap(s.arena) > s.maxBytes { // after a record longer than the limit
		s.arena = nil
	}
	return nil
}
