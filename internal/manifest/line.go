// Package manifest reads and writes lists of file digests: the lines of
// sha256sum and its siblings, a streaming reader, an index for look-ups, and a
// builder that sorts any number of lines in bounded memory.
//
// A path is a string of bytes with "/" between its elements. It is never
// interpreted here: paths in a manifest are hostile until the caller has
// refused "..", absolute names and the like.
package manifest

import (
	"bytes"
	"errors"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// minHexDigits is the length of the shortest digest that a line may hold which does not
// say of which algorithm it is: MD5 and XXH128, 128 bits. Anything shorter (CRC, Adler)
// is no line of ours, and a word such as "added  file" in a text does not become a
// digest. The 64 bits of XXH64 and XXH3 need a tag, or a file whose name says so.
const minHexDigits = 32

var (
	// ErrNothing says that a line is blank or a comment: nothing to check,
	// and nothing wrong with it.
	ErrNothing = errors.New("manifest: blank line or comment")

	// ErrMalformed says that a line is in none of the known formats.
	ErrMalformed = errors.New("manifest: malformed line")
)

// Line is one entry of a manifest.
type Line struct {
	// Path holds the raw bytes of the name, unescaped; never empty, never
	// with a NUL, not necessarily UTF-8.
	Path string

	// Digest has at least 16 bytes, or as many as its algorithm has. Which
	// lengths are right is for the caller to say, who knows the algorithm.
	Digest []byte

	// Algorithm is the tag as the line spells it, "SHA256" or "SHA2-256";
	// empty for an untagged line. Tags lists the spellings of an algorithm.
	Algorithm string

	// Literal is a second spelling of Path, to be tried where no file has the
	// first: the name as it stands in a BagIt manifest, whose writer may not
	// have encoded "%". Empty if there is none.
	Literal string
}

// ParseLine reads one line without its line feed. It knows
//
//	hex  name              GNU, text mode
//	hex *name              GNU, binary mode
//	SHA256 (name) = hex    BSD, and GNU with --tag
//	SHA256(name)= hex      OpenSSL
//	XXH3_hex  name         xxhsum, and with an asterisk
//
// each with leading blanks, a leading backslash that announces an escaped
// name, hex digits of either case, and one carriage return at the end, as
// "sha256sum -c" does. BSD's "hex name" with a single space is not read:
// beside the two-character form it would let a manifest rename files. A Reader
// from NewCheckReader, which sees the other lines, reads it.
//
// The error is ErrNothing for a blank line or one that starts with "#", and
// ErrMalformed for everything else that is no entry: an odd number of hex
// digits or fewer than 32 (unless a tag says that the digest is shorter), an empty name, a NUL or a bare line feed, an escape
// other than `\\`, `\n` and `\r`. The Line shares no memory with the argument.
func ParseLine(line []byte) (Line, error) {
	var p parser
	f, err := p.parse(line)
	if err != nil {
		return Line{}, err
	}
	return Line{Path: string(f.path), Digest: f.digest, Algorithm: string(f.tag)}, nil
}

// fields are the parts of a parsed line. They point into the line or into the
// parser and last until the parser is used again.
type fields struct {
	path, digest, tag []byte
	literal           []byte // Line.Literal
	binary            bool   // the mark of binary mode stands before the name
}

// A parser holds the buffers that one line after another is unescaped and
// decoded into. The zero value parses lines as ParseLine does.
type parser struct {
	path, digest []byte
	algorithm    hash.Algorithm // of untagged lines; "" if it is not known
	forms        *forms         // nil: untagged lines have two characters before the name
	padded       bool           // more than one space may follow a tag
	bagIt        bool           // lines are those of FormatBagIt
}

// parse is ParseLine without copies. It does not change line.
func (p *parser) parse(line []byte) (fields, error) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) == 0 || line[0] == '#' {
		return fields{}, ErrNothing
	}
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return fields{}, ErrNothing
	}
	if p.bagIt {
		return p.parseBagIt(line)
	}
	escaped := line[0] == '\\'
	if escaped {
		line = line[1:]
	}
	f, ok := p.split(line)
	if !ok || bytes.IndexByte(f.path, 0) >= 0 || bytes.IndexByte(f.path, '\n') >= 0 {
		return fields{}, ErrMalformed
	}
	if escaped {
		if p.path, ok = appendUnescaped(p.path[:0], f.path); !ok {
			return fields{}, ErrMalformed
		}
		f.path = p.path
	}
	return f, nil
}

