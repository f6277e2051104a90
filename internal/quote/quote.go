// Package quote makes names and messages from elsewhere fit for terminals and
// logs: nothing in the result moves the cursor, reorders the line, or hides.
//
// Escaped are control characters (C0, DEL, C1), bytes that are not UTF-8, and
// every rune that is invisible or not printable: format characters with the
// bidirectional and zero-width ones among them, line and paragraph
// separators, spaces other than U+0020, fillers, variation selectors, and
// private or unassigned code points.
package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns a file name for people, as a word that a shell reads back
// byte for byte: in single quotes where that is possible and safe to show,
//
//	'a file.txt'
//
// and otherwise, also for a name with a single quote, in the ANSI-C form of
// bash:
//
//	$'it\'s\na\x1b\377'
//
// Escapes are of bytes, not of code points, so the result does not depend on
// the locale of the shell. In the second form "!" is escaped, too, lest a
// shell whose history expansion does not know \' sees it outside of quotes. A
// NUL byte, which no file name holds, is shown as \x00, though no shell reads
// that back.
//
// Name allocates nothing but its result.
func Name(s string) string {
	size := 0
	plain := true
	for i := 0; i < len(s); {
		n, safe := scan(s[i:])
		escaped := n
		if !safe {
			plain = false
			for _, b := range []byte(s[i : i+n]) {
				escaped += escapedSize(b) - 1
			}
		} else if n == 1 {
			plain = plain && s[i] != '\''
			escaped = escapedSize(s[i])
		}
		size += escaped
		i += n
	}
	if plain {
		return "'" + s + "'"
	}
	var sb strings.Builder
	sb.Grow(len("$''") + size)
	sb.WriteString("$'")
	for i := 0; i < len(s); {
		n, safe := scan(s[i:])
		if safe && n > 1 {
			sb.WriteString(s[i : i+n])
		} else {
			for j := range n {
				writeEscaped(&sb, s[i+j])
			}
		}
		i += n
	}
	sb.WriteByte('\'')
	return sb.String()
}

// Plain returns a file name for a line that programs read as well: as it is, if
// it could not be mistaken for anything else, and like Name otherwise. Names
// that hold something invisible, start with a quote, or start or end with a
// space are not plain.
func Plain(s string) string {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || s[0] == '\'' || strings.HasPrefix(s, "$'") {
		return Name(s)
	}
	for i := 0; i < len(s); {
		n, safe := scan(s[i:])
		if !safe {
			return Name(s)
		}
		i += n
	}
	return s
}

// mnemonics are the bytes with an escape of one letter (or of themselves) in
// ANSI-C quotes.
const (
	mnemonics       = "\a\b\t\n\v\f\r\\'"
	mnemonicLetters = `abtnvfr\'`
)

// escapedSize returns how many bytes [writeEscaped] writes for b.
func escapedSize(b byte) int {
	switch {
	case strings.IndexByte(mnemonics, b) >= 0:
		return len(`\n`)
	case b >= ' ' && b <= '~' && b != '!':
		return 1
	}
	return len(`\x1b`) // as long as \377
}

// writeEscaped writes one byte as it stands in ANSI-C quotes: hexadecimal
// below 0x80 and octal from there on, each with all its digits, so that a
// digit may follow.
func writeEscaped(sb *strings.Builder, b byte) {
	if i := strings.IndexByte(mnemonics, b); i >= 0 {
		sb.WriteByte('\\')
		sb.WriteByte(mnemonicLetters[i])
		return
	}
	switch {
	case b >= utf8.RuneSelf:
		sb.WriteByte('\\')
		sb.WriteByte('0' + b>>6)
		sb.WriteByte('0' + b>>3&7)
		sb.WriteByte('0' + b&7)
	case b >= ' ' && b <= '~' && b != '!':
		sb.WriteByte(b)
	default:
		sb.WriteString(`\x`)
		writeHex(sb, uint32(b), 2)
	}
}

// Text returns free text, such as an error message from elsewhere, with
// dangerous characters escaped and nothing else changed: control characters
// below 0x80 and invalid bytes as \xNN, other runes as \uNNNN or \UNNNNNNNN.
// It is for people: backslashes and quotes stay as they are, so the escapes
// cannot be told from the same text written out. Text that holds nothing
// dangerous is returned as it is, without allocation.
func Text(s string) string {
	i := 0
	for i < len(s) {
		n, safe := scan(s[i:])
		if !safe {
			break
		}
		i += n
	}
	if i == len(s) {
		return s
	}
	var sb strings.Builder
	sb.Grow(len(s) + 16) // room for a few escapes
	sb.WriteString(s[:i])
	for i < len(s) {
		n, safe := scan(s[i:])
		switch {
		case safe:
			sb.WriteString(s[i : i+n])
		case n == 1:
			sb.WriteString(`\x`)
			writeHex(&sb, uint32(s[i]), 2)
		default:
			c, _ := utf8.DecodeRuneInString(s[i:])
			if c <= 0xffff {
				sb.WriteString(`\u`)
				writeHex(&sb, uint32(c), 4)
			} else {
				sb.WriteString(`\U`)
				writeHex(&sb, uint32(c), 8)
			}
		}
		i += n
	}
	return sb.String()
}

func writeHex(sb *strings.Builder, v uint32, digits int) {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		sb.WriteByte("0123456789abcdef"[v>>shift&0xf])
	}
}

// scan returns the size of the first character of s, which is not empty, and
// whether it may be shown as it is.
func scan(s string) (size int, safe bool) {
	if b := s[0]; b < utf8.RuneSelf {
		return 1, b >= ' ' && b <= '~'
	}
	c, n := utf8.DecodeRuneInString(s)
	if n == 1 {
		return 1, false
	}
	return n, visible(c)
}

// visible reports whether a rune beyond ASCII shows. [unicode.IsPrint] rules
// out Cc, Cf, Zl, Zp, Co, Cn and all spaces; the two tables hold the
// characters that are letters or marks by category and yet draw nothing, and
// U+2800 is the symbol that is blank by design.
func visible(c rune) bool {
	return unicode.IsPrint(c) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) &&
		!unicode.Is(unicode.Variation_Selector, c) &&
		c != '\u2800'
}
