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
// ends with a line feed, a carriage return or both. In the path, %0A, %0D and %25 are a
// line feed, a carriage return and the percent sign. There is no other escape (section
// 2.1.3). Many programs do not encode the percent sign, so Line.Literal is the unchanged
// path if that differs. The asterisk of "md5sum -b" before the path, which RFC 8493 describes, is
// removed.
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

// BagItName returns a path in the form of a BagIt manifest.
func BagItName(path string) string { return bagItEscapes.Replace(path) }

// BagItPaths returns the paths that a name in a BagIt manifest or in fetch.txt can mean,
// the best first. These are the name decoded by RFC 8493, the name with only line breaks
// decoded, as bagit.py writes names, and the unchanged name.
func BagItPaths(name string) []string {
	paths := []string{string(appendPercentDecoded(nil, []byte(name)))}
	for _, other := range []string{lineBreaks.Replace(name), name} {
		if !slices.Contains(paths, other) {
			paths = append(paths, other)
		}
	}
	return paths
}

// BagItNames returns the names by which BagIt manifests list a path, besides its encoding
// by RFC 8493: the name that bagit.py writes, and the unchanged path.
func BagItNames(path string) []string {
	names := []string{lineBreakEscapes.Replace(path)}
	if names[0] != path {
		names = append(names, path)
	}
	return names
}

// A bagParser parses lines of BagIt.
type bagParser struct {
	path, digest []byte // buffers of the current line
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
	name = bytes.TrimPrefix(name, []byte("*"))
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

// appendPercentDecoded decodes BagIt's escapes, and keeps all other percent signs
// unchanged.
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

// lineFeeder returns a line feed instead of each carriage return without a line feed after
// it. Offsets do not change.
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
			next, _ = l.src.Peek(1) // a later read returns the error again
		}
		if len(next) == 0 || next[0] != '\n' {
			p[i] = '\n'
		}
	}
	return n, err
}
