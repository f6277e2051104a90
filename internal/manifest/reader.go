package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// MaxLine is the length of the longest line that is read, in bytes, including the line
// feed. It allows a path of 1 MiB, the longest that a copy records in its journal, with every
// byte escaped, and 1 KiB for digest and tag. Longer lines are malformed. Without a limit, a
// hostile file without a line feed would be read into memory completely.
const MaxLine = 2<<20 + 1<<10

// usualLine is enough for most lines, in bytes. Longer ones need more memory.
const usualLine = 2*64<<10 + 1<<10

// maxMalformedKept limits the line numbers that Malformed stores. It is enough for a
// report, and bounds the memory if a video file is read as a manifest.
const maxMalformedKept = 64

var (
	// errNothing means that a line is blank or a comment: it has no entry, but is not
	// wrong.
	errNothing = errors.New("manifest: blank line or comment")

	// errMalformed means that a line is not an entry.
	errMalformed = errors.New("manifest: malformed line")
)

// Line is one entry of a manifest.
type Line struct {
	// Path has the raw bytes of the name, unescaped. It is never empty, never contains a
	// NUL, and may not be UTF-8.
	Path string

	// Digest has at least 16 bytes, or the length of its algorithm. The caller, who knows
	// the algorithm, checks the length.
	Digest []byte

	// Algorithm is the tag in the spelling of the line, "SHA256" or "SHA2-256". It is empty
	// for an untagged line. hash.OfTag knows the tags.
	Algorithm string

	// Literal is a second spelling of Path, used if no file has the first one. It is the
	// unchanged name in a BagIt manifest, whose writer may not have encoded "%". It is
	// empty if there is none.
	Literal string

	// Listed is the content of a document's entry, such as that of a media hash list, which
	// has neither Digest nor Algorithm. It is nil for a line of text.
	Listed *Listed
}

// Reader reads the entries of a manifest one by one, in constant memory. One goroutine uses
// it.
type Reader struct {
	in        entries
	number    int    // number of the last line that was read
	err       error  // the error of all later calls
	tag       string // Algorithm of the last tagged line, to be shared by the next
	malformed int
	kept      []int
}

// NewReader returns a Reader of a manifest in r that any program may have written. The
// algorithm is that of the untagged lines. If it is "", only their length shows it:
// untagged digests of fewer than 128 bits, or in another form than hexadecimal, are
// malformed. The Reader also returns lines of other algorithms. It reads ahead, and does
// not close r.
func NewReader(r io.Reader, f Format, a hash.Algorithm) *Reader { return &Reader{in: f.read(r, a)} }

// Next returns the next entry. It skips blank lines and comments, and skips and counts
// malformed lines. The last line needs no line feed. Digest is valid until the next call;
// the strings stay valid.
//
// At the end the error is io.EOF. Any other error is that of the underlying reader. Next
// does not return the incomplete line before it. Errors are final.
func (r *Reader) Next() (Line, error) {
	f, err := r.scan()
	if err != nil {
		return Line{}, err
	}
	l := Line{Path: string(f.path), Digest: f.digest, Literal: string(f.literal), Listed: f.listed}
	if len(f.tag) > 0 {
		if string(f.tag) != r.tag {
			r.tag = string(f.tag)
		}
		l.Algorithm = r.tag
	}
	return l, nil
}

// Number returns the line number of the entry that Next returned last,
// counted from 1 over all lines of the file; 0 before the first call.
func (r *Reader) Number() int { return r.number }

// Malformed returns how many lines up to now were malformed, and the numbers
// of the first 64 of them. The slice must not be changed.
func (r *Reader) Malformed() (count int, lines []int) { return r.malformed, r.kept }

// scan is Next without copies: the fields and their bytes belong to the caller until the
// next call. With an error, they have the place.
func (r *Reader) scan() (f fields, err error) {
	for r.err == nil {
		f, err = r.in.next()
		r.number = f.number
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, errMalformed):
			r.malformed++
			if len(r.kept) < maxMalformedKept {
				r.kept = append(r.kept, r.number)
			}
		case !errors.Is(err, errNothing):
			r.err = err
		}
	}
	return f, r.err
}

// lineParser splits lines, without their line feeds, into their parts. It does not change
// them.
type lineParser interface {
	// parse returns the parts of a line, which point into it or into the parser and last
	// until the parser is used again. The error is errNothing or errMalformed.
	parse(line []byte) (fields, error)

	// clone returns a parser with separate buffers that reads lines in the same way.
	clone() lineParser
}

// lineReader reads the lines of a format.
type lineReader struct {
	src    *bufio.Reader // source; its buffer holds most lines
	long   []byte        // buffer of a line that is longer than that of src
	max    int           // longest line in bytes, line feed included
	parser lineParser
	number int    // number of the current line, counted from 1
	offset int64  // offset of the current line's first byte
	end    int64  // end of the current line
	raw    []byte // the current line with its line feed, as in the file
}

func newLineReader(r io.Reader, maxLine int, p lineParser) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(r, bufferSize(r, min(maxLine, usualLine))), max: maxLine, parser: p}
}

// bufferSize is limit, and at most the size of r, because there may be a manifest for every
// file.
func bufferSize(r io.Reader, limit int) int {
	if sized, ok := r.(interface{ Size() int64 }); ok {
		return int(min(sized.Size()+1, int64(limit)))
	}
	return limit
}

// next implements entries.
func (l *lineReader) next() (f fields, err error) {
	line, err := l.readLine()
	if err == nil {
		f, err = l.parse(l.parser, line, l.offset)
	}
	f.number, f.offset = l.number, l.offset
	return f, err
}

// parse parses the line at an offset.
func (*lineReader) parse(p lineParser, line []byte, offset int64) (fields, error) {
	if offset == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return p.parse(line)
}

// byteOrderMark is the one of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// again implements entries. The first lines have decided the form of all lines.
func (l *lineReader) again(file *lookup.File) func(offset int64) (fields, error) {
	p := l.parser.clone()
	window := file.Window()
	var line []byte
	return func(offset int64) (_ fields, err error) {
		if line, err = window.ReadLine(line, offset, l.max); err != nil {
			return fields{}, err
		}
		return l.parse(p, line, offset)
	}
}

// readLine reads the next line and returns it without its line feed. The error is
// errMalformed for a line that is too long, io.EOF, or that of reading.
func (l *lineReader) readLine() ([]byte, error) {
	line, err := l.src.ReadSlice('\n')
	l.raw, l.offset = line, l.end
	if len(line) == 0 {
		return nil, err
	}
	l.number++
	l.end += int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			var part []byte
			part, err = l.src.ReadSlice('\n')
			l.end += int64(len(part))
			if len(l.long) <= l.max {
				if cap(l.long)-len(l.long) < len(part) {
					l.long = slices.Grow(l.long, max(len(l.long), len(part))) // append grows by less, and makes more copies
				}
				l.long = append(l.long, part...)
			}
		}
		line, l.raw = l.long, l.long
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if len(line) >= l.max {
		return nil, errMalformed
	}
	return line, nil
}

// trimLine returns a line without blanks at its start; errNothing for a blank line or a
// comment.
func trimLine(line []byte) ([]byte, error) {
	if len(line) > 0 && line[0] == '#' {
		return nil, errNothing
	}
	if line = bytes.TrimLeft(line, " \t"); len(line) == 0 {
		return nil, errNothing
	}
	return line, nil
}
