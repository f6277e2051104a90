package classic

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// Creator is what a list says about its origin.
type Creator struct {
	Name     string // name of the person; may be ""
	User     string // the login name
	Host     string
	Tool     string // the program and its version
	Begun    time.Time
	Finished time.Time // the time of each digest as well, which the list has to have
}

// Writer writes a list, entry by entry.
type Writer struct {
	out      *bufio.Writer
	elements []string // names of the elements, one for each hash
	hashes   []hash.Algorithm
	date     string // date of each digest
	text     []byte // a buffer for the text of an element
}

// NewWriter writes the beginning of a list of digests of the hashes to out, which it
// does not flush. Each hash must be one of Algorithms. The error is that of out.
func NewWriter(out *bufio.Writer, c Creator, hashes []hash.Algorithm) (*Writer, error) {
	w := &Writer{out: out, hashes: hashes, date: date(c.Finished)}
	for _, a := range hashes {
		element := elementFor(a)
		if element == "" {
			return nil, fmt.Errorf("media hash lists have no digests of %s", a)
		}
		w.elements = append(w.elements, element)
	}
	_, _ = out.WriteString(xml.Header) // a bufio.Writer remembers its error
	w.line(`<hashlist version="1.1">`)
	w.line("  <creatorinfo>")
	if c.Name != "" {
		w.element("name", c.Name)
	}
	w.element("username", c.User)
	w.element("hostname", c.Host)
	w.element("tool", c.Tool)
	w.element("startdate", date(c.Begun))
	w.element("finishdate", w.date)
	w.line("  </creatorinfo>")
	return w, w.err()
}

// Put writes an entry. mtime is in seconds since 1970. The error is that of out, or says
// that the path cannot be in a list.
func (w *Writer) Put(path string, size, mtime int64, digests hash.Digests) error {
	if !safexml.CanHold(path) {
		return fmt.Errorf("%q cannot be in a media hash list: XML has no such characters", path)
	}
	w.line("  <hash>")
	w.element("file", path)
	w.element("size", strconv.FormatInt(size, 10))
	w.element("lastmodificationdate", date(time.Unix(min(max(mtime, firstSecond), lastSecond), 0)))
	for i, a := range w.hashes {
		w.text = a.AppendText(w.text[:0], digests[i])
		w.element(w.elements[i], string(w.text))
	}
	w.element("hashdate", w.date)
	w.line("  </hash>")
	return w.err()
}

// Close writes the end of the list, which has at least one entry. The error is that of out.
func (w *Writer) Close() error {
	w.line("</hashlist>")
	return w.err()
}

// err returns the error of the writer below, which it remembers.
func (w *Writer) err() error {
	_, err := w.out.Write(nil)
	return err
}

func (w *Writer) line(text string) {
	_, _ = w.out.WriteString(text)
	_ = w.out.WriteByte('\n')
}

func (w *Writer) element(name, text string) {
	_, _ = w.out.WriteString("    <" + name + ">")
	_ = xml.EscapeText(w.out, []byte(text))
	w.line("</" + name + ">")
}

// The years 1 to 9999, which dates of XML have.
const (
	firstSecond = -62_135_596_800
	lastSecond  = 253_402_300_799
)

// date writes a time as lists have it, in UTC.
func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// FileName returns the name of the list of a directory that was made at a time, as
// "Card_2024-05-01_093000.mhl". The directory's name is cut where the whole would be
// longer than 255 bytes.
func FileName(directory string, at time.Time) string {
	end := at.UTC().Format("_2006-01-02_150405") + Extension
	for len(directory)+len(end) > 255 {
		_, n := utf8.DecodeLastRuneInString(directory)
		directory = directory[:len(directory)-n]
	}
	return directory + end
}
