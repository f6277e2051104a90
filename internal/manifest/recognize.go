package manifest

import "strings"

// Format is a grammar of manifests.
type Format uint8

const (
	// FormatSums is that of sha256sum and its siblings: untagged lines with
	// one space or two characters before the name, BSD's and OpenSSL's tagged
	// ones.
	FormatSums Format = iota

	// FormatBagIt is that of manifest-ALG.txt and tagmanifest-ALG.txt in a
	// bag (RFC 8493).
	FormatBagIt
)

// Recognize reports whether a file in the root of a tree is by its name a
// manifest of that tree, and of which kind:
//
//	SHA256SUMS, sha256sums.txt, sha256sum.txt     sha256sum and many a publisher
//	NAME.sha256, NAME.sha256sum, NAME.sha256.txt  beside a file; NAME may be empty
//	NAME.b3                                       BLAKE3
//	sha256-NAME.txt                               secure-copy
//	shasum*.txt                                   dircopy, SHA-256
//	manifest-sha256.txt, tagmanifest-sha256.txt   BagIt
//
// and the same with every algorithm known in place of sha256. What starts with
// ".sealift-" is none. Neither is "sha256sum" alone, which is a program. Of the C4
// algorithm there are only C4SUMS, c4sum.txt, NAME.c4, NAME.c4sum and their variants:
// "c4-report.txt" may be the report about camera 4.
//
// ASCII letters match in either case, since the same names are customary in
// both: SHA256SUMS with Debian, sha256sums.txt with Arch Linux, and Windows
// makes no difference. name is that of the file alone, without a directory.
func Recognize(name string) (algorithm string, format Format, ok bool) {
	name = lower(name)
	if strings.HasPrefix(name, ".sealift-") {
		return "", 0, false
	}
	base, text := strings.CutSuffix(name, ".txt")
	if text {
		bag, inBag := strings.CutPrefix(strings.TrimPrefix(base, "tag"), "manifest-")
		if inBag && isWord(bag) {
			return bag, FormatBagIt, true
		}
		if first, _, cut := strings.Cut(base, "-"); cut && isWord(first) {
			return first, FormatSums, true
		}
		if strings.HasPrefix(base, "shasum") {
			return "sha256", FormatSums, true
		}
	}
	dot := strings.LastIndexByte(base, '.')
	word := base[dot+1:]
	if a, found := byShortName[word]; found && dot >= 0 {
		return string(a), FormatSums, true
	}
	algorithm, certain, ok := sumsOf(word)
	switch {
	case !ok, text && !certain:
		return "", 0, false
	case dot >= 0, strings.HasSuffix(word, "sums"), text && strings.HasSuffix(word, "sum"):
		return algorithm, FormatSums, true
	}
	return "", 0, false
}

// AlgorithmIn returns what the name of a file says that is known to be a
// manifest: what Recognize does, and else FormatSums and the algorithm that
// stands in the name as a word, as in "backup-sha512.lst", "SHA-256.lst" or
// "release_1.0_SHA256SUMS". The algorithm is empty if there is none, or more
// than one.
func AlgorithmIn(name string) (algorithm string, format Format) {
	if algorithm, format, ok := Recognize(name); ok {
		return algorithm, format
	}
	before := ""
	for word := range strings.FieldsFuncSeq(lower(name), notInWord) {
		found, certain, ok := sumsOf(word)
		if !ok && (before == "sha" || before == "sha2") {
			found, certain, ok = sumsOf("sha" + word) // SHA-256, and OpenSSL's SHA2-256
		}
		before = word
		switch {
		case !ok || !certain:
		case algorithm != "" && found != algorithm:
			return "", FormatSums
		default:
			algorithm = found
		}
	}
	return algorithm, FormatSums
}

// notInWord takes everything that is not ASCII for a letter.
func notInWord(c rune) bool {
	return c < 0x80 && (c < '0' || '9' < c) && (c < 'a' || 'z' < c)
}

// lower is strings.ToLower for ASCII letters only: no letter of another script
// turns into one of ours.
func lower(name string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, name)
}
