// Package safexml reads XML documents that may be hostile, in bounded memory. It returns a
// token stream. Document types, entities of the document's own, other encodings than UTF-8,
// deep nesting and long tokens are errors with a line number.
package safexml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of a document. They fit lists of files: a path of 64 KiB, of which each byte is escaped with
// six characters, is a token of 384 KiB. The size of a document is not limited.
const (
	maxDepth      = 32        // depth of elements within elements
	maxToken      = 512 << 10 // bytes of a tag with its attributes, of a text, or of a comment
	maxAttributes = 64        // number of attributes of one element
)

// CanHold reports whether a document can contain a text: XML 1.0 has no control characters but three,
// and only UTF-8.
func CanHold(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xfffe || c == 0xffff
	})
}

// An Error says what is wrong with a document. Errors of the underlying reader are
// returned as they are and not as an Error.
type Error struct {
	Line int // number of the line, counted from 1
	Why  string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// Reader returns the tokens of one document. One goroutine uses it.
type Reader struct {
	in      *input
	decoder *xml.Decoder
	depth   int
	started bool // true after the beginning of the root element
	decided bool // true once it is clear whether there is an XML declaration
	err     error
}

// NewReader returns a Reader of the document in r. It reads ahead, and does not close r.
func NewReader(r io.Reader) *Reader {
	in := newInput(r)
	d := xml.NewDecoder(in)
	d.CharsetReader = func(encoding string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("the encoding is %.40q; only UTF-8 is read", encoding)
	}
	return &Reader{in: in, decoder: d}
}

// Token returns the next xml.StartElement, xml.EndElement or xml.CharData; comments and
// processing instructions are passed over. Elements are properly nested, and the document
// has exactly one outermost element, with nothing but white space beside it. Bytes of
// CharData are valid until the next call.
//
// At the end the error is io.EOF. Any other error is an *Error or that of the
// underlying reader. Errors are final.
func (r *Reader) Token() (xml.Token, error) {
	for r.err == nil {
		r.in.beginToken(r.decoder.InputOffset())
		token, err := r.decoder.Token()
		if err != nil {
			r.err = r.explain(err)
			break
		}
		wanted, err := r.check(token)
		if err != nil {
			r.err = err
			break
		}
		if wanted {
			return token, nil
		}
	}
	return nil, r.err
}

// Line returns the number of the line, from 1, at which the token ends that was returned last.
func (r *Reader) Line() int {
	line, _ := r.decoder.InputPos()
	return line
}

// Offset returns the place in the document, in bytes, at which the token ends that was
// returned last and the next one begins.
func (r *Reader) Offset() int64 { return r.decoder.InputOffset() + r.in.skipped }

// Text returns the text of the element whose start was returned last, and reads to its
// end. An element within it is an *Error, and so is a text that is too long.
func (r *Reader) Text() (string, error) {
	var text strings.Builder
	for {
		token, err := r.Token()
		if err != nil {
			return "", err
		}
		switch t := token.(type) {
		case xml.EndElement:
			return text.String(), nil
		case xml.CharData:
			if text.Len()+len(t) > maxToken {
				return "", r.fail("a text has more than %d bytes", maxToken)
			}
			text.Write(t)
		case xml.StartElement:
			return "", r.fail("the element <%.40s> is where a text is expected", t.Name.Local)
		}
	}
}

// Skip reads to the end of the element whose start was returned last.
func (r *Reader) Skip() error {
	for depth := 1; depth > 0; {
		token, err := r.Token()
		if err != nil {
			return err
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// Fail returns an *Error with the current line, which ends the reading. The caller uses it
// for documents that are well-formed and do not have the expected structure.
func (r *Reader) Fail(why string) error { return r.fail("%s", why) }

func (r *Reader) fail(format string, args ...any) error {
	if r.err == nil {
		r.err = &Error{r.Line(), fmt.Sprintf(format, args...)}
	}
	return r.err
}

// check refuses tokens that a safe document does not have, and reports whether the
// caller of Token wants the others.
func (r *Reader) check(token xml.Token) (wanted bool, err error) {
	first := !r.decided
	r.decided = true
	switch t := token.(type) {
	case xml.StartElement:
		return true, r.startElement(t)
	case xml.EndElement:
		r.depth--
	case xml.CharData:
		if len(t) > maxToken {
			return false, r.Fail(tokenTooLong)
		}
		if r.depth > 0 {
			return true, nil
		}
		if len(bytes.Trim(t, " \t\r\n")) > 0 {
			return false, r.fail("text outside of the outermost element")
		}
		return false, nil
	case xml.Directive:
		return false, r.fail("a document type (<!%.10s) is not accepted", t)
	case xml.ProcInst:
		if strings.EqualFold(t.Target, "xml") && !first {
			return false, r.fail("an XML declaration that is not at the beginning")
		}
		return false, nil
	default: // a comment
		return false, nil
	}
	return true, nil
}

func (r *Reader) startElement(t xml.StartElement) error {
	if r.depth == 0 && r.started {
		return r.fail("a second outermost element, <%.40s>", t.Name.Local)
	}
	r.started = true
	if r.depth++; r.depth > maxDepth {
		return r.fail("elements are nested more than %d deep", maxDepth)
	}
	if len(t.Attr) > maxAttributes {
		return r.fail("the element <%.40s> has more than %d attributes", t.Name.Local, maxAttributes)
	}
	for i, a := range t.Attr {
		for _, before := range t.Attr[:i] {
			if a.Name == before.Name {
				return r.fail("the element <%.40s> has the attribute %.40s twice", t.Name.Local, a.Name.Local)
			}
		}
	}
	return nil
}

// explain turns errors of the decoder into those that Token documents.
func (r *Reader) explain(err error) error {
	var (
		syntax *xml.SyntaxError
		own    *limitError
	)
	switch {
	case errors.Is(err, io.EOF) && r.started:
		return io.EOF
	case errors.Is(err, io.EOF):
		return &Error{r.Line(), "the document has no element"}
	case errors.As(err, &syntax):
		return &Error{syntax.Line, syntax.Msg}
	case errors.As(err, &own):
		return &Error{r.Line(), own.why}
	case r.in.err != nil:
		return r.in.err
	}
	// Messages of the decoder about the XML declaration.
	why := strings.TrimPrefix(err.Error(), "xml: ")
	if inner := errors.Unwrap(err); inner != nil {
		why = inner.Error()
	}
	return &Error{r.Line(), why}
}
