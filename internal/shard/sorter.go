package shard

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

const (
	sortMemory = 32 << 20 // bytes that a sorter keeps in memory
	fanIn      = 128      // runs that are merged at the same time
	runBuffer  = 64 << 10 // bytes, for each run that is read
)

// sorter sorts records by the bytes of their keys, in bounded memory. Records with equal keys
// keep their order. It is used from one goroutine.
type sorter struct {
	dir    *fsys.Dir // where the temporary file is
	memory int       // bytes of records and their offsets

	arena   []byte   // records, one after the other
	offsets []uint32 // of the records
	spill   *fsys.Pending
	size    int64 // of spill
	runs    []extent
}

// extent is a sorted run in the spill.
type extent struct{ start, end int64 }

const recordHeader = 8 // bytes: the lengths of key and value

// offsetCost is what one offset uses, in bytes.
const offsetCost = 4

func newSorter(dir *fsys.Dir, memory int) *sorter { return &sorter{dir: dir, memory: memory} }

// add adds a record. The sorter copies key and value.
func (s *sorter) add(key, value []byte) error {
	need := recordHeader + len(key) + len(value) + offsetCost
	if len(s.offsets) > 0 && len(s.arena)+len(s.offsets)*offsetCost+need > s.memory {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.arena == nil && s.memory >= 1<<20 {
		s.arena = make([]byte, 0, 1<<20)
	}
	s.arena = s.reserve(s.arena, need)
	s.offsets = append(s.offsets, uint32(len(s.arena)))
	s.arena = binary.LittleEndian.AppendUint32(s.arena, uint32(len(key)))
	s.arena = binary.LittleEndian.AppendUint32(s.arena, uint32(len(value)))
	s.arena = append(s.arena, key...)
	s.arena = append(s.arena, value...)
	return nil
}

// reserve grows the arena to its full size at once when it is no longer small, because each
// doubling leaves garbage of half the size.
func (s *sorter) reserve(arena []byte, need int) []byte {
	if len(arena)+need <= cap(arena) {
		return arena
	}
	return append(make([]byte, 0, max(len(arena)+need, s.memory)), arena...)
}

func (s *sorter) record(offset uint32) record {
	head := s.arena[offset:]
	key := int(binary.LittleEndian.Uint32(head))
	value := int(binary.LittleEndian.Uint32(head[4:]))
	body := head[recordHeader:]
	return record{body[:key], body[key : key+value]}
}

func (s *sorter) sort() {
	slices.SortFunc(s.offsets, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(s.record(a).key, s.record(b).key), cmp.Compare(a, b))
	})
}

// flush writes the records in memory to the spill as one run.
func (s *sorter) flush() error {
	s.sort()
	w, err := s.newRun()
	if err != nil {
		return err
	}
	for _, offset := range s.offsets {
		if err := w.write(s.record(offset)); err != nil {
			return err
		}
	}
	s.arena, s.offsets = s.arena[:0], s.offsets[:0]
	return s.endRun(w)
}

// empty reports whether nothing was added.
func (s *sorter) empty() bool { return len(s.runs) == 0 && len(s.offsets) == 0 }

// seal says that nothing will be added, and frees the memory if there is a spill.
func (s *sorter) seal() error {
	if s.spill == nil || len(s.offsets) == 0 {
		return nil
	}
	err := s.flush()
	s.arena, s.offsets = nil, nil
	return err
}

// runWriter appends records to the spill.
type runWriter struct{ *bufio.Writer }

func (w runWriter) write(r record) error {
	var head [recordHeader]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(r.key)))
	binary.LittleEndian.PutUint32(head[4:], uint32(len(r.value)))
	for _, part := range [...][]byte{head[:], r.key, r.value} {
		if _, err := w.Write(part); err != nil {
			return spillError(err)
		}
	}
	return nil
}

func (s *sorter) newRun() (runWriter, error) {
	if s.spill == nil {
		spill, err := s.dir.Create(false)
		if err != nil {
			return runWriter{}, spillError(err)
		}
		s.spill = spill
	}
	s.runs = append(s.runs, extent{s.size, s.size})
	return runWriter{bufio.NewWriterSize(&appender{file: s.spill, offset: &s.size}, runBuffer)}, nil
}

func (s *sorter) endRun(w runWriter) error {
	if err := w.Flush(); err != nil {
		return spillError(err)
	}
	s.runs[len(s.runs)-1].end = s.size
	return nil
}

