package manifest

import "github.com/seed65876f4f/sealift/internal/hash"

// Style says how lines are written. The zero value is the form that every
// program reads: that of AppendLine.
type Style struct {
	// Tag, if not empty, is the algorithm that each line names, in BSD's form
	// as of "sha256sum --tag": "SHA256 (name) = hex". Tags has it first.
	Tag string

	// Zero ends lines with a NUL and leaves names as they are, as of
	// "sha256sum --zero". It is for programs: neither Reader nor "sha256sum
	// -c" reads it.
	Zero bool
}

// styleOf returns the Style in which manifests of an algorithm are written.
func styleOf(a hash.Algorithm) Style {
	if a.NeedsTag() {
		return Style{Tag: a.Tags()[0]}
	}
	return Style{}
}

// AppendLine appends the line of path in this style. Names are escaped as by
// the function AppendLine, also in BSD's form, unless Zero is set.
//
// An empty path, or one with a NUL, yields a line that no Reader accepts.
func (s Style) AppendLine(dst, digest []byte, path string) []byte {
	return appendStyled(s, "", dst, digest, path)
}

// AppendLine appends the line that GNU sha256sum 9.0 and later print for path
// in text mode: the digest in lower-case hex, two spaces, the name and a line
// feed. If the name holds a backslash, a line feed or a carriage return, the
// line starts with a backslash and those three become `\\`, `\n` and `\r`; all
// other bytes stand as they are (coreutils, "md5sum invocation").
//
// An empty path, or one with a NUL, yields a line that ParseLine refuses.
func AppendLine(dst, digest []byte, path string) []byte {
	return appendStyled(Style{}, "", dst, digest, path)
}

// appendStyled appends a line of an algorithm, "" for any whose digests are written in
// hexadecimal. An untagged line of one that needs a tag has it before the digest, as
// xxhsum 0.8.2 writes it: "XXH3_hex  name".
func appendStyled[P string | []byte](s Style, a hash.Algorithm, dst, digest []byte, path P) []byte {
	escaped := !s.Zero && needsEscape(path)
	if escaped {
		dst = append(dst, '\\')
	}
	if s.Tag == "" {
		if a.NeedsTag() {
			dst = append(append(dst, a.Tags()[0]...), '_')
		}
		dst = a.AppendText(dst, digest)
		dst = append(dst, ' ', ' ')
		dst = appendName(dst, path, escaped)
	} else {
		dst = append(dst, s.Tag...)
		dst = append(dst, " ("...)
		dst = appendName(dst, path, escaped)
		dst = append(dst, ") = "...)
		dst = a.AppendText(dst, digest)
	}
	if s.Zero {
		return append(dst, 0)
	}
	return append(dst, '\n')
}

func appendName[P string | []byte](dst []byte, path P, escaped bool) []byte {
	if !escaped {
		return append(dst, path...)
	}
	for i := range len(path) {
		switch c := path[i]; c {
		case '\\':
			dst = append(dst, '\\', '\\')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func needsEscape[P string | []byte](path P) bool {
	for i := range len(path) {
		if c := path[i]; c == '\\' || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}
