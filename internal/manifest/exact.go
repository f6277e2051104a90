package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// A FormError means that a file is not in the form in which Builder writes manifests. That
// form is lines of GNU or BSD, exactly as that format writes them, strictly ascending by
// the raw bytes of their paths. Only the asterisk before a name, which earlier versions
// wrote in some lines, is also accepted.
type FormError struct {
	Line int // number of the line, counted from 1
	Why  string
}

func (e *FormError) Error() string {
	return fmt.Sprintf("line %d %s", e.Line, e.Why)
}

// exactLines reads a manifest in exactly the form that a Builder writes. Any other form ends
// the reading with a *FormError.
type exactLines struct {
	lineReader
	format Sums
	hashes []hash.Algorithm // algorithms; the lines of each are a block
	named  bool             // value of Builder.Named
	blocks []int64          // offsets of the blocks
	last   []byte           // the path of the line before in the block; nil for the first
	path   []byte           // path of the current line
	line   []byte           // the line in the expected form
	digest []byte           // digest of a plain line

	asterisks bool // true if a line had the asterisk of earlier versions
}

// newOwnLines returns the lines of one or several hashes that the format has written.
func newOwnLines(r io.Reader, f Sums, named bool, hashes ...hash.Algorithm) *exactLines {
	lines := newLineReader(r, MaxLine, &sumParser{algorithm: hashes[0]})
	return &exactLines{lineReader: *lines, format: f, hashes: hashes, named: named}
}

// next implements entries.
func (o *exactLines) next() (f fields, err error) {
	line, err := o.readLine()
	if err == nil {
		if f, plain := o.plain(line); plain {
			return f, o.isNext(f.path)
		}
		f, err = o.parser.parse(line)
	}
	f.number, f.offset = o.number, o.offset
	if err != nil && !errors.Is(err, errMalformed) && !errors.Is(err, errNothing) {
		return f, err
	}
	if n := len(o.blocks); err == nil && (n == 0 || n < len(o.hashes) && !f.isOf(o.hashes[n-1])) {
		o.blocks, o.last = append(o.blocks, o.offset), nil
	}
	if err != nil || !f.isOf(o.hashes[len(o.blocks)-1]) {
		return f, &FormError{o.number, "is not a line of this kind of manifest"}
	}
	return f, o.check(&f)
}

// check compares the line with the one that the format writes.
func (o *exactLines) check(f *fields) error {
	o.path = append(o.path[:0], pathOf(f.path, o.named)...)
	f.path = o.path
	o.line = append(o.line[:0], listedName(o.path, o.named)...)
	name := len(o.line)
	o.line = o.format.appendLine(o.line, o.hashes[len(o.blocks)-1], f.digest, o.line[:name], false)
	written := o.line[name:]
	if mark := bytes.IndexByte(written, ' ') + 1; !o.format.tagged && mark < len(o.raw) && o.raw[mark] == '*' {
		written[mark] = '*'
		o.asterisks = true
	}
	if !bytes.Equal(written, o.raw) || !o.named && !isRelative(o.path) {
		return &FormError{o.number, "is not written as Sealift writes it"}
	}
	return o.isNext(o.path)
}

// isNext checks that path comes after that of the line before.
func (o *exactLines) isNext(path []byte) error {
	if o.last != nil && bytes.Compare(o.last, path) >= 0 {
		return &FormError{o.number, "is not in ascending order"}
	}
	o.last = append(o.last[:0], path...)
	return nil
}

// plain returns the parts of a line of the usual form: GNU, one hash, and a name without
// escapes. Lines of this form need not be written again to be compared. Of any other line, ok
// is false, also if it is right.
func (o *exactLines) plain(line []byte) (f fields, ok bool) {
	a := o.hashes[0]
	digits := 2 * a.Size()
	if o.format.tagged || o.named || len(o.blocks) != 1 || len(o.hashes) != 1 || !a.IsHex() || a.NeedsTag() {
		return f, false
	}
	if len(line) < digits+3 || len(o.raw) != len(line)+1 || line[digits] != ' ' || line[digits+1] != ' ' {
		return f, false
	}
	for _, c := range line[:digits] {
		if c > '9' && c < 'a' { // this is a digit in upper case; the others are no digits
			return f, false
		}
	}
	var err error
	if o.digest, err = hex.AppendDecode(o.digest[:0], line[:digits]); err != nil {
		return f, false
	}
	f = fields{path: line[digits+2:], digest: o.digest}
	f.number, f.offset = o.number, o.offset
	return f, string(f.path) != "-" && !hasByte(f.path, 0, '\\', '\r') && isRelative(f.path)
}

// isRelative reports whether path leads from a directory to an entry below it, in the
// spelling of a walk.
func isRelative(path []byte) bool {
	for element := range bytes.SplitSeq(path, []byte("/")) {
		switch string(element) {
		case "", ".", "..":
			return false
		}
	}
	return true
}

// ExactBlocks checks that a Builder of these hashes could have written the file of size bytes
// in src as a document of the format. It returns the lines of each hash, for
// Document.Previous. named is that of the Builder. A file of size 0 has that form; in all
// others each hash has a line. The error is a *FormError if the file has another form,
// otherwise that of reading.
func ExactBlocks(src io.ReaderAt, size int64, f Sums, named bool, hashes ...hash.Algorithm) ([]io.ReadSeeker, error) {
	lines := newOwnLines(io.NewSectionReader(src, 0, size), f, named, hashes...)
	var err error
	for err == nil {
		_, err = lines.next()
	}
	switch {
	case !errors.Is(err, io.EOF):
		return nil, err
	case lines.end != size:
		return nil, io.ErrUnexpectedEOF
	case size > 0 && len(lines.blocks) < len(hashes):
		return nil, &FormError{lines.number, "is the last one, and there is none of " + hashes[len(lines.blocks)].Tags()[0]}
	}
	blocks := make([]io.ReadSeeker, len(hashes))
	for i, start := range lines.blocks {
		end := size
		if i+1 < len(lines.blocks) {
			end = lines.blocks[i+1]
		}
		blocks[i] = io.NewSectionReader(src, start, end-start)
	}
	return blocks, nil
}
