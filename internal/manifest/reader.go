package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// MaxLine is the length of the longest line that is read, in bytes, line feed
// included: a path of 64 KiB (sixteen times Linux's PATH_MAX) with every byte
// escaped, and 1 KiB for digest and tag. Windows' longest path, 32,767 UTF-16
// units, is at most 98,301 bytes of UTF-8 and fits too. Longer lines are
// malformed; without a limit, a hostile file without a line feed would be
// read into memory whole.
const MaxLine = 2*64<<10 + 1<<10

// maxMalformedKept bounds how many line numbers Malformed remembers; enough
// for a report, and a video file taken for a manifest costs no memory.
const maxMalformedKept = 64

var (
	// errNothing says that a line is blank or a comment: nothing to check,
	// and nothing wrong with it.
	errNothing = errors.New("manifest: blank line or comment")

	// errMalformed says that a line is no entry.
	errMalformed = errors.New("manifest: malformed line")
)

// Line is one entry of a manifest.
type Line struct {
	// Path holds the raw bytes of the name, unescaped; never empty, never
	// with a NUL, not necessarily UTF-8.
	Path string

	// Digest has at least 16 bytes, or as many as its algorithm has. Which
	// lengths are right is for the caller to say, who knows the algorithm.
	Digest []byte

	// Algorithm is the tag as the line spells it, "SHA256" or "SHA2-256"; empty for an
	// untagged line. hash.OfTag knows the tags.
	Algorithm string

	// Literal is a second spelling of Path, to be tried where no file has the
	// first: the name as it stands in a BagIt manifest, whose writer may not
	// have encoded "%". Empty if there is none.
	Literal string

	// Listed is what an entry of a document lists, such as that of a media hash list, which
	// has neither Digest nor Algorithm; nil for a line of text.
	Listed *Listed
}

// Reader reads the entries of a manifest one by one, in constant memory. It is used from
// one goroutine.
type Reader struct {
	in        entries
	number    int    // of the line that was read last
	err       error  // sticky
	tag       string // Algorithm of the last tagged line, to be shared by the next
	malformed int
	kept      []int
}

// NewReader returns a Reader of a manifest in r that any program may have written. The
// algorithm is that of the untagged lines, "" if only their length tells: then untagged
// digests of fewer than 128 bits, or in another form than hexadecimal, are no entries. The
// Reader returns lines of other algorithms as well. It reads ahead, and leaves closing r to
// the caller.
func NewReader(r io.Reader, f Format, a hash.Algorithm) *Reader { return &Reader{in: f.read(r, a)} }

// Next returns the next entry, passing over blank lines and comments, and over
// malformed lines, which it counts. The last line needs no line feed. Digest
// is valid until the next call; the strings last.
//
// At the end the error is io.EOF. Any other error is that of the underlying
// reader; the line it cut short is not returned. Errors are final.
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

// scan is Next without copies: the fields last until the next call, and their
// bytes belong to the caller until then. With an error, they tell the place.
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

// lineParser takes lines apart, without their line feeds. It does not change them.
type lineParser interface {
	// parse returns the parts of a line, which point into it or into the parser and last
	// until the parser is used again. The error is errNothing or errMalformed.
	parse(line []byte) (fields, error)

	// clone returns a parser with other buffers that reads lines as this one does now.
	clone() lineParser
}

// lineReader reads the lines of a format.
type lineReader struct {
	src    *bufio.Reader // its buffer holds the longest line
	max    int           // bytes in a line, line feed included
	parser lineParser
	number int    // of the current line, from 1
	offset int64  // of the current line's first byte
	end    int64  // of the current line
	raw    []byte // the current line with its line feed, as it is in the file
}

func newLineReader(r io.Reader, maxLine int, p lineParser) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(r, bufferSize(r, maxLine)), max: maxLine, parser: p}
}

// bufferSize is enough for the longest line of r, and no more than r holds: there
// may be a manifest for every file.
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

// byteOrderMark is that of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// again implements entries. The first lines have decided how all are to be read.
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

// readLine moves on to the next line and returns it without its line feed. The error is
// errMalformed for a line that is too long, io.EOF, or that of reading.
func (l *lineReader) readLine() ([]byte, error) {
	line, err := l.src.ReadSlice('\n')
	l.raw, l.offset = line, l.end
	if len(line) == 0 {
		return nil, err
	}
	l.number++
	l.end += int64(len(line))
	tooLong := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = l.src.ReadSlice('\n')
		l.end += int64(len(part))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if tooLong || len(line) >= l.max { // the buffer can be longer than the longest line
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
