package engine

import "sync"

// kindSet is a set of kinds, for example those of the warnings that were reported.
type kindSet = sharedSet[string]

// sharedSet is a set that several goroutines may use. The zero value is empty.
type sharedSet[E comparable] struct {
	mu struct {
		sync.Mutex
		elements map[E]bool
	}
}

// add adds an element and reports whether it is new.
func (s *sharedSet[E]) add(element E) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.elements == nil {
		s.mu.elements = map[E]bool{}
	}
	isNew = !s.mu.elements[element]
	s.mu.elements[element] = true
	return isNew
}

func (s *sharedSet[E]) has(element E) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.elements[element]
}