// split takes the parts of a line apart. The path is still escaped.
func (p *parser) split(line []byte) (f fields, ok bool) {
	word, rest := cutBlank(line)
	if p.digest, ok = appendDigest(p.digest[:0], word, p.algorithm); ok && len(rest) > 0 {
		f.digest = p.digest
		by := p.forms
		if !p.algorithm.IsHex() {
			by = nil // there is no other form of these
		}
		f.path, f.binary, ok = by.splitUntagged(rest[1:], len(f.digest))
		return f, ok
	}
	if f.tag, f.digest, ok = p.splitPrefixed(word); ok && len(rest) > 0 {
		f.path, f.binary, ok = (*forms)(nil).splitUntagged(rest[1:], len(f.digest))
		return f, ok
	}
	var digits []byte
	if f.tag, f.path, digits, ok = p.splitTagged(line); !ok {
		return f, false
	}
	p.digest, ok = appendDigest(p.digest[:0], digits, byTag[string(f.tag)])
	f.digest = p.digest
	return f, ok
}

// isOf reports whether a line is one of an algorithm, or an untagged one with a
// digest of the length of its digests.
func (f *fields) isOf(a hash.Algorithm) bool {
	return len(f.digest) == a.Size() && (len(f.tag) == 0 || byTag[string(f.tag)] == a)
}

// cutBlank cuts a line before its first blank; rest is empty if there is none.
func cutBlank(line []byte) (word, rest []byte) {
	for i, c := range line {
		if isBlank(c) {
			return line[:i], line[i:]
		}
	}
	return line, nil
}

// appendDigest appends the digest that text is; not ok if it is none of the algorithm,
// "" for one that is not known. In hexadecimal it may have another length than those
// of the algorithm, since a line of another kind is not malformed, but not a short one.
func appendDigest(dst, text []byte, a hash.Algorithm) (_ []byte, ok bool) {
	if a.IsHex() && len(text) < minHexDigits && (!a.Known() || len(text) != 2*a.Size()) {
		return dst, false
	}
	return a.AppendDigest(dst, text)
}

// splitPrefixed takes "XXH3_hex" apart, for the algorithms whose untagged digests
// would be taken for those of others.
func (p *parser) splitPrefixed(word []byte) (tag, digest []byte, ok bool) {
	tag, digits, ok := bytes.Cut(word, []byte{'_'})
	if !ok {
		return nil, nil, false
	}
	a := byTag[string(tag)]
	if !a.NeedsTag() {
		return nil, nil, false
	}
	p.digest, ok = a.AppendDigest(p.digest[:0], digits)
	return tag, p.digest, ok && len(p.digest) == a.Size()
}

// splitUntagged takes what stands behind the digest, of digestSize bytes, and the
// blank after it: a second character and the name, or the name where that is the
// form of the file. Further blanks are part of the name. A tab may stand for the
// first blank, as it may for GNU.
func (s *forms) splitUntagged(rest []byte, digestSize int) (name []byte, binary, ok bool) {
	if len(rest) == 0 {
		return nil, false, false
	}
	marked := len(rest) > 1 && (rest[0] == ' ' || rest[0] == '*')
	switch {
	case s.oneSpace(digestSize, marked):
		return rest, false, true
	case marked:
		return rest[1:], rest[0] == '*', true
	}
	return nil, false, false
}

// splitTagged takes "TAG (name) = hex" or "TAG(name)= hex" apart. The name
// ends at the last parenthesis, since a digest holds none.
func (p *parser) splitTagged(line []byte) (tag, name, digits []byte, ok bool) {
	n := tagLength(line)
	if n == 0 {
		return nil, nil, nil, false
	}
	tag, rest := line[:n], bytes.TrimPrefix(line[n:], []byte{' '})
	if p.padded {
		rest = bytes.TrimLeft(rest, " ")
	}
	end := bytes.LastIndexByte(rest, ')')
	if end < 2 || rest[0] != '(' {
		return nil, nil, nil, false
	}
	name = rest[1:end]
	digits, ok = bytes.CutPrefix(bytes.TrimLeft(rest[end+1:], " \t"), []byte{'='})
	if !ok {
		return nil, nil, nil, false
	}
	return tag, name, bytes.TrimLeft(digits, " \t"), true
}

// appendUnescaped undoes the escapes of AppendLine; not ok on any other.
func appendUnescaped(dst, name []byte) (_ []byte, ok bool) {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '\\' {
			i++
			if i == len(name) {
				return dst, false
			}
			switch name[i] {
			case '\\':
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			default:
				return dst, false
			}
		}
		dst = append(dst, c)
	}
	return dst, true
}

// tagLength counts the bytes of an algorithm's name at the start of line:
// a letter, then letters, digits and the "-", "/" and "_" of names such as
// SHA2-512/256.
func tagLength(line []byte) int {
	for i, c := range line {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '/' || c == '_'):
		default:
			return i
		}
	}
	return len(line)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
