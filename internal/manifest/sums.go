package manifest

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// GNU is the format of sha256sum and its siblings, and BSD that of their --tag. Both are
// read by one grammar, since one file may have lines of both:
//
//	hex  name              GNU, text mode
//	hex *name              GNU, binary mode
//	hex name               BSD's "sha256 -r"; see form
//	SHA256 (name) = hex    BSD, and GNU with --tag
//	SHA256(name)= hex      OpenSSL
//	XXH3_hex  name         xxhsum, and with an asterisk
//
// each with leading blanks, a leading backslash that announces an escaped name, hex digits
// of either case, and one carriage return at the end, as "sha256sum -c" does. A byte order
// mark of UTF-8 at the start of the file, which editors on Windows write, is skipped. Tags
// may be padded, as by "rhash --bsd": "MD5   (name) = hex".
//
// Lines have the form of GNU sha256sum 9.0 and later in text mode. If the name contains a
// backslash, a line feed or a carriage return, the line starts with a backslash and those
// three become `\\`, `\n` and `\r`. All other bytes are unchanged (coreutils, "md5sum
// invocation"). A BSD manifest of several hashes has all lines of one hash before those of
// the next. An empty path, or one with a NUL, yields a line that no Reader accepts.
var (
	GNU = Sums{}
	BSD = Sums{tagged: true}
)

// Sums is the type of GNU and BSD. Only manifests of these formats can be checked for
// exactly the form that Sealift writes, and keep lines of an earlier manifest.
type Sums struct {
	tagged bool // true if each line is written with its tag
}

// FileNames implements Format. Files of BSD lines have the same names as those of GNU.
func (s Sums) FileNames() []FileNames {
	if s.tagged {
		return nil
	}
	return []FileNames{
		{[]string{"SHA256SUMS", "sha256sums.txt", "sha256sum.txt"}, "`copy`, distributions, published releases"},
		{[]string{"*.sha256", "*.sha256sum", "*.sha256.txt"}, "`copy` of a single file, or of a source that has a `SHA256SUMS`; many other programs"},
		{[]string{"*.b3"}, "BLAKE3"},
		{[]string{"sha256-*.txt"}, "secure-copy"},
		{[]string{"shasum*.txt"}, "dircopy; these are SHA-256"},
	}
}

// recognize implements Format. "sha256sum" without more is a program. The C4 algorithm has
// only C4SUMS, c4sum.txt, NAME.c4, NAME.c4sum and their variants: "c4-report.txt" may be
// the report about camera 4.
func (s Sums) recognize(name string) (a hash.Algorithm, ok bool) {
	if s.tagged {
		return "", false
	}
	base, text := strings.CutSuffix(name, ".txt")
	if text {
		if first, _, cut := strings.Cut(base, "-"); cut && isWord(first) {
			return hash.Algorithm(first), true
		}
		if strings.HasPrefix(base, "shasum") {
			return hash.SHA256, true
		}
	}
	dot := strings.LastIndexByte(base, '.')
	word := base[dot+1:]
	if a := hash.OfShortName(word); a != "" && dot >= 0 {
		return a, true
	}
	a, certain := sumsOf(word)
	if a == "" || text && !certain {
		return "", false
	}
	return a, dot >= 0 || strings.HasSuffix(word, "sums") || text && strings.HasSuffix(word, "sum")
}

func (Sums) read(r io.Reader, a hash.Algorithm) entries {
	return newLineReader(r, MaxLine, &sumParser{algorithm: a, forms: new(forms)})
}

