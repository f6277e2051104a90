package hash

import (
	"crypto/md5"  //nolint:gosec // for comparison with existing md5 manifests, not for security
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// The algorithms that the program itself names. All others are only in the table.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
	SHA1   Algorithm = "sha1"
	MD5    Algorithm = "md5"
	BLAKE3 Algorithm = "blake3"
	XXH128 Algorithm = "xxh128"
	XXH3   Algorithm = "xxh3"
	XXH64  Algorithm = "xxh64"
	C4     Algorithm = "c4"
	SHA224 Algorithm = "sha224"
	SHA384 Algorithm = "sha384"
	XXH32  Algorithm = "xxh32"
)

// entry is everything that Sealift knows about one algorithm.
type entry struct {
	// name is what the user writes, and the extension of manifests beside a single file. It
	// has letters and digits only, because the names of manifests are split into words.
	name Algorithm

	size int // size of a digest in bytes
	new  func() hash.Hash

	// file is the name of the manifest of a tree, the name in upper case and "SUMS"; empty for
	// an algorithm whose manifests are read and never written.
	file string

	// tags are the names of the algorithm in tagged lines. The first is that of
	// the algorithm's own tool ("sha256sum --tag", "b3sum --tag",
	// "xxhsum --tag"), the second that of OpenSSL 3.
	tags []string

	// short is a second name in names of files: b3sum, film.b3.
	short string

	// byLength means that an untagged digest of this length is read as one of this algorithm,
	// unless a name shows another one. Only the algorithms of coreutils have it.
	byLength bool

	// tagged means that manifests have only tagged lines, because the algorithm's own tool
	// reads an untagged digest of this length as one of another algorithm.
	tagged bool

	// ambiguous means that the name alone, as a word in a file name, does not show the
	// algorithm: C4 is also the fourth camera.
	ambiguous bool

	// text has the form of digests that are not in hexadecimal; nil for hexadecimal.
	text *textForm
}

// textForm converts the digests of an algorithm to text and back.
type textForm struct {
	append func(dst, digest []byte) []byte
	decode func(dst, text []byte) (_ []byte, ok bool)
}

// table has all algorithms, in the order in which help lists them. An algorithm is added here
// and nowhere else. hash_test.go needs its test vectors, and the tests of the documentation
// print the rows that docs/manifest.md and the schemas need.
var table = []entry{
	{name: SHA256, size: 32, new: sha256.New, file: "SHA256SUMS", tags: []string{"SHA256", "SHA2-256"}, byLength: true},
	{name: SHA512, size: 64, new: sha512.New, file: "SHA512SUMS", tags: []string{"SHA512", "SHA2-512"}, byLength: true},
	{name: SHA1, size: 20, new: sha1.New, file: "SHA1SUMS", tags: []string{"SHA1"}, byLength: true},
	{name: MD5, size: 16, new: md5.New, file: "MD5SUMS", tags: []string{"MD5"}, byLength: true},
	{name: BLAKE3, size: 32, new: func() hash.Hash { return blake3.New() }, file: "BLAKE3SUMS", tags: []string{"BLAKE3"}, short: "b3"},
	{name: XXH128, size: 16, new: func() hash.Hash { return &xxh128{xxh3.New()} }, file: "XXH128SUMS", tags: []string{"XXH128"}},
	{name: XXH3, size: 8, new: func() hash.Hash { return xxh3.New() }, file: "XXH3SUMS", tags: []string{"XXH3"}, tagged: true},
	{name: XXH64, size: 8, new: func() hash.Hash { return xxhash.New() }, file: "XXH64SUMS", tags: []string{"XXH64"}},
	{name: C4, size: 64, new: sha512.New, file: "C4SUMS", tags: []string{"C4"}, ambiguous: true, text: &textForm{appendC4, decodeC4}},
	{name: SHA224, size: 28, new: sha256.New224, tags: []string{"SHA224", "SHA2-224"}, byLength: true},
	{name: SHA384, size: 48, new: sha512.New384, tags: []string{"SHA384", "SHA2-384"}, byLength: true},
	{name: XXH32, size: 4, new: func() hash.Hash { return newXXH32() }, tags: []string{"XXH32"}},
}

var byName = func() map[Algorithm]*entry {
	m := make(map[Algorithm]*entry, len(table))
	for i := range table {
		m[table[i].name] = &table[i]
	}
	return m
}()

// byTag has the algorithm of each tag.
var byTag = func() map[string]Algorithm {
	m := map[string]Algorithm{}
	for _, e := range table {
		for _, tag := range e.tags {
			m[tag] = e.name
		}
	}
	return m
}()

// entry returns the entry of a known algorithm, and unknown for any other.
func (a Algorithm) entry() *entry {
	if e, ok := byName[a]; ok {
		return e
	}
	return &unknown
}

// unknown is the entry of unknown algorithms.
var unknown entry

// must is entry for callers that need a known algorithm; it panics otherwise. A default
// algorithm would list digests under a wrong name.
func (a Algorithm) must() *entry {
	e, ok := byName[a]
	if !ok {
		panic(fmt.Sprintf("hash: unknown algorithm %q", a))
	}
	return e
}
