package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
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

// Reader reads a manifest line by line in constant memory. It is used from one
// goroutine.
type Reader struct {
	src    *bufio.Reader // its buffer holds the longest line
	max    int           // bytes in a line, line feed included
	parse  parser
	bom    bool   // the first line may start with a byte order mark
	strict bool   // whatever is no entry ends the reading with a *FormError
	number int    // of the current line, from 1
	offset int64  // of the current line's first byte
	next   int64  // offset of the line after it
	raw    []byte // the current line with its line feed, as it is in the file
	err    error  // sticky

	tag       string // Algorithm of the last tagged line, to be shared by the next
	malformed int
	kept      []int
}

// NewReader returns a Reader of the manifest of an algorithm in r. It returns lines of
// other algorithms as well, but untagged digests of fewer than 128 bits, or in another
// form than hexadecimal, are entries only if they are the algorithm's own. The algorithm
// may be "". The Reader reads ahead, and leaves closing r to the caller.
func NewReader(r io.Reader, a hash.Algorithm) *Reader { return newReader(r, a, MaxLine) }

func newReader(r io.Reader, a hash.Algorithm, maxLine int) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, bufferSize(r, maxLine)), max: maxLine, parse: parser{algorithm: a}}
}

// bufferSize is enough for the longest line of r, and no more than r holds: there
// may be a manifest for every file.
func bufferSize(r io.Reader, maxLine int) int {
	if sized, ok := r.(interface{ Size() int64 }); ok {
		return int(min(sized.Size()+1, int64(maxLine)))
	}
	return maxLine
}

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
	l := Line{Path: string(f.path), Digest: f.digest, Literal: string(f.literal)}
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
// bytes belong to the caller until then.
func (r *Reader) scan() (fields, error) {
	for r.err == nil {
		line, ok := r.readLine()
		if !ok {
			continue
		}
		f, err := r.parse.parse(line)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, ErrMalformed) || r.strict:
			r.reject()
		}
	}
	return fields{}, r.err
}

// readLine moves on to the next line and returns it without its line feed; not
// ok when there is none or when it is too long, which it counts.
func (r *Reader) readLine() (line []byte, ok bool) {
	line, err := r.src.ReadSlice('\n')
	if len(line) == 0 {
		r.err = err
		return nil, false
	}
	r.number++
	r.offset = r.next
	r.next += int64(len(line))
	r.raw = line
	switch {
	case err == nil:
		line = line[:len(line)-1]
	case errors.Is(err, bufio.ErrBufferFull):
		r.skipLine()
		r.reject()
		return nil, false
	case !errors.Is(err, io.EOF):
		r.err = err
		return nil, false
	}
	if len(line) >= r.max { // the buffer can be longer than the longest line
		r.reject()
		return nil, false
	}
	if r.bom && r.number == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line, true
}

// byteOrderMark is that of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// skipLine reads up to the end of the current line.
func (r *Reader) skipLine() {
	for {
		part, err := r.src.ReadSlice('\n')
		r.next += int64(len(part))
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		r.err = err
		return
	}
}

// reject counts the current line as malformed.
func (r *Reader) reject() {
	if r.strict {
		r.err = &FormError{r.number, "is not a line of this kind of manifest"}
	}
	r.malformed++
	if len(r.kept) < maxMalformedKept {
		r.kept = append(r.kept, r.number)
	}
}
