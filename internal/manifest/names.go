package manifest

// spelling holds the names by which one algorithm is known in files.
type spelling struct {
	file string
	tags []string
}

// spellings is keyed by the names that users give an algorithm. The first tag
// is that of the BSD-style line of the algorithm's own tool (sha256sum --tag,
// b3sum --tag, xxhsum --tag), the second that of OpenSSL 3.
var spellings = map[string]spelling{
	"sha256": {"SHA256SUMS", []string{"SHA256", "SHA2-256"}},
	"sha512": {"SHA512SUMS", []string{"SHA512", "SHA2-512"}},
	"md5":    {"MD5SUMS", []string{"MD5"}},
	"blake3": {"BLAKE3SUMS", []string{"BLAKE3"}},
	"xxh128": {"XXH128SUMS", []string{"XXH128"}},
}

// FileName returns the name of a tree's manifest, "SHA256SUMS" for "sha256";
// empty for an algorithm that has none.
func FileName(algorithm string) string { return spellings[algorithm].file }

// Extension returns, without a dot, what the names of manifests end in that
// are not a tree's SHA256SUMS: NAME.sha256 beside a single file, and
// sealift.sha256 where the tree's own name is taken. It is empty for an
// algorithm that has no manifest.
func Extension(algorithm string) string {
	if FileName(algorithm) == "" {
		return ""
	}
	return algorithm
}

// Tags returns the spellings under which Line.Algorithm means algorithm,
// to be matched exactly; nil for an algorithm that has no manifest. The length
// of a digest does not tell: SHA-256, BLAKE3 and SHA3-256 share theirs. The
// slice must not be changed.
func Tags(algorithm string) []string { return spellings[algorithm].tags }
