package manifest

import "strings"

// spelling holds the names by which one algorithm is known in files.
type spelling struct {
	file string // empty: checked, never written
	size int    // of a digest, in bytes
	tags []string
}

// spellings is keyed by the names that users give an algorithm. The first tag
// is that of the BSD-style line of the algorithm's own tool (sha256sum --tag,
// b3sum --tag, xxhsum --tag), the second that of OpenSSL 3.
var spellings = map[string]spelling{
	"sha256": {"SHA256SUMS", 32, []string{"SHA256", "SHA2-256"}},
	"sha512": {"SHA512SUMS", 64, []string{"SHA512", "SHA2-512"}},
	"md5":    {"MD5SUMS", 16, []string{"MD5"}},
	"blake3": {"BLAKE3SUMS", 32, []string{"BLAKE3"}},
	"xxh128": {"XXH128SUMS", 16, []string{"XXH128"}},
	"sha1":   {"", 20, []string{"SHA1"}},
	"sha224": {"", 28, []string{"SHA224", "SHA2-224"}},
	"sha384": {"", 48, []string{"SHA384", "SHA2-384"}},
}

// byLength holds the algorithm that a digest of so many bytes is taken for
// where nothing else tells: the one of coreutils.
var byLength = map[int]string{
	16: "md5",
	20: "sha1",
	28: "sha224",
	32: "sha256",
	48: "sha384",
	64: "sha512",
}

var byTag = func() map[string]string {
	m := map[string]string{}
	for algorithm, s := range spellings {
		for _, tag := range s.tags {
			m[tag] = algorithm
		}
	}
	return m
}()

// FileName returns the name of a tree's manifest, "SHA256SUMS" for "sha256";
// empty for an algorithm that has none. Manifests of "sha1", "sha224" and
// "sha384" are checked and never written, and so have no name.
func FileName(algorithm string) string { return spellings[algorithm].file }

// Extension returns, without a dot, what the names of manifests end in that
// are not a tree's SHA256SUMS: NAME.sha256 beside a single file, and
// sealift.sha256 where the tree's own name is taken. It is empty where
// FileName is.
func Extension(algorithm string) string {
	if FileName(algorithm) == "" {
		return ""
	}
	return algorithm
}

// Tags returns the spellings under which Line.Algorithm means algorithm,
// to be matched exactly; nil for an algorithm that is not known. The length
// of a digest does not tell: SHA-256, BLAKE3 and SHA3-256 share theirs. The
// slice must not be changed.
func Tags(algorithm string) []string { return spellings[algorithm].tags }

// AlgorithmOfTag returns the algorithm that Line.Algorithm names; not ok for a
// tag of none that is known.
func AlgorithmOfTag(tag string) (algorithm string, ok bool) {
	algorithm, ok = byTag[tag]
	return algorithm, ok
}

// AlgorithmOfLength returns the algorithm of coreutils whose digests have so
// many bytes: 16 md5, 20 sha1, 28 sha224, 32 sha256, 48 sha384, 64 sha512, and
// "" for all others. It is a guess, for untagged lines in a file whose name
// says nothing.
func AlgorithmOfLength(digestSize int) string { return byLength[digestSize] }

// known reports whether s, in lower case, is the name of an algorithm.
func known(s string) bool { return spellings[s].size > 0 }

// sumsOf returns the algorithm of "sha256", "sha256sum" or "sha256sums", or of
// their siblings, all in lower case. BLAKE3's tool is b3sum.
func sumsOf(s string) (algorithm string, ok bool) {
	if stem, cut := strings.CutSuffix(strings.TrimSuffix(s, "s"), "sum"); cut {
		s = stem
		if s == "b3" {
			s = "blake3"
		}
	}
	return s, known(s)
}
