package safexml

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// input gives the bytes of a document to the decoder one by one, and an error in place of
// a byte that is beyond a limit. The decoder keeps the bytes of one token in memory, and
// never more.
type input struct {
	src      *bufio.Reader
	read     int64 // bytes that the decoder has got
	tokenEnd int64 // offset at which the current token is too long
	skipped  int64 // bytes of the byte order mark
	begun    bool
	err      error // error of src other than io.EOF
}

// A limitError says that a document is beyond a limit or in another encoding.
type limitError struct{ why string }

func (e *limitError) Error() string { return e.why }

func newInput(r io.Reader) *input {
	return &input{src: bufio.NewReaderSize(r, 32<<10)}
}

// beginToken states that a token begins at an offset.
func (i *input) beginToken(offset int64) { i.tokenEnd = offset + maxToken }

// ReadByte implements io.ByteReader.
func (i *input) ReadByte() (byte, error) {
	if !i.begun {
		if err := i.begin(); err != nil {
			return 0, err
		}
	}
	c, err := i.src.ReadByte()
	switch {
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	case err != nil:
		i.err = err
		return 0, err
	case i.read > i.tokenEnd: // the decoder reads one byte behind a text
		return 0, &limitError{tokenTooLong}
	}
	i.read++
	return c, nil
}

var tokenTooLong = fmt.Sprintf("a tag, text or comment has more than %d bytes", maxToken)

// Read implements io.Reader, which xml.NewDecoder asks for. The decoder uses ReadByte.
func (i *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := i.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// begin passes over a byte order mark of UTF-8, and refuses those of UTF-16 and UTF-32.
func (i *input) begin() error {
	i.begun = true
	start, err := i.src.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		i.err = err
		return err
	}
	if bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff}) ||
		bytes.HasPrefix(start, []byte{0, 0}) || bytes.HasPrefix(start, []byte{'<', 0}) || bytes.HasPrefix(start, []byte{0, '<'}) {
		return &limitError{"the encoding is UTF-16 or UTF-32; only UTF-8 is read"}
	}
	if string(start) == "\xef\xbb\xbf" {
		n, err := i.src.Discard(len(start))
		i.skipped = int64(n)
		return err
	}
	return nil
}
