package engine

import "sync"

// kindSet is a set of kinds, for example those of the warnings that were reported. Several
// goroutines may use it. The zero value is empty.
type kindSet struct {
	mu struct {
		sync.Mutex
		kinds map[string]bool
	}
}

// add adds a kind and reports whether it is new.
func (s *kindSet) add(kind string) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.kinds == nil {
		s.mu.kinds = map[string]bool{}
	}
	isNew = !s.mu.kinds[kind]
	s.mu.kinds[kind] = true
	return isNew
}

func (s *kindSet) has(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.kinds[kind]
}
