package mhl

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"hash"
	"io"
	"sort"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

// digestMemory is the limit for the digests of all open directories in memory, in bytes. More
// digests, for example those of a flat directory of a million files, are sorted in a temporary
// file.
const digestMemory = 8 << 20

// pool limits the memory of all digest lists of a run.
type pool struct {
	limit    int // limit of used
	used     int // bytes of all lists
	lists    []*digestList
	newSpill func() (extsort.Spill, error)
	spill    extsort.Spill // storage beyond the limit; nil until the limit is reached for the first time
	spilled  int64         // bytes in spill
}

func (p *pool) close() error {
	if p.spill == nil {
		return nil
	}
	return p.spill.Close()
}

// digestList collects digests of one size in any order.
type digestList struct {
	pool  *pool
	size  int
	held  []byte // digests, one after the other
	parts []part
}

// part is a sorted sequence of digests in the spill.
type part struct{ start, end int64 }

func (p *pool) newList(size int) *digestList {
	l := &digestList{pool: p, size: size}
	p.lists = append(p.lists, l)
	return l
}

// add appends a digest. The error is that of the spill.
func (l *digestList) add(digest []byte) error {
	l.held = append(l.held, digest...)
	l.pool.used += l.size
	if l.pool.used <= l.pool.limit {
		return nil
	}
	largest := l
	for _, other := range l.pool.lists {
		if len(other.held) > len(largest.held) {
			largest = other
		}
	}
	return largest.moveToSpill()
}

func (l *digestList) moveToSpill() error {
	p := l.pool
	if p.spill == nil {
		spill, err := p.newSpill()
		if err != nil {
			return fmt.Errorf("hashes of directories: %w", err)
		}
		p.spill = spill
	}
	sort.Sort(&sortable{l.held, l.size, make([]byte, l.size)})
	if _, err := p.spill.Write(l.held); err != nil {
		return fmt.Errorf("hashes of directories: %w", err)
	}
	end := p.spilled + int64(len(l.held))
	l.parts = append(l.parts, part{p.spilled, end})
	p.spilled = end
	p.used -= len(l.held)
	l.held = l.held[:0]
	return nil
}

// close writes the digests to h in ascending order, and removes the list from its pool. The
// caller closes the newest list first.
func (l *digestList) close(h hash.Hash) error {
	p := l.pool
	p.lists = p.lists[:len(p.lists)-1]
	p.used -= len(l.held)
	sort.Sort(&sortable{l.held, l.size, make([]byte, l.size)})
	if len(l.parts) == 0 {
		_, err := h.Write(l.held)
		return err
	}
	var m digestMerge
	buffer := max(1<<20/len(l.parts), 4<<10)
	for _, part := range l.parts {
		m.add(io.NewSectionReader(p.spill, part.start, part.end-part.start), l.size, min(buffer, 64<<10))
	}
	m.add(bytes.NewReader(l.held), l.size, l.size)
	heap.Init(&m)
	for m.err == nil && len(m.heads) > 0 {
		if _, err := h.Write(m.heads[0].digest); err != nil {
			return err
		}
		if m.advance(m.heads[0]) {
			heap.Fix(&m, 0)
		} else {
			heap.Pop(&m)
		}
	}
	return m.err
}

// sortable sorts digests of one size that are one after the other.
type sortable struct {
	bytes []byte
	size  int
	spare []byte
}

func (r *sortable) at(i int) []byte    { return r.bytes[i*r.size:][:r.size] }
func (r *sortable) Len() int           { return len(r.bytes) / r.size }
func (r *sortable) Less(i, j int) bool { return bytes.Compare(r.at(i), r.at(j)) < 0 }

func (r *sortable) Swap(i, j int) {
	copy(r.spare, r.at(i))
	copy(r.at(i), r.at(j))
	copy(r.at(j), r.spare)
}

// digestMerge is a heap of sorted sequences by their current digests.
type digestMerge struct {
	heads []*digestHead
	err   error
}

type digestHead struct {
	in     *bufio.Reader
	digest []byte
}

func (m *digestMerge) add(in io.Reader, size, buffer int) {
	h := &digestHead{bufio.NewReaderSize(in, buffer), make([]byte, size)}
	if m.advance(h) {
		m.heads = append(m.heads, h)
	}
}

func (m *digestMerge) advance(h *digestHead) (ok bool) {
	_, err := io.ReadFull(h.in, h.digest)
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = fmt.Errorf("hashes of directories: %w", err)
	}
	return err == nil
}

func (m *digestMerge) Len() int { return len(m.heads) }
func (m *digestMerge) Less(i, j int) bool {
	return bytes.Compare(m.heads[i].digest, m.heads[j].digest) < 0
}
func (m *digestMerge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *digestMerge) Push(any)      {} // heads are added before the heap is used

func (m *digestMerge) Pop() any {
	last := len(m.heads) - 1
	h := m.heads[last]
	m.heads = m.heads[:last]
	return h
}
