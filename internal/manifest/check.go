package manifest

import (
	"bytes"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// NewCheckReader returns a Reader for checking, of a manifest in r that anybody
// may have written. The algorithm is that of the untagged lines, "" if only their
// length tells. It knows more than that of NewReader:
//
// A byte order mark of UTF-8 at the start, as editors on Windows leave, is
// passed over.
//
// In FormatSums, BSD's "hex name" with a single space is an entry, too, by the
// rule of GNU: the first untagged line decides whether all have one space or
// two characters before the name, and the two are never mixed. It is one space
// if the name is a single character or starts with neither a space nor an
// asterisk. In such a file, more blanks and the asterisk are part of the name;
// in the other, lines with one space are malformed. A file whose name starts
// with a space thus does not pass for another. Digests of each length have a
// first line of their own, because those of other lengths are no lines to
// sha256sum. Tags may be padded, as by "rhash --bsd": "MD5   (name) = hex".
//
// In FormatBagIt, a line is the digest in hex, spaces or tabs, and the path,
// which starts with neither. It ends with a line feed, a carriage return or
// both. In the path, %0A, %0D and %25 stand for a line feed, a carriage return
// and the percent sign, and nothing else is an escape (RFC 8493, section 2.1.3).
// Since many programs write the percent sign as it is, Line.Literal holds the
// path as it stands where that differs. md5sum's asterisk before "data/", which
// RFC 8493 warns of, is taken off.
func NewCheckReader(r io.Reader, f Format, a hash.Algorithm) *Reader {
	return newCheckReader(r, f, a, MaxLine)
}

func newCheckReader(r io.Reader, f Format, a hash.Algorithm, maxLine int) *Reader {
	if f == FormatBagIt {
		r = &lineFeeder{src: r}
	}
	in := newReader(r, a, maxLine)
	in.bom = true
	in.parse.forms, in.parse.padded, in.parse.bagIt = new(forms), true, f == FormatBagIt
	return in
}

// A form is how many characters stand between digest and name.
type form uint8

const (
	undecided form = iota
	formOneSpace
	formTwoCharacters
)

// maxKnownDigest is the length of the longest digest of an algorithm that is
// known, SHA-512, in bytes.
const maxKnownDigest = 64

// forms holds the form of the untagged lines of a file by the length of their
// digests; all that are longer than the known ones share the last.
type forms [maxKnownDigest + 2]form

// oneSpace reports whether a line is of the form with one space. marked says
// whether it can be of the other; the first line that is asked about decides.
// Without forms, there is only the other.
func (s *forms) oneSpace(digestSize int, marked bool) bool {
	if s == nil {
		return false
	}
	f := &s[min(digestSize, len(s)-1)]
	if *f == undecided {
		*f = formOneSpace
		if marked {
			*f = formTwoCharacters
		}
	}
	return *f == formOneSpace
}

// parseBagIt parses a line of a bag's manifest that is neither blank nor a
// comment.
func (p *parser) parseBagIt(line []byte) (fields, error) {
	word, name := cutBlank(line)
	var ok bool
	if p.digest, ok = appendDigest(p.digest[:0], word, p.algorithm); !ok {
		return fields{}, ErrMalformed
	}
	name = bytes.TrimLeft(name, " \t")
	if bytes.HasPrefix(name, []byte("*data/")) {
		name = name[1:]
	}
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
		return fields{}, ErrMalformed
	}
	p.path = appendPercentDecoded(p.path[:0], name)
	f := fields{path: p.path, digest: p.digest}
	if len(p.path) != len(name) {
		f.literal = name
	}
	return f, nil
}

// appendPercentDecoded undoes BagIt's escapes, and leaves everything else that
// looks like one alone.
func appendPercentDecoded(dst, name []byte) []byte {
	for len(name) > 0 {
		c, n := name[0], 1
		if c == '%' {
			switch string(name[:min(3, len(name))]) {
			case "%0A", "%0a":
				c, n = '\n', 3
			case "%0D", "%0d":
				c, n = '\r', 3
			case "%25":
				n = 3
			}
		}
		dst = append(dst, c)
		name = name[n:]
	}
	return dst
}

// lineFeeder reads src with a line feed for every line end: a carriage return
// alone or one with the line feed after it.
type lineFeeder struct {
	src io.Reader
	// afterCR: the last byte of src was a carriage return, for which a line
	// feed has been read.
	afterCR bool
}

func (l *lineFeeder) Read(p []byte) (int, error) {
	for {
		n, err := l.src.Read(p)
		kept := 0
		for _, c := range p[:n] {
			second := c == '\n' && l.afterCR
			l.afterCR = c == '\r'
			if second {
				continue
			}
			if c == '\r' {
				c = '\n'
			}
			p[kept] = c
			kept++
		}
		if kept > 0 || n == 0 || err != nil {
			return kept, err
		}
	}
}
