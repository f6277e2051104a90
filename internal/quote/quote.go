// Package quote makes names and messages from elsewhere fit for terminals and
// logs: nothing in the result moves the cursor, reorders the line, or hides.
//
// It escapes control characters (C0, DEL, C1), bytes that are not UTF-8, and every rune
// that is invisible or not printable. These are format characters (also bidirectional and
// zero-width ones), line and paragraph separators, and spaces other than U+0020. Fillers,
// variation selectors, and private or unassigned code points are escaped as well.
package quote

import (
	"fmt"
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
// the locale of the shell. The second form also escapes "!", because the history expansion of
// some shells does not know \' and would treat the "!" as outside of quotes. A NUL byte, which
// no file name contains, is shown as \x00, which no shell reads back.
func Name(s string) string {
	if !strings.Contains(s, "'") && safePart(s) == len(s) {
		return "'" + s + "'"
	}
	out := append(make([]byte, 0, len(s)+64), "$'"...) // space for a few escapes
	for len(s) > 0 {
		n, safe := scan(s)
		if safe && n > 1 {
			out = append(out, s[:n]...)
		} else {
			for _, b := range []byte(s[:n]) {
				out = appendEscaped(out, b)
			}
		}
		s = s[n:]
	}
	return string(append(out, '\''))
}

// Plain returns a file name for a line that programs read as well: unchanged if it is plain,
// and like Name otherwise. A name is not plain if it has an invisible character, starts with a
// quote, or starts or ends with a space.
func Plain(s string) string {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || s[0] == '\'' || strings.HasPrefix(s, "$'") || safePart(s) < len(s) {
		return Name(s)
	}
	return s
}

// plainBytes are the bytes that need no quotes in a word of a shell.
const plainBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=:,+@%-"

// Word returns a word of a command line for a shell: unchanged if it needs no quotes, and
// like Name otherwise.
func Word(s string) string {
	if s != "" && strings.Trim(s, plainBytes) == "" {
		return s
	}
	return Name(s)
}

// mnemonics are the bytes that ANSI-C quotes escape with one letter or with the byte itself.
const (
	mnemonics       = "\a\b\t\n\v\f\r\\'"
	mnemonicLetters = `abtnvfr\'`
)

// appendEscaped appends one byte in the form of ANSI-C quotes: hexadecimal below 0x80,
// otherwise octal. All digits are written, so a digit may follow.
func appendEscaped(out []byte, b byte) []byte {
	i := strings.IndexByte(mnemonics, b)
	switch {
	case i >= 0:
		return append(out, '\\', mnemonicLetters[i])
	case b >= utf8.RuneSelf:
		return fmt.Appendf(out, `\%03o`, b)
	case b >= ' ' && b <= '~' && b != '!':
		return append(out, b)
	}
	return fmt.Appendf(out, `\x%02x`, b)
}

// Text returns free text, for example an error message from elsewhere, with dangerous
// characters escaped and nothing else changed. Control characters below 0x80 and invalid
// bytes become \xNN, other runes \uNNNN or \UNNNNNNNN. The result is for people:
// backslashes and quotes are unchanged, so an escape looks like the same text
// written out. Text that contains nothing dangerous is returned as it is, without allocation.
func Text(s string) string {
	i := safePart(s)
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)+16), s[:i]...) // space for a few escapes
	for s = s[i:]; len(s) > 0; {
		n, safe := scan(s)
		c, _ := utf8.DecodeRuneInString(s)
		switch {
		case safe:
			out = append(out, s[:n]...)
		case n == 1:
			out = fmt.Appendf(out, `\x%02x`, s[0])
		case c <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = fmt.Appendf(out, `\U%08x`, c)
		}
		s = s[n:]
	}
	return string(out)
}

// safePart returns how many bytes at the beginning of s need no escape.
func safePart(s string) int {
	for i := 0; i < len(s); {
		n, safe := scan(s[i:])
		if !safe {
			return i
		}
		i += n
	}
	return len(s)
}

// scan returns the size of the first character of s, which must not be empty, and whether it
// needs no escape.
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

// visible reports whether a rune beyond ASCII is visible. [unicode.IsPrint] excludes Cc, Cf,
// Zl, Zp, Co, Cn and all spaces. The two tables contain characters that are letters or marks
// by category and draw nothing. U+2800 is a symbol that is blank by design.
func visible(c rune) bool {
	return unicode.IsPrint(c) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) &&
		!unicode.Is(unicode.Variation_Selector, c) &&
		c != '\u2800'
}
