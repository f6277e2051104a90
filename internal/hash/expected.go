package hash

import (
	"bytes"
	"slices"
)

// Expected is a digest that a manifest lists for a file.
type Expected struct {
	Algorithm Algorithm
	Digest    []byte

	// AnyOrder means that the bytes of Digest may be in the opposite order. Media hash lists
	// have XXH64 in both orders.
	AnyOrder bool
}

// Matches reports whether digest, that of a file, is the expected one.
func (e Expected) Matches(digest []byte) bool {
	if bytes.Equal(e.Digest, digest) {
		return true
	}
	if !e.AnyOrder {
		return false
	}
	reversed := slices.Clone(digest)
	slices.Reverse(reversed)
	return bytes.Equal(e.Digest, reversed)
}
