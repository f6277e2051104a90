package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// A FormError says that a file is not in the form in which Builder writes manifests:
// GNU lines of one algorithm, or tagged ones where the Style has a tag, each exactly
// as Style.AppendLine writes it, strictly ascending by the raw bytes of their paths,
// and nothing else. The asterisk before a name, with which earlier versions wrote
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
	algorithm hash.Algorithm
	style     Style
	named     bool   // as Builder.Named
	any       bool   // there was a line
	last      []byte // its path
	path      []byte
	line      []byte
}

// check returns a *FormError if the line that r has read last, of which f are the
// fields, is not the one that follows in a manifest of this form.
func (c *ownForm) check(r *Reader, f fields) error {
	c.path = append(c.path[:0], f.path...)
	path := pathOf(c.path, c.named) // which changes it, and f.path is part of the line
	c.line = appendStyled(c.style, c.algorithm, c.line[:0], f.digest, listedName(path, c.named))
	if f.binary {
		c.line[bytes.IndexByte(c.line, ' ')+1] = '*'
	}
	switch {
	case !bytes.Equal(c.line, r.raw) || !c.named && !isRelative(path):
		return &FormError{r.number, "is not written as Sealift writes it"}
	case c.any && bytes.Compare(c.last, path) >= 0:
		return &FormError{r.number, "is not in ascending order"}
	}
	c.last, c.any = append(c.last[:0], path...), true
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

// OwnBlocks checks that the file of size bytes in src is what the builders can have
// written into it, one after another, and returns the lines of each, for
// Carry.Previous. Several builders all have a Style with a tag. A file of size 0 has that
// form; in all others each builder has a line. The error is a *FormError if the file has
// another form, or else that of reading.
func OwnBlocks(src io.ReaderAt, size int64, builders ...*Builder) ([]*io.SectionReader, error) {
	var blocks []*io.SectionReader
	var form *ownForm
	start := int64(0)
	end := func(at int64) {
		if form != nil {
			blocks = append(blocks, io.NewSectionReader(src, start, at-start))
		}
		start = at
	}
	r := NewReader(io.NewSectionReader(src, 0, size), builders[0].algorithm)
	r.strict = true
	for {
		f, err := r.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if left := builders[len(blocks):]; form == nil || !f.isOf(form.algorithm) && len(left) > 1 {
			end(r.offset)
			b := builders[len(blocks)]
			form = &ownForm{algorithm: b.algorithm, style: b.Style, named: b.Named}
		}
		if !f.isOf(form.algorithm) {
			r.reject()
			return nil, r.err
		}
		if err := form.check(r, f); err != nil {
			return nil, err
		}
	}
	end(r.next)
	switch {
	case r.next != size:
		return nil, io.ErrUnexpectedEOF
	case size == 0:
		return make([]*io.SectionReader, len(builders)), nil
	case len(blocks) < len(builders):
		return nil, &FormError{r.number, "is the last one, and there is none of " + builders[len(blocks)].Style.Tag}
	}
	return blocks, nil
}
