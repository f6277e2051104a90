package filter

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzPattern compares patterns with regular expressions that say the same, made from
// their texts alone.
func FuzzPattern(f *testing.F) {
	for _, c := range [][2]string{
		{"*.c", "a/b.c"}, {"/a/**/b", "a/x/y/b"}, {"**/a", "a"}, {"a/**", "a"}, {"a**b/", "aXb"}, {"**", "a/b"}, {"/**", "a/b"},
		{"[!a-c]?[]-]", "xé]"}, {"[[:alpha:][:digit:]-]*", "-a"}, {"[a-\xff]\xc3\\\xa9", "\xfeé"}, {"a\\/b[/]*", "a/b/c"},
		{"[[:][:]", "::"}, {"***/x/**/**/y", "x/y"}, {"[\\]a\\-z]", "-"}, {"*a*b*c", "aabbcb"}, {"[^[:space:]]", "\xff"},
	} {
		f.Add(c[0], c[1], true)
		f.Add(c[0], c[1], false)
	}
	f.Fuzz(func(t *testing.T, pattern, entry string, isDir bool) {
		entry = strings.Trim(path.Clean("/"+entry), "/")
		if entry == "" || len(pattern)+len(entry) > 1000 {
			return
		}
		for _, c := range pattern + entry {
			if c >= charBase { // where the model has the bytes that are not UTF-8
				return
			}
		}
		r, err := compile(Rule{Pattern: pattern})
		if err != nil {
			return
		}
		expression, dirOnly := modelOfPattern(pattern)
		model, err := regexp.Compile(expression)
		if err != nil { // a "[z-a]" is refused by both
			t.Fatalf("%q is %q: %v", pattern, expression, err)
		}
		want := (isDir || !dirOnly) && model.MatchString(strings.ReplaceAll(chars(entry), "/", separator))
		require.Equal(t, want, r.match(entry, path.Base(entry), isDir), "%q of %q, as %q", pattern, entry, expression)
	})
}

const (
	charBase  = 0xf0000      // of a private plane
	separator = "\U000f0200" // a slash, which a class matches none of
	inName    = "[^" + separator + "]"
)

// chars makes each byte that is not UTF-8 a character.
func chars(s string) string {
	var sb strings.Builder
	for s != "" {
		c, n := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && n == 1 {
			c = charBase + rune(s[0])
		}
		sb.WriteRune(c)
		s = s[n:]
	}
	return sb.String()
}

// modelOfPattern translates a pattern that is well-formed.
func modelOfPattern(pattern string) (expression string, dirOnly bool) {
	pattern, dirOnly = strings.CutSuffix(pattern, "/")
	anywhere := !strings.Contains(pattern, "/")
	// Between slashes that separate, pieces: text as it is matched, or an expression.
	var sb strings.Builder
	sb.WriteString("(?s)^")
	if anywhere {
		sb.WriteString("(?:.*" + separator + ")?")
	}
	rest := strings.TrimPrefix(pattern, "/")
	for {
		segment, after, more := modelOfSegment(rest)
		depth := segment == "**"
		switch {
		case depth && anywhere:
			segment = inName + "+"
		case depth && more:
			segment = "(?:" + inName + "+" + separator + ")*"
		case depth:
			segment = ".+"
		case more:
			segment += separator
		}
		sb.WriteString(segment)
		if rest = after; !more {
			return sb.String() + "$", dirOnly
		}
	}
}

// modelOfSegment translates what is before the first slash that separates; "**" is
// left to the caller.
func modelOfSegment(s string) (expression, rest string, more bool) {
	var sb strings.Builder
	literal := ""
	flush := func() {
		sb.WriteString(regexp.QuoteMeta(chars(literal)))
		literal = ""
	}
	i := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; s[i] == '/' {
				flush()
				return sb.String(), s[i+1:], true
			}
			literal += s[i : i+1]
		case '/':
			if source := s[:i]; len(source) > 1 && strings.Count(source, "*") == len(source) {
				return "**", s[i+1:], true
			}
			flush()
			return sb.String(), s[i+1:], true
		case '*':
			flush()
			sb.WriteString(inName + "*")
		case '?':
			flush()
			sb.WriteString(inName)
		case '[':
			flush()
			class, size := modelOfClass(s[i:])
			sb.WriteString(class)
			i += size - 1
		default:
			literal += s[i : i+1]
		}
	}
	if len(s) > 1 && strings.Count(s, "*") == len(s) {
		return "**", "", false
	}
	flush()
	return sb.String(), "", false
}

var (
	modelMember = regexp.MustCompile(`(?s)^\\?(.)`)
	modelNamed  = regexp.MustCompile(`^\[:[a-z]+:\]`)
)

// modelOfClass translates the bracket expression that s starts with.
func modelOfClass(s string) (expression string, size int) {
	// Bytes and characters differ in length, so the rest of the string gives the size.
	negated := len(s) > 1 && (s[1] == '!' || s[1] == '^')
	rest := s[1:]
	if negated {
		rest = s[2:]
	}
	take := func() string {
		escape := 0
		if rest[0] == '\\' {
			escape = 1
		}
		_, n := utf8.DecodeRuneInString(rest[escape:])
		c := modelMember.FindStringSubmatch(chars(rest[:escape+n]))[1]
		rest = rest[escape+n:]
		return fmt.Sprintf(`\x{%x}`, []rune(c)[0])
	}
	var set strings.Builder
	for first := true; first || rest[0] != ']'; first = false {
		if named := modelNamed.FindString(rest); named != "" {
			set.WriteString(named)
			rest = rest[len(named):]
			// A "-" behind it starts no range.
			if rest[0] == '-' {
				set.WriteString(take())
			}
			continue
		}
		set.WriteString(take())
		if rest[0] == '-' && rest[1] != ']' {
			rest = rest[1:]
			set.WriteString("-" + take())
			if rest[0] == '-' { // nor does one behind a range
				set.WriteString(take())
			}
		}
	}
	size = len(s) - len(rest) + 1
	if negated {
		return "[^" + separator + set.String() + "]", size
	}
	return "[" + set.String() + "]", size
}

// A pattern of the maximum length is compiled in one pass. If each of the half million
// brackets searched for its end separately, the test would need many seconds.
func TestManyBrackets(t *testing.T) {
	r, err := compile(Rule{Pattern: "[" + strings.Repeat("[:", maxRecord/2-2) + "x]"})
	require.NoError(t, err)
	for name, want := range map[string]bool{"[": true, ":": true, "x": true, "y": false, "]": false} {
		require.Equal(t, want, r.match(name, name, false), name)
	}
}
