package manifest

import (
	"bytes"
	"fmt"
)

// A FormError says that a file is not in the form in which Builder writes manifests:
// GNU lines of one algorithm, or tagged ones where the Style has a tag, each exactly
// as Style.AppendLine writes it, strictly ascending by the raw bytes of their paths,
// and nothing else. The mark of binary mode, with which earlier versions wrote
// some lines, is accepted.
type FormError struct {
	Line int // counted from 1
	Why  string
}

func (e *FormError) Error() string {
	return fmt.Sprintf("line %d %s", e.Line, e.Why)
}

// ownForm checks the lines that a strict Reader reads, one after another.
type ownForm struct {
	style Style
	last  []byte // path of the last line
	path  []byte
	line  []byte
}

// check returns a *FormError if the line that r has read last, of which f are the
// fields, is not the one that follows in a manifest of this form.
func (c *ownForm) check(r *Reader, f fields) error {
	c.path = append(c.path[:0], f.path...)
	path := canonical(c.path) // which changes it, and f.path is part of the line
	c.line = appendStyled(c.style, c.line[:0], f.digest, listedName(path, false))
	if f.binary {
		c.line[bytes.IndexByte(c.line, ' ')+1] = '*'
	}
	switch {
	case !bytes.Equal(c.line, r.raw) || !isRelative(path):
		return &FormError{r.number, "is not written as Sealift writes it"}
	case r.number > 1 && bytes.Compare(c.last, path) >= 0:
		return &FormError{r.number, "is not in ascending order"}
	}
	c.last = append(c.last[:0], path...)
	return nil
}

// isRelative reports whether path leads from a directory to something below it, and
// is spelled as a walk spells it.
func isRelative(path []byte) bool {
	for element := range bytes.SplitSeq(path, []byte("/")) {
		switch string(element) {
		case "", ".", "..":
			return false
		}
	}
	return true
}
