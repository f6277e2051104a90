package hash

import "hash"

// Set computes several digests of one stream.
type Set struct{ hashes []hash.Hash }

// NewSet returns a set of fresh digests.
func NewSet(algorithms []Algorithm) *Set {
	s := &Set{hashes: make([]hash.Hash, len(algorithms))}
	for i, a := range algorithms {
		s.hashes[i] = a.New()
	}
	return s
}

// Reset starts all digests anew.
func (s *Set) Reset() {
	for _, h := range s.hashes {
		h.Reset()
	}
}

// Len is the number of digests.
func (s *Set) Len() int { return len(s.hashes) }

// Hash returns the running digest i, in the order of NewSet.
func (s *Set) Hash(i int) hash.Hash { return s.hashes[i] }

// Write feeds p to every digest. It never fails.
func (s *Set) Write(p []byte) (int, error) {
	for _, h := range s.hashes {
		h.Write(p)
	}
	return len(p), nil
}

// Digests returns the digests of what was written so far.
func (s *Set) Digests() Digests {
	d := make(Digests, len(s.hashes))
	for i, h := range s.hashes {
		d[i] = h.Sum(nil)
	}
	return d
}

// Digests holds one digest for each algorithm of a set, in its order.
type Digests [][]byte

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
