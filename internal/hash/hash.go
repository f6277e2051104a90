// Package hash names the digests that Sealift can compute and feeds several of
// them from one read.
package hash

import (
	"crypto/md5"  //nolint:gosec // for comparison with existing md5 manifests, not for security
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// Algorithm is the name of a digest as the user writes it: "sha256".
type Algorithm string

// The algorithms, in the order in which help shows them.
const (
	SHA256 Algorithm = "sha256"
	BLAKE3 Algorithm = "blake3"
	XXH128 Algorithm = "xxh128"
	SHA512 Algorithm = "sha512"
	MD5    Algorithm = "md5"
)

// Algorithms that are only checked, in manifests of others.
const (
	SHA1   Algorithm = "sha1"
	SHA224 Algorithm = "sha224"
	SHA384 Algorithm = "sha384"
)

// Algorithms lists the algorithms of which manifests are written.
func Algorithms() []Algorithm { return []Algorithm{SHA256, BLAKE3, XXH128, SHA512, MD5} }

// Size returns the length of the algorithm's digest in bytes.
func (a Algorithm) Size() int {
	switch a {
	case SHA512:
		return 64
	case SHA384:
		return 48
	case SHA224:
		return 28
	case SHA1:
		return 20
	case XXH128, MD5:
		return 16
	}
	return 32
}

// New returns a running digest.
func (a Algorithm) New() hash.Hash {
	switch a {
	case SHA512:
		return sha512.New()
	case MD5:
		return md5.New() //nolint:gosec // see the import
	case SHA1:
		return sha1.New() //nolint:gosec // see the import
	case SHA224:
		return sha256.New224()
	case SHA384:
		return sha512.New384()
	case BLAKE3:
		return blake3.New()
	case XXH128:
		return &xxh128{xxh3.New()}
	}
	return sha256.New()
}

// xxh128 makes xxh3's hasher answer with the 128-bit digest, big-endian as
// xxhsum prints it.
type xxh128 struct{ *xxh3.Hasher }

func (h *xxh128) Size() int { return 16 }

func (h *xxh128) Sum(b []byte) []byte {
	sum := h.Sum128().Bytes()
	return append(b, sum[:]...)
}

// Parse reads the value of --hash: a comma-separated list of algorithms, or
// "none", which gives an empty list.
func Parse(list string) ([]Algorithm, error) {
	if list == "none" {
		return nil, nil
	}
	var chosen []Algorithm
	for name := range strings.SplitSeq(list, ",") {
		a := Algorithm(strings.TrimSpace(name))
		switch {
		case a == "none":
			return nil, fmt.Errorf("none cannot be combined with other hashes")
		case !slices.Contains(Algorithms(), a):
			return nil, fmt.Errorf("unknown hash %q; known are sha256, blake3, xxh128, sha512, md5, none", name)
		case slices.Contains(chosen, a):
			return nil, fmt.Errorf("hash %s is given twice", a)
		}
		chosen = append(chosen, a)
	}
	return chosen, nil
}
