package manifest

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// byLength holds the algorithm that a digest of so many bytes is taken for
// where nothing else tells: the one of coreutils.
var byLength = map[int]hash.Algorithm{}

// byTag holds the algorithm of each tag.
var byTag = map[string]hash.Algorithm{}

// byShortName holds the algorithm of each second name, as of b3sum.
var byShortName = map[string]hash.Algorithm{}

func init() {
	for _, a := range hash.All() {
		for _, tag := range a.Tags() {
			byTag[tag] = a
		}
		if a.ByLength() {
			byLength[a.Size()] = a
		}
		if short := a.ShortName(); short != "" {
			byShortName[short] = a
		}
	}
}

// FileName returns the name of a tree's manifest, "SHA256SUMS" for "sha256";
// empty for an algorithm that has none: manifests of "sha224" and "sha384" are
// checked and never written, and so have no name.
func FileName(algorithm string) string { return hash.Algorithm(algorithm).FileName() }

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
func Tags(algorithm string) []string { return hash.Algorithm(algorithm).Tags() }

// AlgorithmOfTag returns the algorithm that Line.Algorithm names; not ok for a
// tag of none that is known.
func AlgorithmOfTag(tag string) (algorithm string, ok bool) {
	a, ok := byTag[tag]
	return string(a), ok
}

// AlgorithmOfLength returns the algorithm of coreutils whose digests have so
// many bytes, "sha256" for 32, and "" if there is none. It is a guess, for
// untagged lines in a file whose name says nothing.
func AlgorithmOfLength(digestSize int) string { return string(byLength[digestSize]) }

// isWord reports whether s, in lower case, is the name of an algorithm, and no word
// that may mean something else.
func isWord(s string) bool {
	a := hash.Algorithm(s)
	return a.Known() && !a.Ambiguous()
}

// sumsOf returns the algorithm of "sha256", "sha256sum" or "sha256sums", or of
// their siblings, all in lower case. certain is false for a name without "sum" that
// is ambiguous.
func sumsOf(s string) (algorithm string, certain, ok bool) {
	stem, isSum := strings.CutSuffix(strings.TrimSuffix(s, "s"), "sum")
	if !isSum {
		a := hash.Algorithm(s)
		return s, !a.Ambiguous(), a.Known()
	}
	if a, found := byShortName[stem]; found { // BLAKE3's tool is b3sum
		return string(a), true, true
	}
	return stem, true, hash.Algorithm(stem).Known()
}
