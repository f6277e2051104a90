package classic

import (
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// ascNamespace is that of ASC MHL, which is another format with the same outermost element.
const ascNamespace = "urn:ASC:MHL:"

// maxDigests is how many digests an entry can have.
const maxDigests = 16

// Reader returns the entries of a list one by one. One goroutine uses it.
type Reader struct {
	xml    *safexml.Reader
	inside bool // true after the beginning of the outermost element
}

// NewReader returns a Reader of the list in r. It reads ahead, and does not close r.
func NewReader(r io.Reader) *Reader {
	return &Reader{xml: safexml.NewReader(r)}
}

// ReadEntry reads the entry that begins at the first byte of r.
func ReadEntry(r io.Reader) (Entry, error) {
	x := safexml.NewReader(r)
	token, err := x.Token()
	if err != nil {
		return Entry{}, err
	}
	if start, ok := token.(xml.StartElement); !ok || start.Name.Local != "hash" {
		return Entry{}, x.Fail("there is no entry")
	}
	return readEntry(x)
}

// Next returns the next entry. At the end of the document the error is io.EOF. Any other
// error is a *safexml.Error, which has the line, or that of reading.
//
// Entries are read in the form of the schema, with their elements in any order, and
// elements of other names are passed over. An entry without a file, with a size or digest
// that is none, or with a path that is absolute or has a ".." element, is an error.
func (r *Reader) Next() (Entry, error) {
	if !r.inside {
		if err := r.begin(); err != nil {
			return Entry{}, err
		}
		r.inside = true
	}
	for {
		offset := r.xml.Offset()
		token, err := r.xml.Token()
		if err != nil {
			return Entry{}, err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != "hash" {
			if err := r.xml.Skip(); err != nil {
				return Entry{}, err
			}
			continue
		}
		line := r.xml.Line()
		e, err := readEntry(r.xml)
		e.Line, e.Offset = line, offset
		return e, err
	}
}

// Offset returns how much of the document has been read, in bytes.
func (r *Reader) Offset() int64 { return r.xml.Offset() }

// begin reads up to the first entry.
func (r *Reader) begin() error {
	token, err := r.xml.Token()
	if err != nil {
		return err
	}
	root, ok := token.(xml.StartElement)
	if !ok || root.Name.Local != "hashlist" {
		return r.xml.Fail("it is not a media hash list: the outermost element is not <hashlist>")
	}
	if strings.HasPrefix(root.Name.Space, ascNamespace) {
		return r.xml.Fail("it is a generation of an ASC MHL history; name the directory that has the ascmhl directory")
	}
	for _, a := range root.Attr {
		if a.Name.Local == "version" && !strings.HasPrefix(a.Value, "1.") && !strings.HasPrefix(a.Value, "0.") && a.Value != "1" {
			return r.xml.Fail(fmt.Sprintf("version %.20q of media hash lists is not known", a.Value))
		}
	}
	return nil
}

// readEntry reads an entry whose start was returned last.
func readEntry(x *safexml.Reader) (Entry, error) {
	e := Entry{Size: -1}
	for {
		token, err := x.Token()
		if err != nil {
			return e, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := e.readElement(x, t.Name.Local); err != nil {
				return e, err
			}
		case xml.EndElement:
			return e, e.check(x)
		}
	}
}

// readElement reads one element of an entry, whose start was returned last.
func (e *Entry) readElement(x *safexml.Reader, name string) error {
	k := kindOf(name)
	if k == nil && !slices.Contains([]string{"file", "size", "null"}, name) {
		return x.Skip()
	}
	text, err := x.Text()
	if err != nil {
		return err
	}
	switch name {
	case "file":
		if e.Path != "" {
			return x.Fail("an entry has two files")
		}
		e.Path = text
		return nil
	case "size":
		if e.Size >= 0 {
			return x.Fail("an entry has two sizes")
		}
		size, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
		if err != nil {
			return x.Fail(fmt.Sprintf("%.40q is not a size", text))
		}
		e.Size = int64(size)
		return nil
	case "null":
		e.SizeOnly = true
		return nil
	}
	digest, ok := k.decode(strings.TrimSpace(text))
	if !ok {
		return x.Fail(fmt.Sprintf("%.80q is not a digest of the kind %s", text, name))
	}
	if len(e.Digests) == maxDigests {
		return x.Fail(fmt.Sprintf("an entry has more than %d digests", maxDigests))
	}
	e.Digests = append(e.Digests, hash.Expected{Algorithm: k.algorithm, Digest: digest, AnyOrder: k.anyOrder})
	return nil
}

// decode returns the digest that a text is; not ok if it is none.
func (k *kind) decode(text string) (digest []byte, ok bool) {
	if k.decimal {
		n, err := strconv.ParseUint(text, 10, 8*k.algorithm.Size())
		return binary.BigEndian.AppendUint32(nil, uint32(n)), err == nil
	}
	digest, ok = k.algorithm.AppendDigest(nil, []byte(text))
	return digest, ok && len(digest) == k.algorithm.Size()
}

// check reports what makes an entry useless or dangerous.
func (e *Entry) check(x *safexml.Reader) error {
	switch {
	case e.Path == "":
		return x.Fail("an entry has no file")
	case leavesTree(e.Path), leavesTree(strings.TrimSpace(e.Path)):
		return x.Fail(fmt.Sprintf("the path %.80q is absolute or has a .. element", e.Path))
	case e.SizeOnly && e.Size < 0 && len(e.Digests) == 0:
		return x.Fail("an entry has neither a digest nor a size")
	}
	e.SizeOnly = e.SizeOnly && len(e.Digests) == 0
	return nil
}

// leavesTree reports whether a path can lead out of the tree.
func leavesTree(path string) bool {
	return strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..")
}
