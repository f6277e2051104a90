// Package hash names the digests that Sealift can compute and feeds several of
// them from one read. One table, in registry.go, has the properties of each algorithm.
// All code that lists, names, writes or reads digests derives from it.
package hash

import (
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Algorithm is the name of a digest as the user writes it: "sha256".
type Algorithm string

// All lists every algorithm: those of Algorithms and those that are only read.
func All() []Algorithm {
	var all []Algorithm
	for _, e := range table {
		all = append(all, e.name)
	}
	return all
}

// Algorithms lists the algorithms of which manifests are written.
func Algorithms() []Algorithm {
	return slices.DeleteFunc(All(), func(a Algorithm) bool { return a.FileName() == "" })
}

// Known reports whether there is an algorithm of this name.
func (a Algorithm) Known() bool { return byName[a] != nil }

// Size returns the length of the algorithm's digest in bytes. It panics if the
// algorithm is not known.
func (a Algorithm) Size() int { return a.must().size }

// New returns a running digest. It panics if the algorithm is not known.
func (a Algorithm) New() hash.Hash { return a.must().new() }

// FileName returns the name of a tree's manifest. It is empty for an algorithm that is unknown
// or only read.
func (a Algorithm) FileName() string { return a.entry().file }

// FileNames returns the names that the manifest of a tree can have, the usual one first.
func (a Algorithm) FileNames() []string { return []string{a.FileName(), "sealift." + a.Extension()} }

// Extension returns, without a dot, the end of the names of manifests that are not a
// tree's SHA256SUMS: NAME.sha256 beside a single file, and sealift.sha256. It is empty
// where FileName is.
func (a Algorithm) Extension() string {
	if a.FileName() == "" {
		return ""
	}
	return string(a)
}

// Tags returns the names of the algorithm in tagged lines, which match exactly. The name of
// its own tool is first. The result is nil for an unknown algorithm. The slice must not be
// changed.
func (a Algorithm) Tags() []string { return a.entry().tags }

// OfTag returns the algorithm of a tag, and "" if no known algorithm has it.
func OfTag[T string | []byte](tag T) Algorithm { return byTag[string(tag)] }

// OfLength returns the algorithm of coreutils whose digests have size bytes, "sha256" for 32,
// and "" if there is none. It is a guess for untagged lines in a file whose name contains no
// algorithm.
func OfLength(size int) Algorithm {
	return first(func(e *entry) bool { return e.byLength && e.size == size })
}

// OfShortName returns the algorithm with this short name, and "" if there is none.
func OfShortName(name string) Algorithm {
	return first(func(e *entry) bool { return e.short != "" && e.short == name })
}

// first returns the first algorithm in the table that a function selects, or "".
func first(is func(*entry) bool) Algorithm {
	for i := range table {
		if is(&table[i]) {
			return table[i].name
		}
	}
	return ""
}

// NeedsTag reports whether the lines of the algorithm's manifests are all tagged,
// because its tool takes untagged ones for those of another.
func (a Algorithm) NeedsTag() bool { return a.entry().tagged }

// Ambiguous reports whether the algorithm's name, as a word in a file name, may have another
// meaning.
func (a Algorithm) Ambiguous() bool { return a.entry().ambiguous }

// IsHex reports whether digests are written in hexadecimal. That also holds for unknown
// algorithms.
func (a Algorithm) IsHex() bool { return a.entry().text == nil }

// AppendText appends the text form of a digest: lower-case hexadecimal, or the algorithm's own
// form.
func (a Algorithm) AppendText(dst, digest []byte) []byte {
	if text := a.entry().text; text != nil {
		return text.append(dst, digest)
	}
	return hex.AppendEncode(dst, digest)
}

// Text is AppendText for messages.
func (a Algorithm) Text(digest []byte) string { return string(a.AppendText(nil, digest)) }

// AppendDigest appends the digest of a text form. It is the opposite of AppendText, and
// accepts hexadecimal digits of either case. ok is false if text is not a digest. A digest in
// hexadecimal may have any length.
func (a Algorithm) AppendDigest(dst, text []byte) (_ []byte, ok bool) {
	if other := a.entry().text; other != nil {
		return other.decode(dst, text)
	}
	dst, err := hex.AppendDecode(dst, text)
	return dst, err == nil
}

// xxh128 is xxh3's hasher with the digest of 128 bits, big-endian as xxhsum prints it.
type xxh128 struct{ *xxh3.Hasher }

func (h *xxh128) Size() int { return 16 }

func (h *xxh128) Sum(b []byte) []byte {
	sum := h.Sum128().Bytes()
	return append(b, sum[:]...)
}

// Names lists the values of --hash in the order of the table, without "none".
func Names() []string {
	var names []string
	for _, a := range Algorithms() {
		names = append(names, string(a))
	}
	return names
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
		case !a.Known():
			return nil, fmt.Errorf("unknown hash %q; known are %s, none", name, strings.Join(Names(), ", "))
		case a.FileName() == "":
			return nil, fmt.Errorf("hash %s is only read, by verify; choose from %s, none", a, strings.Join(Names(), ", "))
		case slices.Contains(chosen, a):
			return nil, fmt.Errorf("hash %s is given twice", a)
		}
		chosen = append(chosen, a)
	}
	return chosen, nil
}
