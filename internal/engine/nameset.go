package engine

import (
	"hash/maphash"
	"slices"
)

// nameSet is a set of the names in one directory. It stores a hash of 64 bits for each name, so
// the method has can, very rarely, return true for a name that was not added. The caller must call
// sort after the last add and before the first has.
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
