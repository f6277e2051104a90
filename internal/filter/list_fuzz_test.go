package filter

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzExcludeFrom(f *testing.F) {
	f.Add([]byte("# c\n*.o\n!a/**/b\n\\#x\ny\\ \r\n"), "a/x/b")
	f.Add([]byte("[[:alpha:]-\xff]?*\n[!]a]\n"), "\xff\xfe")
	f.Add([]byte("**/a/**/b/**\n***\n/\n"), "a/b/c")
	f.Add([]byte("\xef\xbb\xbf!{a,b}/\n"), "{a,b}/c")
	f.Fuzz(func(t *testing.T, file []byte, entry string) {
		var l List
		if err := l.ExcludeFrom(strings.NewReader(string(file))); err != nil {
			assert.Regexp(t, `^line [1-9][0-9]*: `, err.Error())
			assert.Empty(t, l.rules)
			return
		}
		assert.LessOrEqual(t, len(l.rules), strings.Count(string(file), "\n")+1)
		// A rule's matcher agrees with the plain definition, whatever short
		// cut it took.
		entry = strings.Trim(path.Clean("/"+entry), "/")
		if entry == "" {
			return
		}
		want := true
		for i := range l.rules {
			if r := &l.rules[i]; !r.dirOnly && matchSlowly(r, entry) {
				want = r.Include
				break
			}
		}
		assert.Equal(t, want, l.Match(entry, false, l.Root()).Selected, "%q", entry)
		for _, isDir := range []bool{false, true} {
			assert.Equal(t, word(matchEach(&l, entry, isDir)), word(l.MatchAll(entry, isDir)), "%q", entry)
		}
	})
}

// matchEach is the definition of MatchAll.
func matchEach(l *List, entry string, isDir bool) Verdict {
	verdict := l.Root()
	for i := range entry {
		if entry[i] == '/' {
			verdict = l.Match(entry[:i], true, verdict)
		}
	}
	return l.Match(entry, isDir, verdict)
}

// MatchAll equals Match for each directory of a path, for random rules and paths of few names.
func TestMatchAllEqualsMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	found := map[string]int{}
	for range 50_000 {
		var l List
		for range random.IntN(4) {
			parts := []string{pick("a", "b", "*", "**", "/a", "a*")}
			for range random.IntN(5) {
				parts = append(parts, pick("a", "b", "c", "*", "**"))
			}
			add := l.Exclude
			if random.IntN(3) == 0 {
				add = l.Include
			}
			require.NoError(t, add(strings.Join(parts, "/")+pick("", "/")))
		}
		parts := []string{pick("a", "b", "c")}
		for range random.IntN(8) {
			parts = append(parts, pick("a", "b", "c"))
		}
		entry, isDir := strings.Join(parts, "/"), random.IntN(2) == 0
		want := matchEach(&l, entry, isDir)
		unmet := l.Unmet()
		for i := range l.rules {
			l.rules[i].met.Store(false)
		}
		require.Equal(t, word(want), word(l.MatchAll(entry, isDir)), "%q, %+v", entry, l.Rules())
		require.Equal(t, unmet, l.Unmet())
		found[word(want)]++
	}
	require.Len(t, found, 3)
	require.True(t, (*List)(nil).MatchAll("a/b", false).Selected)
}

// A hostile path and rules of many names need little time: with the square of the length, this test
// would need an hour.
func TestMatchAllOfALongPath(t *testing.T) {
	var l List
	for i := range 50 {
		require.NoError(t, l.Exclude(fmt.Sprintf("a/**/b%d/c", i)))
	}
	require.True(t, l.MatchAll(strings.Repeat("a/", 100_000)+"f", false).Selected)
}

// matchSlowly is the definition of a match, by recursion and without the
// special kinds of segments. Inputs that would take long are left to match.
func matchSlowly(r *rule, entry string) bool {
	if len(entry) > 40 || strings.Count(entry, "/") > 8 {
		return r.match(entry, path.Base(entry), false)
	}
	if r.anyBase {
		return segmentSlowly(&r.segs[0], path.Base(entry))
	}
	var components func(segs []segment, names []string) bool
	components = func(segs []segment, names []string) bool {
		switch {
		case len(segs) == 0:
			return len(names) == 0
		case segs[0].kind == anyDepth && len(segs) == 1:
			return len(names) > 0
		case segs[0].kind == anyDepth:
			return components(segs[1:], names) || len(names) > 0 && components(segs, names[1:])
		}
		return len(names) > 0 && segmentSlowly(&segs[0], names[0]) && components(segs[1:], names[1:])
	}
	return components(r.segs, strings.Split(entry, "/"))
}

func segmentSlowly(s *segment, name string) bool {
	var tokens []token
	literal := func() {
		for text := s.text; text != ""; {
			c, n := firstChar(text)
			tokens = append(tokens, token{op: oneChar, char: c})
			text = text[n:]
		}
	}
	switch s.kind {
	case tokenMatch:
		tokens = s.tokens
	case exactName:
		literal()
	case namePrefix:
		literal()
		tokens = append(tokens, token{op: anyRun})
	case nameSuffix:
		tokens = append(tokens, token{op: anyRun})
		literal()
	case anyName:
		tokens = append(tokens, token{op: anyRun})
	}
	type state struct{ tok, at int }
	seen := map[state]bool{} // of no use to go there twice
	var match func(tok, at int) bool
	match = func(tok, at int) bool {
		if seen[state{tok, at}] {
			return false
		}
		seen[state{tok, at}] = true
		if tok == len(tokens) {
			return at == len(name)
		}
		star := tokens[tok].op == anyRun
		if star && match(tok+1, at) {
			return true
		}
		if at == len(name) {
			return false
		}
		c, n := firstChar(name[at:])
		if star {
			return match(tok, at+n)
		}
		return tokens[tok].matches(c) && match(tok+1, at+n)
	}
	return match(0, 0)
}
