package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// BagIt is the format of manifest-ALG.txt and tagmanifest-ALG.txt in a bag (RFC 8493).
//
// A line is the digest in hex, spaces or tabs, and the path, which starts with neither. It
// ends with a line feed, a carriage return or both. In the path, %0A, %0D and %25 stand
// for a line feed, a carriage return and the percent sign, and nothing else is an escape
// (section 2.1.3). Since many programs write the percent sign as it is, Line.Literal holds
// the path as it stands where that differs. md5sum's asterisk before "data/", which
// RFC 8493 warns of, is taken off.
//
// A line is written with two spaces, and with these three escapes in upper case.
var BagIt Format = bagIt{}

type bagIt struct{}

// FileNames implements Format.
func (bagIt) FileNames() []FileNames {
	return []FileNames{{[]string{"manifest-sha256.txt", "tagmanifest-sha256.txt"}, "BagIt"}}
}

func (bagIt) recognize(name string) (a hash.Algorithm, ok bool) {
	base, text := strings.CutSuffix(name, ".txt")
	word, ok := strings.CutPrefix(strings.TrimPrefix(base, "tag"), "manifest-")
	return hash.Algorithm(word), text && ok && isWord(word)
}

func (bagIt) read(r io.Reader, a hash.Algorithm) entries {
	return newLineReader(newLineFeeder(r), MaxLine, &bagParser{algorithm: a})
}

func (bagIt) write(out *bufio.Writer, d *document) error {
	if len(d.Hashes) != 1 {
		return errors.ErrUnsupported
	}
	var line []byte
	return d.each(0, func(e Entry) error {
		line = d.Hashes[0].AppendText(line[:0], e.Digests[0])
		line = append(line, "  "...)
		line = append(line, BagItName(e.Path)...)
		_, err := out.Write(append(line, '\n'))
		return err
	})
}

var (
	bagItEscapes     = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D")
	lineBreakEscapes = strings.NewReplacer("\n", "%0A", "\r", "%0D")
	lineBreaks       = strings.NewReplacer("%0A", "\n", "%0a", "\n", "%0D", "\r", "%0d", "\r")
)

// BagItName returns a path as a BagIt manifest writes it.
func BagItName(path string) string { return bagItEscapes.Replace(path) }

// BagItPaths returns the paths that a name in a BagIt manifest or in fetch.txt can mean, the
// best first: by RFC 8493, with line breaks decoded only, as bagit.py writes names, and as
// it is.
func BagItPaths(name string) []string {
	paths := []string{string(appendPercentDecoded(nil, []byte(name)))}
	for _, other := range []string{lineBreaks.Replace(name), name} {
		if !slices.Contains(paths, other) {
			paths = append(paths, other)
		}
	}
	return paths
}

// BagItNames returns the names by which BagIt manifests list a path, besides the path as it
// is decoded by RFC 8493: as bagit.py writes it, and as it is.
func BagItNames(path string) []string {
	names := []string{lineBreakEscapes.Replace(path)}
	if names[0] != path {
		names = append(names, path)
	}
	return names
}

// A bagParser parses lines of BagIt.
type bagParser struct {
	path, digest []byte // buffers
	algorithm    hash.Algorithm
}

func (p *bagParser) clone() lineParser { return &bagParser{algorithm: p.algorithm} }

func (p *bagParser) parse(line []byte) (fields, error) {
	line, _, _ = bytes.Cut(line, []byte{'\r'})
	line, err := trimLine(line)
	if err != nil {
		return fields{}, err
	}
	word, name := cutBlank(line)
	var ok bool
	if p.digest, ok = appendDigest(p.digest[:0], word, p.algorithm); !ok {
		return fields{}, errMalformed
	}
	name = bytes.TrimLeft(name, " \t")
	if bytes.HasPrefix(name, []byte("*data/")) {
		name = name[1:]
	}
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
		return fields{}, errMalformed
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

// lineFeeder reads a line feed in place of each carriage return that has none after it.
// Offsets stay.
type lineFeeder struct{ src *bufio.Reader }

func newLineFeeder(r io.Reader) lineFeeder {
	return lineFeeder{bufio.NewReaderSize(r, bufferSize(r, ioBuffer))}
}

// Read implements io.Reader.
func (l lineFeeder) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	for i := range n {
		if p[i] != '\r' {
			continue
		}
		next := p[i+1 : n]
		if len(next) == 0 {
			next, _ = l.src.Peek(1) // an error comes again
		}
		if len(next) == 0 || next[0] != '\n' {
			p[i] = '\n'
		}
	}
	return n, err
}
