// Package manifest reads and writes lists of file digests. It has the formats, a streaming
// reader, an index that finds paths, and a builder that sorts any number of entries in
// bounded memory.
//
// A path is a string of bytes with "/" between its elements. This package never interprets
// paths: they are hostile until the caller has refused "..", absolute names and the like.
package manifest

import (
	"bufio"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// A Format is one kind of manifest: the names of its files, and how to read and write them.
// All formats are in the table formats. To add one, write a type with these methods and add
// it there. Recognize, the readers, the builder and the help of verify use the table.
type Format interface {
	// FileNames lists the names that recognize accepts, for help and documentation.
	FileNames() []FileNames

	// recognize reports whether a name, in lower case, is that of a manifest of this
	// format, and returns its algorithm.
	recognize(name string) (a hash.Algorithm, ok bool)

	// read returns the entries of the manifest in r, which any program may have written.
	// Entries without a named algorithm are of a; if a is "", theirs is unknown.
	read(r io.Reader, a hash.Algorithm) entries

	// write writes a manifest. The error is that of out or of the document.
	write(out *bufio.Writer, d *document) error
}

// formats is the table of all formats. No file name belongs to two formats.
var formats = []Format{GNU, BSD, BagIt, ClassicMHL{}}

// FormatOf returns the format in which manifests of an algorithm are written by default:
// GNU, or BSD if lines of the algorithm need a tag.
func FormatOf(a hash.Algorithm) Sums {
	if a.NeedsTag() {
		return BSD
	}
	return GNU
}

// FileNames has the names of manifests from one origin.
type FileNames struct {
	Patterns []string // names with "*" for any text, and sha256 for any algorithm
	From     string   // the origin; docs/manifest.md has the same text
}

// AllFileNames lists the names of the manifests of all formats.
func AllFileNames() (names []FileNames) {
	for _, f := range formats {
		names = append(names, f.FileNames()...)
	}
	return names
}

// An Entry is the information of a manifest about one file.
type Entry struct {
	Path string // path in the spelling of the Builder's Named

	// Digests has those of the Builder's hashes in Put and Each, and those of the
	// Document's hashes in Format.write. There, an entry that was kept from an earlier
	// manifest has only the digest of the requested hash.
	Digests hash.Digests

	Size  int64 // size of the file in bytes; unknown in an entry that was kept
	Mtime int64 // modification time in seconds since 1970; unknown in an entry that was kept
}

// entries reads one manifest for Reader and Index. Each Format implements it.
type entries interface {
	// next returns the next entry with its place in the file. Its bytes belong to the
	// caller until the next call. The error is errNothing for a line without an entry, such
	// as a comment, and errMalformed for one that is not an entry; both have the place. It
	// is io.EOF, with the length of the file as offset, at the end. Otherwise reading
	// failed, or the document cannot be read on.
	next() (fields, error)

	// again returns a function that reads the entry at an offset once more. The caller
	// calls again after next has returned io.EOF. The fields are valid until the next call
	// of the function; one goroutine at a time uses it.
	again(file *lookup.File) func(offset int64) (fields, error)
}

// fields are the parts of an entry.
type fields struct {
	path, digest, tag []byte
	literal           []byte  // bytes for Line.Literal
	listed            *Listed // content of a document's entry, which has neither digest nor tag
	number            int     // number of the line, counted from 1
	offset            int64   // offset of the entry's first byte
}

// isOf reports whether an entry is one of an algorithm, or has no tag and a digest of the
// right length.
func (f *fields) isOf(a hash.Algorithm) bool { return f.digestOf(a) != nil }

// digestOf returns the digest of an entry for which isOf is true, and nil for other
// entries.
func (f *fields) digestOf(a hash.Algorithm) []byte {
	if f.listed != nil {
		return f.listed.digestOf(a)
	}
	if len(f.digest) != a.Size() || len(f.tag) > 0 && hash.OfTag(f.tag) != a {
		return nil
	}
	return f.digest
}

// Listed is the content of a document's entry, which is not a line of text, about its file.
type Listed struct {
	Digests  []hash.Expected
	Size     int64 // size in bytes; -1 if the document does not say
	SizeOnly bool  // true if only the size is listed, on purpose
}

// digestOf returns the first digest of an algorithm, or nil. A digest with an unknown order
// of bytes does not count.
func (l *Listed) digestOf(a hash.Algorithm) []byte {
	for _, d := range l.Digests {
		if d.Algorithm == a && !d.AnyOrder {
			return d.Digest
		}
	}
	return nil
}

// Recognize reports whether a file in the root of a tree is, by its name, a manifest of
// that tree. It returns the algorithm and format; see AllFileNames. A name that starts with
// ".sealift-" is not one.
//
// ASCII letters match in either case. SHA256SUMS is usual with Debian, sha256sums.txt with
// Arch Linux, and Windows ignores case. name is the name of the file without a directory.
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

// AlgorithmIn returns the algorithm and format in the name of a file that is known to be a
// manifest. These are the results of Recognize. For other names, they are GNU and the
// algorithm that is a word of the name, as in "backup-sha512.lst", "SHA-256.lst" or
// "release_1.0_SHA256SUMS". The algorithm is empty if there is none, or more than one.
func AlgorithmIn(name string) (algorithm hash.Algorithm, format Format) {
	if algorithm, format, ok := Recognize(name); ok {
		return algorithm, format
	}
	before := ""
	for word := range strings.FieldsFuncSeq(lower(name), notInWord) {
		found, certain := sumsOf(word)
		if found == "" && (before == "sha" || before == "sha2") {
			found, certain = sumsOf("sha" + word) // these are the words of "SHA-256", and of OpenSSL's "SHA2-256"
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

// notInWord treats every character outside ASCII as a letter.
func notInWord(c rune) bool {
	return c < 0x80 && (c < '0' || '9' < c) && (c < 'a' || 'z' < c)
}

// isWord reports whether s, in lower case, is the name of an algorithm that is not also an
// ordinary word.
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
	} else if a := hash.OfShortName(stem); a != "" { // the tool of BLAKE3 is b3sum
		return a, true
	}
	if a = hash.Algorithm(stem); !a.Known() {
		return "", false
	}
	return a, isSum || !a.Ambiguous()
}

// lower is strings.ToLower for ASCII letters only. It maps no letter of another script to
// an ASCII letter.
func lower(name string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, name)
}
