package mhl

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// Author is a person that a generation names.
type Author struct{ Name, Email, Phone, Role string }

// Creator describes who makes a generation, where, when and with which program.
type Creator struct {
	Time              time.Time
	Hostname          string
	Tool, ToolVersion string
	Authors           []Author
	Location, Comment string // texts about the place and the run; "" for none
}

// header is the part of a generation before its hashes.
type header struct {
	creator Creator
	process Process
	root    *dirDigests // hashes of the root; nil for a partial generation
	ignore  []string
}

// dirDigests are the hashes of a directory, in the order of the hashes of the run.
type dirDigests struct{ content, structure [][]byte }

// escaped returns text in the form of XML, also for attributes.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}

// writeHeader writes the beginning of a generation, up to its first hash.
func writeHeader(out *bufio.Writer, h *header, hashes []hash.Algorithm) {
	c := &h.creator
	fmt.Fprintf(out, "%s<hashlist version=\"2.0\" xmlns=%q>\n", xml.Header, namespace)
	fmt.Fprintf(out, "  <creatorinfo>\n    <creationdate>%s</creationdate>\n    <hostname>%s</hostname>\n    <tool version=\"%s\">%s</tool>\n",
		c.Time.Format(timeLayout), escaped(c.Hostname), escaped(c.ToolVersion), escaped(c.Tool))
	for _, a := range c.Authors {
		fmt.Fprint(out, "    <author")
		for _, attr := range [][2]string{{"email", a.Email}, {"phone", a.Phone}, {"role", a.Role}} {
			if attr[1] != "" {
				fmt.Fprintf(out, " %s=\"%s\"", attr[0], escaped(attr[1]))
			}
		}
		fmt.Fprintf(out, ">%s</author>\n", escaped(a.Name))
	}
	if c.Location != "" {
		fmt.Fprintf(out, "    <location>%s</location>\n", escaped(c.Location))
	}
	if c.Comment != "" {
		fmt.Fprintf(out, "    <comment>%s</comment>\n", escaped(c.Comment))
	}
	fmt.Fprintf(out, "  </creatorinfo>\n  <processinfo>\n    <process>%s</process>\n    <roothash>\n", h.process)
	writeDirDigests(out, h.root, hashes)
	fmt.Fprint(out, "    </roothash>\n    <ignore>\n")
	for _, p := range h.ignore {
		fmt.Fprintf(out, "      <pattern>%s</pattern>\n", escaped(p))
	}
	fmt.Fprint(out, "    </ignore>\n  </processinfo>\n")
}

// writeDirDigests writes <content> and <structure>. Both are empty if d is nil, because
// ascmhl-debug fails if a generation has no <roothash> with these elements.
func writeDirDigests(out *bufio.Writer, d *dirDigests, hashes []hash.Algorithm) {
	if d == nil {
		d = &dirDigests{}
	}
	for i, name := range []string{"content", "structure"} {
		fmt.Fprintf(out, "      <%s>\n", name)
		for slot, sum := range [][][]byte{d.content, d.structure}[i] {
			fmt.Fprintf(out, "        <%[1]s>%[2]s</%[1]s>\n", hashes[slot], hashes[slot].Text(sum))
		}
		fmt.Fprintf(out, "      </%s>\n", name)
	}
}

// writeFile writes the hash element of a file. digests are in the order of the schema.
func writeFile(out *bufio.Writer, path, previous string, size, mtime int64, digests []Digest) {
	fmt.Fprintf(out, "    <hash>\n      <path size=\"%d\"%s>%s</path>\n", size, timeAttribute(mtime), escaped(path))
	for _, d := range digests {
		fmt.Fprintf(out, "      <%[1]s action=%[2]q>%[3]s</%[1]s>\n", d.Algorithm, d.Action, d.Algorithm.Text(d.Sum))
	}
	writePrevious(out, previous)
	fmt.Fprint(out, "    </hash>\n")
}

func writePrevious(out *bufio.Writer, previous string) {
	if previous != "" {
		fmt.Fprintf(out, "      <previousPath>%s</previousPath>\n", escaped(previous))
	}
}

// writeDirectory writes the hash element of a directory.
func writeDirectory(out *bufio.Writer, path, previous string, mtime int64, d *dirDigests, hashes []hash.Algorithm) {
	fmt.Fprintf(out, "    <directoryhash>\n      <path%s>%s</path>\n", timeAttribute(mtime), escaped(path))
	writeDirDigests(out, d, hashes)
	writePrevious(out, previous)
	fmt.Fprint(out, "    </directoryhash>\n")
}

// writeReferences writes the references, which follow the hashes.
func writeReferences(out *bufio.Writer, references []Reference) {
	if len(references) > 0 {
		fmt.Fprint(out, "  <references>\n")
		for _, r := range references {
			fmt.Fprintf(out, "    <hashlistreference>\n      <path>%s</path>\n      <c4>%s</c4>\n    </hashlistreference>\n",
				escaped(r.Path), hash.C4.Text(r.C4))
		}
		fmt.Fprint(out, "  </references>\n")
	}
	fmt.Fprint(out, "</hashlist>\n")
}

// writeGeneration writes a generation whose hash elements are in body.
func writeGeneration(w io.Writer, h *header, hashes []hash.Algorithm, body io.Reader, references []Reference) error {
	out := bufio.NewWriterSize(w, 64<<10)
	writeHeader(out, h, hashes)
	in := bufio.NewReaderSize(body, 64<<10)
	if _, err := in.Peek(1); err == nil {
		fmt.Fprint(out, "  <hashes>\n")
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		fmt.Fprint(out, "  </hashes>\n")
	} else if !errors.Is(err, io.EOF) { // the schema allows no empty list
		return err
	}
	writeReferences(out, references)
	return out.Flush()
}

// timeLayout is that of XML Schema's dateTime, in whole seconds.
const timeLayout = "2006-01-02T15:04:05-07:00"

// timeAttribute returns the attribute for a modification time in seconds since 1970, or
// nothing for a time that the schema cannot hold.
func timeAttribute(mtime int64) string {
	t := time.Unix(mtime, 0)
	if year := t.UTC().Year(); year < 2 || year > 9998 {
		return ""
	}
	return fmt.Sprintf(" lastmodificationdate=%q", t.Format(timeLayout))
}

// inSchemaOrder compares hashes by their order in the schema.
func inSchemaOrder(a, b hash.Algorithm) int {
	return slices.Index(algorithms, a) - slices.Index(algorithms, b)
}
