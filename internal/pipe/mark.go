package pipe

import (
	"sync"
	"sync/atomic"
)

// Mark is a point of a file up to which a sink has been written, and the states
// of the digests at that point (see hash.Set.States).
type Mark struct {
	Off    int64
	States [][]byte
}

// mark is a Mark that the lanes pass on. It is complete when each digest has passed it.
type mark struct {
	Mark
	left atomic.Int32 // number of digests that have not passed it
}

func newMark(off int64, digests int) *mark {
	m := &mark{Mark: Mark{Off: off, States: make([][]byte, digests)}}
	m.left.Store(int32(digests))
	return m
}

func (m *mark) setState(digest int, state []byte) {
	m.States[digest] = state
	m.left.Add(-1)
}

// marks are the marks that a sink has passed. The digests may have passed fewer.
type marks struct {
	mu     sync.Mutex
	passed []*mark // passed marks from the last complete one on, the oldest first
}

func (l *marks) pass(m *mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed = append(l.passed, m)
	l.forget()
}

// forget leaves the last complete mark and those that came after it.
func (l *marks) forget() {
	for i := len(l.passed) - 1; i > 0; i-- {
		if l.passed[i].left.Load() == 0 {
			l.passed = append(l.passed[:0], l.passed[i:]...)
			return
		}
	}
}

// Reached returns the last mark that the sink and all digests have passed. It
// may be called during a Move. It does not show whether the sink has failed since the mark.
func (s *Sink) Reached() (Mark, bool) {
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.forget()
	if len(s.marks.passed) == 0 || s.marks.passed[0].left.Load() != 0 {
		return Mark{}, false
	}
	return s.marks.passed[0].Mark, true
}
