package bag

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

// Encoding is the character encoding of the tag files of a bag, except bagit.txt.
type Encoding uint8

// The encodings. Bags that Sealift writes have the first.
const (
	UTF8 Encoding = iota
	latin1
	utf16Any
)

// encodingOf returns the encoding of a name that bagit.txt has. IANA's register has several
// names for one encoding.
func encodingOf(name string) (e Encoding, ok bool) {
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToUpper(name)) {
	case "UTF8", "USASCII", "ASCII":
		return UTF8, true
	case "ISO88591", "LATIN1":
		return latin1, true
	case "UTF16", "UTF16BE", "UTF16LE":
		return utf16Any, true
	}
	return 0, false
}

// NewReader returns a reader of the text of a tag file in UTF-8. If the file is not in the
// encoding, reading returns an error.
func (e Encoding) NewReader(r io.Reader) io.Reader {
	switch e {
	case latin1:
		in := bufio.NewReader(r)
		return &decoder{next: func() (rune, error) {
			c, err := in.ReadByte()
			return rune(c), err
		}}
	case utf16Any:
		in := &utf16Reader{in: bufio.NewReader(r)}
		return &decoder{next: in.next}
	}
	return r
}

// Decode returns the text of the tag file of size bytes in src, in UTF-8, and the size of the
// text. For UTF-8, text is nil. Otherwise the caller closes it. See NewReader for the error.
func (e Encoding) Decode(src io.ReaderAt, size int64) (text extsort.Spill, length int64, err error) {
	if e == UTF8 {
		return nil, 0, nil
	}
	if text, err = extsort.TempFile(); err != nil {
		return nil, 0, err
	}
	out := bufio.NewWriter(text)
	length, err = io.Copy(out, e.NewReader(io.NewSectionReader(src, 0, size)))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return nil, 0, errors.Join(err, text.Close())
	}
	return text, length, nil
}

// decoder reads characters as UTF-8.
type decoder struct {
	next func() (rune, error)
	err  error  // the error of all later calls
	left []byte // rest of the last character
	buf  [utf8.UTFMax]byte
}

// Read implements io.Reader.
func (d *decoder) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(d.left) == 0 {
			var c rune
			if d.err == nil {
				c, d.err = d.next()
			}
			if d.err != nil && n > 0 {
				return n, nil
			}
			if d.err != nil {
				return 0, d.err
			}
			d.left = utf8.AppendRune(d.buf[:0], c)
		}
		k := copy(p[n:], d.left)
		n, d.left = n+k, d.left[k:]
	}
	return n, nil
}

// utf16Reader reads the characters of a tag file in UTF-16.
type utf16Reader struct {
	in     *bufio.Reader
	begun  bool
	little bool  // true if the low byte comes first
	offset int64 // offset of the next unit
}

// begin finds the order of the bytes. Without a byte order mark, the first character shows
// it, because tag files begin with one of ASCII.
func (u *utf16Reader) begin() error {
	u.begun = true
	first, err := u.in.Peek(2)
	switch {
	case len(first) == 0:
		return err
	case len(first) == 1:
		return errors.New("it is not in UTF-16: it has one byte")
	case first[0] == 0xfe && first[1] == 0xff, first[0] == 0xff && first[1] == 0xfe:
		u.little = first[0] == 0xff
		u.offset = 2
		_, err = u.in.Discard(2)
		return err
	case first[0] != 0 && first[1] != 0:
		return errors.New("it is not in UTF-16: it has no byte order mark, and its first character is not one of ASCII")
	}
	u.little = first[1] == 0
	return nil
}

func (u *utf16Reader) unit() (rune, error) {
	var b [2]byte
	if _, err := io.ReadFull(u.in, b[:]); errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, fmt.Errorf("it is not in UTF-16: it ends within a character, at byte %d", u.offset)
	} else if err != nil {
		return 0, err
	}
	u.offset += 2
	if u.little {
		b[0], b[1] = b[1], b[0]
	}
	return rune(b[0])<<8 | rune(b[1]), nil
}

func (u *utf16Reader) next() (rune, error) {
	if !u.begun {
		if err := u.begin(); err != nil {
			return 0, err
		}
	}
	start := u.offset
	c, err := u.unit()
	if err != nil || !utf16.IsSurrogate(c) {
		return c, err
	}
	low, err := u.unit()
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
		return 0, fmt.Errorf("it is not in UTF-16: half of a pair is alone at byte %d", start)
	}
	return c, nil
}
