package treetest

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// duSize matches the text before the name in a line of du.
var duSize = regexp.MustCompile(`(?m)^[0-9.]+[KMGTPE]?\t`)

// upwards moves the cursor up.
var upwards = regexp.MustCompile(`\x1b\[[0-9]+A`)

// Wild returns the first character of a text that is dangerous for a terminal or a log,
// with some of the text around it; "" if there is none. On a terminal, these sequences are
// the program's own: carriage return, erase, move up to the beginning of the bar, turn
// wrapping off and on, choose a colour.
func Wild(text string, terminal bool) string {
	if terminal {
		text = upwards.ReplaceAllString(text, "")
		text = strings.NewReplacer("\r", "", "\x1b[K", "", "\x1b[J", "", "\x1b[?7l", "", "\x1b[?7h", "", "\x1b[m", "", "\x1b[1m", "", "\x1b[1;31m", "", "\x1b[1;32m", "", "\x1b[36m", "").Replace(text)
	}
	text = duSize.ReplaceAllString(text, "")
	for i, c := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == '\n':
		case c == utf8.RuneError && size == 1, unicode.IsControl(c),
			unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return text[max(0, i-40):min(len(text), i+40)]
		}
	}
	return ""
}

// WildNames returns names of files that would affect a terminal or a log that prints them
// unchanged, or be invisible there. All of them are valid on Unix.
func WildNames() []string {
	return []string{
		"\x1b]0;title\a", "\x1b[31mred", "\xc2\x9b2J", "\x9b2J", "bell\a", "\b\b\bback", "\x7f",
		"right\u202eleft\u202c", "isolated\u2066x\u2069", "marks\u200e\u200f\u061c", "zero\u200bwidth\u200d\ufeff",
		"lines\u2028and\u2029and\u0085", "tags\U000e0001\U000e0041", "variation\ufe0f\U000e0100", "filler\u3164\u00ad",
		"\n", "two\nsealift: all is well", "return\rsealift: all is well", "tab\t\v\f", "\xff\xfe", "\xed\xa0\x80\xf4\x90\x80\x80",
		"flood" + strings.Repeat("\u0301", 100), strings.Repeat("\x01", 255), strings.Repeat("\u202e", 85),
		"%s%n\\x1b\\", "'\";$(x)`", " ", "-\x1b", "~", "=",
	}
}
