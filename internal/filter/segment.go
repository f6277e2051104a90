package filter

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// A segment is the part of a pattern between two slashes.
type segment struct {
	kind   segmentKind
	text   string  // text of exactName, namePrefix and nameSuffix
	tokens []token // tokens of tokenMatch
}

type segmentKind uint8

const (
	tokenMatch segmentKind = iota // The pattern is any other one.
	exactName                     // The pattern has no wildcard.
	namePrefix                    // The pattern is text*.
	nameSuffix                    // The pattern is *text.
	anyName                       // The pattern is *.
	anyDepth                      // The pattern is **: any number of components.
)

type token struct {
	op    tokenOp
	char  rune  // character of oneChar
	class class // class of oneOfClass
}

type tokenOp uint8

const (
	oneChar    tokenOp = iota
	anyChar            // ?
	anyRun             // *
	oneOfClass         // [...]
)

// invalidByte is the first character for bytes that are not UTF-8. It is beyond the last rune,
// so none of them equals a rune.
const invalidByte = utf8.MaxRune + 1

// firstChar returns the first character of s, which is not empty, and its
// size in bytes. See the package comment.
func firstChar(s string) (rune, int) {
	c, n := utf8.DecodeRuneInString(s)
	if c == utf8.RuneError && n == 1 {
		return invalidByte + rune(s[0]), 1
	}
	return c, n
}

// parseSegment parses the first segment of s and returns the rest after its slash. more
// reports whether there was a slash. An escaped slash is also a slash.
func parseSegment(s string) (seg segment, rest string, more bool, err error) {
	var b segmentBuilder
	i := 0
scan:
	for i < len(s) {
		switch s[i] {
		case '/':
			rest, more = s[i+1:], true
			break scan
		case '\\':
			if i+1 == len(s) {
				return seg, "", false, errors.New("the backslash at the end escapes nothing")
			}
			if s[i+1] == '/' {
				rest, more = s[i+2:], true
				break scan
			}
			b.literal = append(b.literal, s[i+1])
			i += 2
		case '*':
			b.addStar()
			i++
		case '?':
			b.add(token{op: anyChar})
			i++
		case '[':
			c, n, err := parseClass(s[i+1:])
			if err != nil {
				return seg, "", false, err
			}
			b.add(token{op: oneOfClass, class: c})
			i += 1 + n
		default:
			b.literal = append(b.literal, s[i])
			i++
		}
	}
	source := s[:i]
	if source == "" {
		return seg, "", false, errors.New("two slashes stand with nothing between them")
	}
	if len(source) >= 2 && strings.Trim(source, "*") == "" {
		return segment{kind: anyDepth}, rest, more, nil
	}
	seg = b.segment()
	if seg.kind == exactName && (seg.text == "." || seg.text == "..") {
		return seg, "", false, errors.New("no path below the source holds \".\" or \"..\"")
	}
	return seg, rest, more, nil
}

// A segmentBuilder collects tokens. It keeps literal bytes until a rune is complete, because
// an escape may be inside a rune.
type segmentBuilder struct {
	tokens  []token
	literal []byte
}

func (b *segmentBuilder) add(t token) {
	b.flushLiteral()
	b.tokens = append(b.tokens, t)
}

func (b *segmentBuilder) addStar() {
	b.flushLiteral()
	if n := len(b.tokens); n == 0 || b.tokens[n-1].op != anyRun {
		b.tokens = append(b.tokens, token{op: anyRun})
	}
}

func (b *segmentBuilder) flushLiteral() {
	for s := string(b.literal); s != ""; {
		c, n := firstChar(s)
		b.tokens = append(b.tokens, token{op: oneChar, char: c})
		s = s[n:]
	}
	b.literal = b.literal[:0]
}

// segment returns the cheapest kind of segment that matches like the tokens. Prefix and suffix
// are compared as bytes, which respects the borders of characters only if the text is valid
// UTF-8.
func (b *segmentBuilder) segment() segment {
	if len(b.tokens) == 0 {
		return segment{kind: exactName, text: string(b.literal)}
	}
	if len(b.tokens) == 1 && b.tokens[0].op == anyRun && utf8.Valid(b.literal) {
		if len(b.literal) == 0 {
			return segment{kind: anyName}
		}
		return segment{kind: nameSuffix, text: string(b.literal)}
	}
	b.flushLiteral()
	last := len(b.tokens) - 1
	if b.tokens[last].op == anyRun {
		if text, ok := runesOf(b.tokens[:last]); ok {
			return segment{kind: namePrefix, text: text}
		}
	}
	return segment{kind: tokenMatch, tokens: b.tokens}
}

// runesOf returns the text of tokens if all of them are runes.
func runesOf(tokens []token) (text string, ok bool) {
	var sb strings.Builder
	for _, t := range tokens {
		if t.op != oneChar || t.char >= invalidByte {
			return "", false
		}
		sb.WriteRune(t.char)
	}
	return sb.String(), true
}

// match reports whether the segment matches the whole of name, which is one
// component of a path.
func (s *segment) match(name string) bool {
	switch s.kind {
	case exactName:
		return name == s.text
	case namePrefix:
		return strings.HasPrefix(name, s.text)
	case nameSuffix:
		return strings.HasSuffix(name, s.text)
	case anyName:
		return true
	}
	return matchTokens(s.tokens, name)
}

// matchTokens matches a name with one point to go back to: after a mismatch, the last "*"
// matches one more character.
func matchTokens(tokens []token, name string) bool {
	tok, at := 0, 0
	retryTok, retryAt := -1, 0
	for at < len(name) {
		if tok < len(tokens) && tokens[tok].op == anyRun {
			tok++
			retryTok, retryAt = tok, at
			continue
		}
		char, n := firstChar(name[at:])
		if tok < len(tokens) && tokens[tok].matches(char) {
			tok, at = tok+1, at+n
			continue
		}
		if retryTok < 0 {
			return false
		}
		_, n = firstChar(name[retryAt:])
		retryAt += n
		tok, at = retryTok, retryAt
	}
	for tok < len(tokens) && tokens[tok].op == anyRun {
		tok++
	}
	return tok == len(tokens)
}

// matches reports whether a token for one character matches char.
func (t *token) matches(char rune) bool {
	switch t.op {
	case oneChar:
		return char == t.char
	case oneOfClass:
		return t.class.matches(char)
	}
	return true
}
