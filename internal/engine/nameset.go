package engine

import (
	"hash/maphash"
	"slices"
)

// nameSet is a set of names in one directory, 8 bytes each: a hash of 64 bits. So it
// says very rarely that it has a name which it has not. It is sorted between the last
// add and the first has.
type nameSet struct {
	seed   maphash.Seed
	hashes []uint64
}

func (s *nameSet) add(name []byte) { s.hashes = append(s.hashes, maphash.Bytes(s.seed, name)) }

func (s *nameSet) sort() { slices.Sort(s.hashes) }

func (s *nameSet) has(name string) bool {
	_, found := slices.BinarySearch(s.hashes, maphash.String(s.seed, name))
	return found
}