// each calls yield for all records in order. Key and value are valid during the call.
// It may be called again. What is added in between is included then, unless seal was called.
func (s *sorter) each(yield func(key, value []byte) error) error {
	for len(s.runs) > fanIn {
		if err := s.mergeRuns(); err != nil {
			return err
		}
	}
	s.sort()
	m := &merge{}
	for _, r := range s.runs {
		if err := m.open(s.read(r)); err != nil {
			return err
		}
	}
	if err := m.open(&memoryRun{s, s.offsets}); err != nil {
		return err
	}
	return m.each(func(r record) error { return yield(r.key, r.value) })
}

// mergeRuns merges the oldest runs into one, which takes their place in the order.
func (s *sorter) mergeRuns() error {
	m := &merge{}
	for _, r := range s.runs[:fanIn] {
		if err := m.open(s.read(r)); err != nil {
			return err
		}
	}
	w, err := s.newRun()
	if err != nil {
		return err
	}
	if err := m.each(w.write); err != nil {
		return err
	}
	if err := s.endRun(w); err != nil {
		return err
	}
	merged := s.runs[len(s.runs)-1]
	s.runs = append([]extent{merged}, s.runs[fanIn:len(s.runs)-1]...)
	return nil
}

func (s *sorter) read(r extent) *spilledRun {
	section := io.NewSectionReader(fsys.ReaderAt{File: &s.spill.File}, r.start, r.end-r.start)
	return &spilledRun{in: bufio.NewReaderSize(section, runBuffer)}
}

// close removes the temporary file and frees the memory.
func (s *sorter) close() {
	s.arena, s.offsets, s.runs = nil, nil, nil
	if s.spill != nil {
		s.spill.Abort()
		s.spill = nil
	}
}

// record is a key and what is stored with it.
type record struct{ key, value []byte }

// source yields records in order. A record is valid until the next call; the error at the
// end is io.EOF.
type source interface{ next() (record, error) }

// memoryRun yields the records of a sorted arena.
type memoryRun struct {
	s       *sorter
	offsets []uint32
}

func (m *memoryRun) next() (record, error) {
	if len(m.offsets) == 0 {
		return record{}, io.EOF
	}
	r := m.s.record(m.offsets[0])
	m.offsets = m.offsets[1:]
	return r, nil
}

// spilledRun yields the records of a run in the spill.
type spilledRun struct {
	in   *bufio.Reader
	head [recordHeader]byte
	body []byte
}

func (s *spilledRun) next() (record, error) {
	if _, err := io.ReadFull(s.in, s.head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return record{}, io.EOF
		}
		return record{}, spillError(err)
	}
	key := int(binary.LittleEndian.Uint32(s.head[:]))
	value := int(binary.LittleEndian.Uint32(s.head[4:]))
	s.body = slices.Grow(s.body[:0], key+value)[:key+value]
	if _, err := io.ReadFull(s.in, s.body); err != nil {
		return record{}, spillError(err)
	}
	return record{s.body[:key], s.body[key:]}, nil
}

func spillError(err error) error { return fmt.Errorf("temporary file of the plan: %w", err) }

// merge is a heap of sources by their current keys, and by age where those are equal.
type merge struct{ heads []*head }

type head struct {
	record
	age int
	src source
}

// open adds a source. Each one is newer than those before.
func (m *merge) open(src source) error {
	r, err := src.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	heap.Push(m, &head{r, len(m.heads), src})
	return nil
}

func (m *merge) each(yield func(record) error) error {
	for len(m.heads) > 0 {
		h := m.heads[0]
		if err := yield(h.record); err != nil {
			return err
		}
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
	}
	return nil
}

// The methods of heap.Interface.

func (m *merge) Len() int      { return len(m.heads) }
func (m *merge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merge) Push(x any)    { m.heads = append(m.heads, x.(*head)) }
func (m *merge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}

func (m *merge) Less(i, j int) bool {
	if c := bytes.Compare(m.heads[i].key, m.heads[j].key); c != 0 {
		return c < 0
	}
	return m.heads[i].age < m.heads[j].age
}

// appender is an io.Writer that appends to a file.
type appender struct {
	file   *fsys.Pending
	offset *int64
}

func (a *appender) Write(p []byte) (int, error) {
	if err := a.file.WriteAt(p, *a.offset); err != nil {
		return 0, err
	}
	*a.offset += int64(len(p))
	return len(p), nil
}