func (s Sums) write(out *bufio.Writer, d *document) error {
	var line, path []byte
	for i, a := range d.Hashes {
		err := d.each(i, func(e Entry) error {
			path = append(path[:0], listedName(e.Path, d.builder.Named)...)
			line = s.appendLine(line[:0], a, e.Digests[i], path, d.Zero)
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// appendLine appends the line of a path. zero ends the line with a NUL byte and leaves the
// name unchanged, as "sha256sum --zero" does. Neither Reader nor "sha256sum -c" reads that
// form.
func (s Sums) appendLine(dst []byte, a hash.Algorithm, digest, path []byte, zero bool) []byte {
	escaped := !zero && hasByte(path, '\\', '\n', '\r')
	if escaped {
		dst = append(dst, '\\')
	}
	if s.tagged {
		dst = append(dst, a.Tags()[0]...)
		dst = append(dst, " ("...)
		dst = appendName(dst, path, escaped)
		dst = append(dst, ") = "...)
		dst = a.AppendText(dst, digest)
	} else {
		dst = a.AppendText(dst, digest)
		dst = append(dst, "  "...)
		dst = appendName(dst, path, escaped)
	}
	if zero {
		return append(dst, 0)
	}
	return append(dst, '\n')
}

func appendName(dst, path []byte, escaped bool) []byte {
	if !escaped {
		return append(dst, path...)
	}
	for _, c := range path {
		switch c {
		case '\\':
			dst = append(dst, `\\`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// minHexDigits is the length of the shortest digest in a line that does not name its
// algorithm: MD5 and XXH128, 128 bits. A line with a shorter one (CRC, Adler) is malformed,
// so a word such as "added  file" in a text is not read as a digest. The 64 bits of XXH64
// and XXH3 need a tag, or a file whose name gives the algorithm.
const minHexDigits = 32

// A sumParser parses lines of GNU and BSD.
type sumParser struct {
	path, digest []byte         // buffers of the current line
	algorithm    hash.Algorithm // algorithm of untagged lines; "" if it is not known
	forms        *forms         // accepted forms; nil if untagged lines have two characters before the name
}

func (p *sumParser) clone() lineParser { return &sumParser{algorithm: p.algorithm, forms: p.forms} }

// parse implements lineParser. The error is errMalformed for an odd number of hex digits or
// fewer than 32, unless a tag allows a shorter digest. It is also errMalformed for an empty
// name, a NUL or a bare line feed, and an escape other than `\\`, `\n` and `\r`.
func (p *sumParser) parse(line []byte) (fields, error) {
	line, err := trimLine(bytes.TrimSuffix(line, []byte{'\r'}))
	if err != nil {
		return fields{}, err
	}
	line, escaped := bytes.CutPrefix(line, []byte{'\\'})
	f, ok := p.split(line)
	if !ok || hasByte(f.path, 0, '\n') {
		return fields{}, errMalformed
	}
	if escaped {
		if p.path, ok = appendUnescaped(p.path[:0], f.path); !ok {
			return fields{}, errMalformed
		}
		f.path = p.path
	}
	return f, nil
}

// split splits a line into its parts. The path is still escaped.
func (p *sumParser) split(line []byte) (f fields, ok bool) {
	word, rest := cutBlank(line)
	if p.digest, ok = appendDigest(p.digest[:0], word, p.algorithm); ok && len(rest) > 0 {
		f.digest = p.digest
		by := p.forms
		if !p.algorithm.IsHex() {
			by = nil // these algorithms have no other form
		}
		f.path, ok = by.splitUntagged(rest[1:], len(f.digest))
		return f, ok
	}
	if f.tag, f.digest, ok = p.splitPrefixed(word); ok && len(rest) > 0 {
		f.path, ok = (*forms)(nil).splitUntagged(rest[1:], len(f.digest))
		return f, ok
	}
	var digits []byte
	if f.tag, f.path, digits, ok = splitTagged(line); !ok {
		return f, false
	}
	p.digest, ok = appendDigest(p.digest[:0], digits, hash.OfTag(f.tag))
	f.digest = p.digest
	return f, ok
}

// cutBlank cuts a line before its first blank; rest is empty if there is none.
func cutBlank(line []byte) (word, rest []byte) {
	for i, c := range line { // a digest is short: bytes.IndexAny would prepare a table for it
		if c == ' ' || c == '\t' {
			return line[:i], line[i:]
		}
	}
	return line, nil
}

// hasByte reports whether text has one of the bytes, faster than bytes.ContainsAny.
func hasByte(text []byte, wanted ...byte) bool {
	for _, b := range wanted {
		if bytes.IndexByte(text, b) >= 0 {
			return true
		}
	}
	return false
}

// appendDigest appends the digest in text. ok is false if text is not a digest of the
// algorithm, which is "" if unknown. In hexadecimal its length may differ from that of the
// algorithm, because a line of another kind is not malformed. But it must not be short.
func appendDigest(dst, text []byte, a hash.Algorithm) (_ []byte, ok bool) {
	if a.IsHex() && len(text) < minHexDigits && (!a.Known() || len(text) != 2*a.Size()) {
		return dst, false
	}
	return a.AppendDigest(dst, text)
}

// splitPrefixed splits "XXH3_hex". It is for the algorithms whose untagged digests would be
// read as those of others.
func (p *sumParser) splitPrefixed(word []byte) (tag, digest []byte, ok bool) {
	tag, digits, _ := bytes.Cut(word, []byte{'_'})
	a := hash.OfTag(tag)
	if !a.NeedsTag() {
		return nil, nil, false
	}
	p.digest, ok = a.AppendDigest(p.digest[:0], digits)
	return tag, p.digest, ok && len(p.digest) == a.Size()
}

// splitTagged splits "TAG (name) = hex" or "TAG(name)= hex". The name ends at the last
// parenthesis, because a digest contains none.
func splitTagged(line []byte) (tag, name, digits []byte, ok bool) {
	n := tagLength(line)
	tag, rest := line[:n], bytes.TrimLeft(line[n:], " ")
	end := bytes.LastIndexByte(rest, ')')
	if n == 0 || end < 2 || rest[0] != '(' {
		return nil, nil, nil, false
	}
	name = rest[1:end]
	digits, ok = bytes.CutPrefix(bytes.TrimLeft(rest[end+1:], " \t"), []byte{'='})
	return tag, name, bytes.TrimLeft(digits, " \t"), ok
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

// appendUnescaped decodes the escapes of appendName; ok is false for any other escape.
func appendUnescaped(dst, name []byte) (_ []byte, ok bool) {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '\\' {
			if i++; i == len(name) {
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

// A form is the number of characters between digest and name. By the rule of GNU, the first
// untagged line decides whether all have one space or two characters before the name; a
// file never mixes them. It is one space if the name is a single character or starts with
// neither a space nor an asterisk. In a file with one space, more blanks and the asterisk
// belong to the name. In the other form, lines with one space are malformed. So a file
// whose name starts with a space cannot pass for another.
type form uint8

const (
	undecided form = iota
	formOneSpace
	formTwoCharacters
)

// maxKnownDigest is the length, in bytes, of the longest digest of all known algorithms,
// SHA-512.
const maxKnownDigest = 64

// forms has the form of the untagged lines of a file for each length of their digests. All
// lengths above the known ones share the last form. Each length has a separate first line,
// because sha256sum ignores lines of other lengths.
type forms [maxKnownDigest + 2]form

// splitUntagged splits the part of the line after the digest, of digestSize bytes, and the
// blank. That part is a second character and the name, or only the name if the file has
// that form. Further blanks belong to the name. The first blank may be a tab, as for GNU.
// Without forms, there are always two characters.
func (s *forms) splitUntagged(rest []byte, digestSize int) (name []byte, ok bool) {
	if len(rest) == 0 {
		return nil, false
	}
	marked := len(rest) > 1 && (rest[0] == ' ' || rest[0] == '*')
	if s != nil {
		f := &s[min(digestSize, len(s)-1)]
		switch {
		case *f == undecided && marked:
			*f = formTwoCharacters
		case *f == undecided:
			*f = formOneSpace
		}
		if *f == formOneSpace {
			return rest, true
		}
	}
	if !marked {
		return nil, false
	}
	return rest[1:], true
}

// Escape returns a path with the escapes of a line that begins with a backslash.
func Escape(path string) string { return string(appendName(nil, []byte(path), true)) }

// Unescape returns the path of a line that begins with a backslash. ok is false if it has another escape.
func Unescape(name string) (path string, ok bool) {
	b, ok := appendUnescaped(nil, []byte(name))
	return string(b), ok
}
