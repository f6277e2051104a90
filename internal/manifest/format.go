// Package manifest reads and writes lists of file digests: formats, a streaming reader, an
// index for look-ups, and a builder that sorts any number of entries in bounded memory.
//
// A path is a string of bytes with "/" between its elements. It is never
// interpreted here: paths in a manifest are hostile until the caller has
// refused "..", absolute names and the like.
package manifest

import (
	"bufio"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// A Format is one kind of manifest: how its files are called, read and written. All
// formats are in the table formats. To add one, write a type with these methods and add
// it there; Recognize, the readers, the builder and the help of verify use the table.
type Format interface {
	// FileNames lists the names that recognize accepts, for help and documentation.
	FileNames() []FileNames

	// recognize reports whether a name, in lower case, is that of a manifest of this
	// format, and of which algorithm.
	recognize(name string) (a hash.Algorithm, ok bool)

	// read returns the entries of the manifest in r, which any program may have written.
	// Entries that do not name their algorithm are of a, or of an unknown one if a is "".
	read(r io.Reader, a hash.Algorithm) entries

	// write writes a manifest. The error is that of out or of the document.
	write(out *bufio.Writer, d *document) error
}

// formats is the table of all formats. No file name is one of two formats.
var formats = []Format{GNU, BSD, BagIt, ClassicMHL{}}

// FormatOf returns the format in which manifests of an algorithm are written by default:
// GNU, or BSD if lines of the algorithm need a tag.
func FormatOf(a hash.Algorithm) Sums {
	if a.NeedsTag() {
		return BSD
	}
	return GNU
}

// FileNames are names of manifests from one origin.
type FileNames struct {
	Patterns []string // with "*" for any text, and sha256 in place of any algorithm
	From     string   // the origin, as in docs/manifest.md
}

// AllFileNames lists the names of the manifests of all formats.
func AllFileNames() (names []FileNames) {
	for _, f := range formats {
		names = append(names, f.FileNames()...)
	}
	return names
}

// An Entry is what a manifest says about one file.
type Entry struct {
	Path string // as the Builder's Named says

	// Digests are those of the Builder's hashes in Put and Each, and those of the
	// Document's hashes in Format.write: there, an entry that was kept from an earlier
	// manifest has only the digest of the hash that was asked for.
	Digests hash.Digests

	Size  int64 // of the file, in bytes; unknown in an entry that was kept
	Mtime int64 // of the file, in seconds since 1970; unknown in an entry that was kept
}

// entries reads one manifest. It is what a Format does for Reader and Index.
type entries interface {
	// next returns the next entry with its place in the file. Its bytes belong to the
	// caller until the next call. The error is errNothing for a comment or the like and
	// errMalformed for what is no entry, both with the place; io.EOF, with the length of
	// the file as offset; that of reading; or that of a document that cannot be read on.
	next() (fields, error)

	// again returns a function that reads the entry at an offset once more. It is called
	// after next has returned io.EOF. The fields are valid until the next call of the
	// function, which is used by one goroutine at a time.
	again(file *lookup.File) func(offset int64) (fields, error)
}

// fields are the parts of an entry.
type fields struct {
	path, digest, tag []byte
	literal           []byte  // Line.Literal
	listed            *Listed // of an entry of a document, which has neither digest nor tag
	number            int     // of the line, from 1
	offset            int64   // of the entry's first byte
}

// isOf reports whether an entry is one of an algorithm, or one without a tag that has a
// digest of the length of its digests.
func (f *fields) isOf(a hash.Algorithm) bool { return f.digestOf(a) != nil }

// digestOf returns the digest of an entry for which isOf is true, and nil for another one.
func (f *fields) digestOf(a hash.Algorithm) []byte {
	if f.listed != nil {
		return f.listed.digestOf(a)
	}
	if len(f.digest) != a.Size() || len(f.tag) > 0 && hash.OfTag(f.tag) != a {
		return nil
	}
	return f.digest
}

// Listed is what an entry of a document, which is no line of text, lists for its file.
type Listed struct {
	Digests  []hash.Expected
	Size     int64 // in bytes; -1 if the document does not say
	SizeOnly bool  // nothing but the size is listed, on purpose
}

// digestOf returns the first digest of an algorithm, nil if there is none. One in an
// unknown order of bytes does not count.
func (l *Listed) digestOf(a hash.Algorithm) []byte {
	for _, d := range l.Digests {
		if d.Algorithm == a && !d.AnyOrder {
			return d.Digest
		}
	}
	return nil
}

// Recognize reports whether a file in the root of a tree is by its name a manifest of
// that tree, of which algorithm and format; see AllFileNames. What starts with ".sealift-"
// is none.
//
// ASCII letters match in either case, since the same names are customary in
// both: SHA256SUMS with Debian, sha256sums.txt with Arch Linux, and Windows
// makes no difference. name is that of the file alone, without a directory.
func Recognize(name string) (algorithm hash.Algorithm, format Format, ok bool) {
	name = lower(name)
	if strings.HasPrefix(name, ".sealift-") {
		return "", nil, false
	}
	for _, f := range formats {
		if a, ok := f.recognize(name); ok {
			return a, f, true
		}
	}
	return "", nil, false
}

// AlgorithmIn returns what the name of a file says that is known to be a
// manifest: what Recognize does, and else GNU and the algorithm that
// stands in the name as a word, as in "backup-sha512.lst", "SHA-256.lst" or
// "release_1.0_SHA256SUMS". The algorithm is empty if there is none, or more
// than one.
func AlgorithmIn(name string) (algorithm hash.Algorithm, format Format) {
	if algorithm, format, ok := Recognize(name); ok {
		return algorithm, format
	}
	before := ""
	for word := range strings.FieldsFuncSeq(lower(name), notInWord) {
		found, certain := sumsOf(word)
		if found == "" && (before == "sha" || before == "sha2") {
			found, certain = sumsOf("sha" + word) // SHA-256, and OpenSSL's SHA2-256
		}
		before = word
		switch {
		case found == "" || !certain:
		case algorithm != "" && found != algorithm:
			return "", GNU
		default:
			algorithm = found
		}
	}
	return algorithm, GNU
}

// notInWord takes everything that is not ASCII for a letter.
func notInWord(c rune) bool {
	return c < 0x80 && (c < '0' || '9' < c) && (c < 'a' || 'z' < c)
}

// isWord reports whether s, in lower case, is the name of an algorithm, and no word
// that may mean something else.
func isWord(s string) bool {
	a := hash.Algorithm(s)
	return a.Known() && !a.Ambiguous()
}

// sumsOf returns the algorithm of "sha256", "sha256sum" or "sha256sums", or of
// their siblings, all in lower case; "" for anything else. certain is false for a name
// without "sum" that is ambiguous.
func sumsOf(s string) (a hash.Algorithm, certain bool) {
	stem, isSum := strings.CutSuffix(strings.TrimSuffix(s, "s"), "sum")
	if !isSum {
		stem = s
	} else if a := hash.OfShortName(stem); a != "" { // BLAKE3's tool is b3sum
		return a, true
	}
	if a = hash.Algorithm(stem); !a.Known() {
		return "", false
	}
	return a, isSum || !a.Ambiguous()
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
