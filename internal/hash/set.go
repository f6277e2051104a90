package hash

import (
	"encoding"
	"hash"
	"slices"
)

// Set computes several digests of one stream.
type Set struct {
	Algorithms []Algorithm // algorithms of the digests, in the order of NewSet
	Hashes     []hash.Hash
}

// NewSet returns a set of fresh digests.
func NewSet(algorithms []Algorithm) *Set {
	s := &Set{Algorithms: algorithms, Hashes: make([]hash.Hash, len(algorithms))}
	for i, a := range algorithms {
		s.Hashes[i] = a.New()
	}
	return s
}

// Reset resets all digests to their initial state.
func (s *Set) Reset() {
	for _, h := range s.Hashes {
		h.Reset()
	}
}

// Len returns the number of digests.
func (s *Set) Len() int { return len(s.Hashes) }

// Hash returns the running digest i, in the order of NewSet.
func (s *Set) Hash(i int) hash.Hash { return s.Hashes[i] }

// Write feeds p to every digest. It never fails.
func (s *Set) Write(p []byte) (int, error) {
	for _, h := range s.Hashes {
		h.Write(p)
	}
	return len(p), nil
}

// Digests returns the digests of what was written so far.
func (s *Set) Digests() Digests {
	d := make(Digests, len(s.Hashes))
	for i, h := range s.Hashes {
		d[i] = h.Sum(nil)
	}
	return d
}

// Digests holds one digest for each algorithm of a set, in its order.
type Digests [][]byte

// Any reports whether there is a digest that is not nil.
func (d Digests) Any() bool {
	return slices.ContainsFunc(d, func(digest []byte) bool { return digest != nil })
}

// Equal reports whether all digests are the same.
func (d Digests) Equal(e Digests) bool {
	if len(d) != len(e) {
		return false
	}
	for i := range d {
		if string(d[i]) != string(e[i]) {
			return false
		}
	}
	return true
}

// States returns the states of the digests after all bytes written so far, for Restore in
// another process. The state is nil for a digest that cannot save it.
func (s *Set) States() [][]byte {
	states := make([][]byte, len(s.Hashes))
	for i, h := range s.Hashes {
		states[i] = State(h)
	}
	return states
}

// State returns the state of a running digest, or nil if the digest cannot save it.
func State(h hash.Hash) []byte {
	m, ok := h.(encoding.BinaryMarshaler)
	if !ok {
		return nil
	}
	state, err := m.MarshalBinary()
	if err != nil {
		return nil
	}
	return state
}

// Restore sets the digests to states that States has returned. It returns the digests for
// which there is no usable state. These are reset.
func (s *Set) Restore(states [][]byte) (missing []hash.Hash) {
	for i, h := range s.Hashes {
		h.Reset()
		m, ok := h.(encoding.BinaryUnmarshaler)
		if ok && i < len(states) && len(states[i]) > 0 && m.UnmarshalBinary(states[i]) == nil {
			continue
		}
		h.Reset()
		missing = append(missing, h)
	}
	return missing
}
