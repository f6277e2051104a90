package lookup

import (
	"hash/maphash"
	"slices"
)

// Set is a set of texts of which 8 bytes each are kept: a hash of 64 bits. That two of ten
// million texts share one is a matter of one in 400,000 sets. The zero value is empty. It
// is used from one goroutine.
type Set struct {
	seed   maphash.Seed
	hashes []uint64
	sorted bool
}

// Add adds a text.
func (s *Set) Add(text string) {
	if s.hashes == nil {
		s.seed = maphash.MakeSeed()
	}
	s.hashes, s.sorted = append(s.hashes, maphash.String(s.seed, text)), false
}

// Has reports whether a text was added.
func (s *Set) Has(text string) bool {
	if s.hashes == nil {
		return false
	}
	if !s.sorted {
		slices.Sort(s.hashes)
		s.sorted = true
	}
	_, found := slices.BinarySearch(s.hashes, maphash.String(s.seed, text))
	return found
}

// Repeated returns the texts that were added more than once.
func (s *Set) Repeated() *Set {
	repeated := &Set{seed: s.seed, sorted: true}
	slices.Sort(s.hashes)
	s.sorted = true
	for i, h := range s.hashes {
		if i > 0 && h == s.hashes[i-1] {
			repeated.hashes = append(repeated.hashes, h)
		}
	}
	return repeated
}

// Len returns the number of texts, those that were added several times counted as often.
func (s *Set) Len() int { return len(s.hashes) }
