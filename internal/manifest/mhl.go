package manifest

import (
	"bufio"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// DocumentError means that a document, such as a media hash list, is not in its format.
type DocumentError = safexml.Error

// ClassicMHL is the format of media hash lists of version 1: "*.mhl" in the root of a tree.
// An entry names the kinds of its digests, and has the size of the file. If one entry is
// invalid, the complete list is refused; the error has the line.
type ClassicMHL struct {
	// Creator is written into the list; it is not used for reading.
	Creator classic.Creator
}

// FileNames implements Format.
func (ClassicMHL) FileNames() []FileNames {
	return []FileNames{{[]string{"*" + classic.Extension}, "media hash lists (MHL 1.1)"}}
}

// recognize implements Format.
func (ClassicMHL) recognize(name string) (a hash.Algorithm, ok bool) {
	return "", strings.HasSuffix(name, classic.Extension)
}

func (ClassicMHL) read(r io.Reader, _ hash.Algorithm) entries {
	return &classicEntries{in: classic.NewReader(r)}
}

// write implements Format. Entries that were kept from an earlier manifest have no size.
// The list leaves them out.
func (c ClassicMHL) write(out *bufio.Writer, d *document) error {
	w, err := classic.NewWriter(out, c.Creator, d.Hashes)
	if err != nil {
		return err
	}
	err = d.each(0, func(e Entry) error { return w.Put(e.Path, e.Size, e.Mtime, e.Digests) })
	if err != nil {
		return err
	}
	return w.Close()
}

// classicEntries are the entries of a media hash list.
type classicEntries struct {
	in *classic.Reader
}

// next implements entries.
func (c *classicEntries) next() (fields, error) {
	e, err := c.in.Next()
	if err != nil {
		return fields{number: e.Line, offset: c.in.Offset()}, err
	}
	return fieldsOf(e), nil
}

// again implements entries.
func (*classicEntries) again(file *lookup.File) func(offset int64) (fields, error) {
	return func(offset int64) (fields, error) {
		e, err := classic.ReadEntry(file.From(offset))
		if err != nil {
			return fields{}, err
		}
		return fieldsOf(e), nil
	}
}

// fieldsOf returns the fields of an entry. Some programs put a name on a separate line, so
// the name without the white space around it is the second spelling.
func fieldsOf(e classic.Entry) fields {
	f := fields{
		path: []byte(e.Path), number: e.Line, offset: e.Offset,
		listed: &Listed{Digests: e.Digests, Size: e.Size, SizeOnly: e.SizeOnly},
	}
	if trimmed := strings.TrimSpace(e.Path); trimmed != e.Path {
		f.literal = []byte(trimmed)
	}
	return f
}
