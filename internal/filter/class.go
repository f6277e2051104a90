package filter

import (
	"errors"
	"fmt"
	"strings"
)

// A class is a bracket expression. It may contain a slash, as in git, but
// the slash never matches: names contain none.
type class struct {
	negated bool
	ranges  []charRange
}

type charRange struct {
	lo, hi rune // the first and the last member of the range
}

// namedClasses are the POSIX classes in the C locale, which is all that git
// knows.
var namedClasses = map[string][]charRange{
	"alnum":  {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}},
	"alpha":  {{'A', 'Z'}, {'a', 'z'}},
	"blank":  {{' ', ' '}, {'\t', '\t'}},
	"cntrl":  {{0, 0x1f}, {0x7f, 0x7f}},
	"digit":  {{'0', '9'}},
	"graph":  {{'!', '~'}},
	"lower":  {{'a', 'z'}},
	"print":  {{' ', '~'}},
	"punct":  {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}},
	"space":  {{'\t', '\r'}, {' ', ' '}},
	"upper":  {{'A', 'Z'}},
	"xdigit": {{'0', '9'}, {'A', 'F'}, {'a', 'f'}},
}

var errUnclosedClass = errors.New("a \"[\" has no closing \"]\" (for the character itself write \"\\[\")")

// parseClass parses a bracket expression after its "[" and returns its size
// in bytes, the "]" included. The grammar is that of git's wildmatch.c: a "]"
// that comes first is a member, and so is a "-" that has no two ends.
func parseClass(s string) (c class, size int, err error) {
	i := 0
	if s != "" && (s[0] == '!' || s[0] == '^') {
		c.negated = true
		i = 1
	}
	start := i
	low := rune(-1) // the low end of a range if "-" follows; -1 if there is none
	bracket := -1   // the index of the next "]", once it was searched
	for {
		if i >= len(s) {
			return class{}, 0, errUnclosedClass
		}
		switch {
		case s[i] == ']' && i > start:
			return c, i + 1, nil
		case strings.HasPrefix(s[i:], "[:"):
			if bracket < i { // so that many "[:" do not search for the same "]"
				next := strings.IndexByte(s[i:], ']')
				if next < 0 {
					return class{}, 0, errUnclosedClass
				}
				bracket = i + next
			}
			name, named := strings.CutSuffix(s[i+len("[:"):bracket], ":")
			if !named { // the "[" is an ordinary member
				c.ranges = append(c.ranges, charRange{'[', '['})
				low = '['
				i++
				continue
			}
			ranges, known := namedClasses[name]
			if !known {
				return class{}, 0, fmt.Errorf("there is no character class %q", s[i:bracket+1])
			}
			c.ranges = append(c.ranges, ranges...)
			low = -1
			i = bracket + 1
		case s[i] == '-' && low >= 0 && i+1 < len(s) && s[i+1] != ']':
			high, n, err := parseMember(s[i+1:])
			if err != nil {
				return class{}, 0, err
			}
			if high < low {
				return class{}, 0, fmt.Errorf("a range in %q runs backwards", "["+s[:i+1+n])
			}
			c.ranges = append(c.ranges, charRange{low, high})
			low = -1
			i += 1 + n
		default:
			char, n, err := parseMember(s[i:])
			if err != nil {
				return class{}, 0, err
			}
			c.ranges = append(c.ranges, charRange{char, char})
			low = char
			i += n
		}
	}
}

// parseMember parses one character, escaped or not.
func parseMember(s string) (char rune, size int, err error) {
	escape := 0
	if s[0] == '\\' {
		escape = 1
		if len(s) == 1 {
			return 0, 0, errUnclosedClass
		}
	}
	char, n := firstChar(s[escape:])
	return char, escape + n, nil
}

func (c *class) matches(char rune) bool {
	for _, r := range c.ranges {
		if r.lo <= char && char <= r.hi {
			return !c.negated
		}
	}
	return c.negated
}
