package lookup

import (
	"hash/maphash"
	"slices"
)

// Set is a set of texts. It keeps a hash of 64 bits for each. Of 400,000 sets of ten million
// texts, about one has two texts with the same hash. The zero value is empty. Use it from one
// goroutine.
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

// Len returns the number of calls of Add.
func (s *Set) Len() int { return len(s.hashes) }
