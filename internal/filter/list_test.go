package filter

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newList builds a list from rules such as "-*.tmp" and "+keep/".
func newList(t *testing.T, rules ...string) *List {
	t.Helper()
	l := new(List)
	for _, r := range rules {
		if r[0] == '+' {
			require.NoError(t, l.Include(r[1:]))
		} else {
			require.NoError(t, l.Exclude(r[1:]))
		}
	}
	return l
}

// walk returns the verdict on an entry as a walker reaches it: from the root
// down, one component after the other.
func walk(l *List, entry string, isDir bool) Verdict {
	verdict := l.Root()
	for i := range len(entry) {
		if entry[i] == '/' {
			verdict = l.Match(entry[:i], true, verdict)
		}
	}
	return l.Match(entry, isDir, verdict)
}

// walkSlash is walk for an entry that ends in "/" if it is a directory.
func walkSlash(l *List, entry string) Verdict {
	name, isDir := strings.CutSuffix(entry, "/")
	return walk(l, name, isDir)
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern string
		matches []string // space-separated where no name holds a space
		misses  []string
	}{
		{"a", []string{"a", "a/", "x/a", "x/y/a/"}, []string{"b", "aa", "A", "xa"}},
		{"/a", []string{"a", "a/"}, []string{"x/a", "b"}},
		{"a/b", []string{"a/b", "a/b/"}, []string{"x/a/b", "b", "a", "a/x/b"}},
		{"/a/b/", []string{"a/b/"}, []string{"a/b", "x/a/b/"}},
		{"a/", []string{"a/", "x/a/"}, []string{"a", "x/a"}},
		{"*", []string{"a", ".a", "x/y"}, nil},
		{"*.o", []string{"a.o", ".o", "x/a.o"}, []string{"a.ox", "o"}},
		{"lib*", []string{"lib", "libc.so", "x/lib1"}, []string{"alib", "li"}},
		{"a*c", []string{"ac", "abc", "acbc"}, []string{"acb", "bac"}},
		{"a*b*c", []string{"abc", "axbxbc"}, []string{"acb", "abcb"}},
		{"*ab*", []string{"ab", "aab", "abb", "aaba"}, []string{"ba", "a"}},
		{"/a*b", []string{"ab", "axb"}, []string{"a/b", "ax/b", "a/xb"}},
		{"a/*", []string{"a/b", "a/b/"}, []string{"a", "b"}},
		{"*/b", []string{"a/b"}, []string{"b", "a/a/b"}},
		{"?", []string{"a", "x/b", "é", "日", "\xff", "\x80"}, []string{"ab", "éé", "\xff\xff", "\xe6\x97"}},
		{"/a?b", []string{"axb", "aéb", "a\xe9b"}, []string{"a/b", "ab", "axxb"}},
		{"*??", []string{"ab", "xé", "\xff\xfe"}, []string{"日", "a", "\xff"}},
		{"**/a", []string{"a", "x/a", "x/y/a"}, []string{"ax", "xa"}},
		{"**/a/b", []string{"a/b", "x/a/b", "x/y/a/b"}, []string{"b", "a/x/b", "xa/b"}},
		{"a/**", []string{"a/b", "a/b/c"}, []string{"a", "a/", "x/a/b"}},
		{"a/**/", []string{"a/b/", "a/b/c/"}, []string{"a/", "a/b", "a/b/c"}},
		{"a/**/b", []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"ab", "a/xb", "x/a/b"}},
		{"a/**/b/**/c", []string{"a/b/c", "a/x/b/y/c", "a/b/b/c", "a/b/x/b/c"}, []string{"a/c", "b/c", "a/b/c/d"}},
		{"a/**/**/b", []string{"a/b", "a/x/b"}, []string{"a"}},
		{"a/**/*.c", []string{"a/x.c", "a/b/x.c"}, []string{"a/x.h", "x.c"}},
		{"**/a/**", []string{"a/x", "x/a/y", "a/a"}, []string{"a", "x/a", "b/c"}},
		{"**", []string{"a", "a/b"}, nil},
		{"/**", []string{"a", "a/b"}, nil},
		{"**/", []string{"a/", "a/b/"}, []string{"a", "a/b"}},
		{"a**b", []string{"ab", "axb", "x/axxb"}, []string{"a/b"}},
		{"a**/b", []string{"a/b", "ax/b"}, []string{"a/x/b", "x/a/b"}},
		{"[ab]", []string{"a", "b"}, []string{"c", "ab", "]"}},
		{"[!ab]", []string{"c", "é", "\xff"}, []string{"a", "b", "cc"}},
		{"[^ab]", []string{"c", "^"}, []string{"a", "b"}},
		{"a[!x]b", []string{"ayb"}, []string{"a/b", "axb"}},
		{"/a[!x]b", []string{"ayb"}, []string{"a/b"}},
		{"/a[.-0]b", []string{"a.b", "a0b"}, []string{"a/b"}},
		{"x[a/b]", []string{"xa", "xb"}, []string{"x/", "y/xa"}},
		{"[a-c]", []string{"a", "b", "c"}, []string{"d", "-"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{"[-a]", []string{"a", "-"}, []string{"b"}},
		{"[]a]", []string{"]", "a"}, []string{"b", "[]a]"}},
		{"[!]a]", []string{"b"}, []string{"]", "a"}},
		{`[\]a]`, []string{"]", "a"}, []string{`\`, "b"}},
		{`[a\-c]`, []string{"a", "-", "c"}, []string{"b", `\`}},
		{`[\a-\c]`, []string{"a", "b", "c"}, []string{"-", `\`}},
		{"[a-c-e]", []string{"a", "b", "c", "-", "e"}, []string{"d"}},
		{"[[:digit:]x]", []string{"0", "9", "x"}, []string{"a", ":", "["}},
		{"[![:alpha:]]", []string{"0", "é"}, []string{"a", "Z"}},
		{"[a[:digit:]-c]", []string{"a", "5", "-", "c"}, []string{"b"}},
		{"[[:x]", []string{"[", ":", "x"}, []string{"]", "a"}},
		{"[é-ü]", []string{"é", "ê", "ü"}, []string{"e", "\xc3", "\xe9"}},
		{"[\xfe-\xff]", []string{"\xfe", "\xff"}, []string{"\xfd", "þ", "ÿ", "\ufffd"}},
		{"\xff", []string{"\xff", "x/\xff"}, []string{"\xfe", "\ufffd", "ÿ"}},
		{"*\xff", []string{"\xff", "a\xff"}, []string{"\xfe", "\ufffd"}},
		{"\xff*", []string{"\xff", "\xffa"}, []string{"\xfe", "\ufffd"}},
		{"*\xa9", []string{"\xa9", "a\xa9"}, []string{"é"}}, // é ends in that byte
		{"\xc3*", []string{"\xc3", "\xc3a"}, []string{"é"}},
		{"\ufffd", []string{"\ufffd"}, []string{"\xff"}},
		{"?\ufffd*", []string{"a\ufffd"}, []string{"a\xff"}},
		{"\xc3\\\xa9?", []string{"éa"}, []string{"é"}}, // an escape inside a rune
		{"{a,b}", []string{"{a,b}"}, []string{"a", "b"}},
		{"*{", []string{"a{", "{"}, []string{"a"}},
		{"a}", []string{"a}"}, []string{"a"}},
		{`\*`, []string{"*"}, []string{"a", `\*`}},
		{`\?\[\{\\`, []string{`?[{\`}, nil},
		{`\a`, []string{"a"}, []string{`\a`}},
		{`a\/b`, []string{"a/b"}, []string{"x/a/b"}},
		{"!a", []string{"!a"}, []string{"a"}},
		{"#a", []string{"#a"}, []string{"a"}},
		{"a b ", []string{"a b "}, []string{"a b"}},
		{"...", []string{"..."}, []string{"."}},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			r, err := compile(Rule{Pattern: tt.pattern})
			require.NoError(t, err)
			match := func(entry string) bool {
				name, isDir := strings.CutSuffix(entry, "/")
				return r.match(name, path.Base(name), isDir)
			}
			for _, entry := range tt.matches {
				assert.True(t, match(entry), "%q should match %q", tt.pattern, entry)
			}
			for _, entry := range tt.misses {
				assert.False(t, match(entry), "%q should not match %q", tt.pattern, entry)
			}
		})
	}
}

func TestNamedClasses(t *testing.T) {
	for name, members := range map[string]string{
		"blank":  " \t",
		"digit":  "0123456789",
		"space":  " \t\n\v\f\r",
		"xdigit": "0123456789abcdefABCDEF",
		"punct":  "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
	} {
		r, err := compile(Rule{Pattern: "[[:" + name + ":]]"})
		require.NoError(t, err)
		for b := range rune(0x80) {
			assert.Equal(t, strings.ContainsRune(members, b), r.segs[0].match(string(b)), "%s %q", name, b)
		}
	}
}

func TestMalformedPatterns(t *testing.T) {
	tests := []struct{ pattern, reason string }{
		{"", "empty"},
		{"/", "names no entry"},
		{"//", "names no entry"},
		{"a//b", "two slashes"},
		{"a//", "two slashes"},
		{"//a", "two slashes"},
		{"[a", "no closing"},
		{"[", "no closing"},
		{"[]", "no closing"},
		{"[!]", "no closing"},
		{`[a\`, "no closing"},
		{`[a-\`, "no closing"},
		{"[[:digit:]", "no closing"},
		{"[[:digit:", "no closing"},
		{"[[:nonsense:]]", "no character class"},
		{"[c-a]", "backwards"},
		{`a\`, "backslash"},
		{`a\/`, "backslash"},
		{"./a", `"." or ".."`},
		{"a/../b", `"." or ".."`},
		{`a/\..`, `"." or ".."`},
		{"a\x00b", "NUL"},
	}
	for _, tt := range tests {
		for _, add := range []func(*List, string) error{(*List).Include, (*List).Exclude} {
			var l List
			err := add(&l, tt.pattern)
			require.Error(t, err, "%q", tt.pattern)
			assert.Contains(t, err.Error(), tt.reason)
			assert.Contains(t, err.Error(), fmt.Sprintf("%q", tt.pattern))
			assert.Empty(t, l.rules)
		}
	}
}

// The verdicts as words, so that tests are tables of words.
const (
	selected = "selected"
	searched = "searched" // not selected
	leftOut  = "left out"
)

func word(v Verdict) string {
	switch {
	case v.Selected:
		return selected
	case v.Searched:
		return searched
	}
	return leftOut
}

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name  string
		rules []string
		want  map[string]string // directories end in "/"
	}{
		{"empty", nil, map[string]string{"a": selected, "a/": selected, "a/b": selected}},
		{"exclude", []string{"-*.tmp"}, map[string]string{
			"a": selected, "a.tmp": leftOut, "d/": selected, "d/a.tmp": leftOut,
			"d.tmp/": leftOut, "d.tmp/a": leftOut,
		}},
		{"the first match decides", []string{"-/d/keep.tmp", "+keep.tmp", "-*.tmp"}, map[string]string{
			"keep.tmp": selected, "x.tmp": leftOut, "e/keep.tmp": selected, "d/keep.tmp": leftOut,
		}},
		{"some names only", []string{"+*.jpg", "-*"}, map[string]string{
			"a.jpg": selected, "a.png": leftOut, "d/": searched, "d/e/": searched,
			"d/e/a.jpg": selected, "d/e/a.png": leftOut,
		}},
		{"some names and all directories", []string{"+*/", "+*.jpg", "-*"}, map[string]string{
			"a.jpg": selected, "a.png": leftOut, "d/": selected, "d/e/a.jpg": selected, "d/e/a.png": leftOut,
		}},
		{"a directory is left out before the names", []string{"-/cache/", "+*.jpg", "-*"}, map[string]string{
			"cache/": leftOut, "cache/a.jpg": leftOut, "d/": searched, "d/a.jpg": selected,
		}},
		{"a path follows its directory", []string{"+/d/", "-/*"}, map[string]string{
			"d/": selected, "d/x": selected, "d/e/": selected, "d/e/x": selected, "e/": leftOut, "e/x": leftOut, "x": leftOut,
		}},
		{"a rule that excludes all applies in an included directory, too", []string{"+/d/", "-*"}, map[string]string{
			"d/": selected, "d/x": leftOut, "d/e/": leftOut,
		}},
		{"below a directory, the rules before count", []string{"+/d/keep", "-/d", "+x", "-x"}, map[string]string{
			"d/": searched, "d/keep": selected, "d/keep/": selected, "d/keep/y": selected, "d/keep/x": selected,
			"d/x": leftOut, "x": selected, "d/e/": leftOut, "d/e/keep": leftOut,
		}},
		{"a smaller number counts deeper", []string{"+**/k", "-/d/e/", "+/d/e/m", "+/d/n", "-/d/"}, map[string]string{
			"d/": searched, "d/n": selected, "d/e/": searched, "d/e/k": selected, "d/e/m": leftOut, "d/e/f/": searched, "d/e/f/k": selected,
		}},
		{"content only", []string{"+/d/**", "-*"}, map[string]string{
			"d/": searched, "d/x": selected, "d/e/": selected, "d/e/f": selected, "e/": leftOut,
		}},
		{"a deep include", []string{"+/a/*/c/x", "-*"}, map[string]string{
			"a/": searched, "b/": leftOut, "a/b/": searched, "a/b/c/": searched, "a/b/d/": leftOut,
			"a/b/c/x": selected, "a/b/c/y/": leftOut, "a/b/c/x/": selected, "a/b/c/x/y": selected,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newList(t, tt.rules...)
			for entry, want := range tt.want {
				assert.Equal(t, want, word(walkSlash(l, entry)), entry)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{nil, ""},
		{[]string{"-a"}, ""},
		{[]string{"+a", "-*"}, ""},
		{[]string{"-b", "+a", "-*"}, ""},
		{[]string{"-*/", "+a", "-*"}, ""},
		{[]string{"-/a", "+a", "-b"}, ""},
		{[]string{"+a"}, `the include rule "a" has no effect, because no exclude rule follows; add --exclude '*'`},
		{[]string{"-b", "+a"}, `the include rule "a" has no effect, because no exclude rule follows`},
		{[]string{"+b", "-b", "+a"}, `the include rule "a" has no effect, because no exclude rule follows`},
		{[]string{"-*", "+a", "-b"}, `the include rule "a" has no effect, because the exclude rule "*" before it decides`},
		{[]string{"-**", "+a", "-b"}, `the exclude rule "**" before it decides`},
		{[]string{"-a", "+a", "-b"}, `the exclude rule "a" before it decides`},
	} {
		l := newList(t, tt.rules...)
		if tt.want == "" {
			require.NoError(t, l.Check(), tt.rules)
		} else {
			require.ErrorContains(t, l.Check(), tt.want, tt.rules)
		}
	}

	// A file is one rule. Git accepts its lines, whatever their effect.
	for file, want := range map[string]string{"*\n!a\n": "", "!a\n*\n": "", "b\n!b\n!c\n": "", "!a\n": `the include rule "a" has no effect`} {
		var l List
		require.NoError(t, l.Exclude("*"))
		require.NoError(t, l.ExcludeFrom(strings.NewReader(file)))
		if want == "" {
			require.NoError(t, l.Check(), file)
		} else {
			require.ErrorContains(t, l.Check(), want, file)
		}
		require.NoError(t, l.Exclude("c"))
		require.NoError(t, l.Check(), file)
	}
	include := newList(t, "+a")
	require.NoError(t, include.ExcludeFrom(strings.NewReader("!c\n")))
	require.Error(t, include.Check())
	require.NoError(t, include.ExcludeFrom(strings.NewReader("d\n")))
	require.NoError(t, include.Check())
}

// Lists with the same rules are equal.
func TestRules(t *testing.T) {
	l := newList(t, "+/d/keep", "-a")
	require.NoError(t, l.ExcludeFrom(strings.NewReader("/d\n!x\n")))
	require.NoError(t, l.ExcludeFrom(strings.NewReader("y\n")))
	require.Equal(t, []Rule{{true, "/d/keep", 0}, {false, "a", 0}, {true, "x", 1}, {false, "/d", 1}, {false, "y", 2}}, l.Rules())
	var other List
	require.NoError(t, other.Add(l.Rules()...))
	require.Equal(t, l.Fingerprint(), other.Fingerprint())
	require.Equal(t, searched, word(other.Match("d", true, other.Root())))
	require.Equal(t, selected, word(walk(&other, "d/keep", false)))
	require.Equal(t, leftOut, word(walk(&other, "d/x", false)), "the file is one rule, so none of its lines counts")
	require.Error(t, other.Add(Rule{false, "z", 0}, Rule{false, "[", 0}))
	require.Equal(t, l.Rules(), other.Rules())
	require.Zero(t, (*List)(nil).Fingerprint())
	require.Empty(t, (*List)(nil).Rules())
}

// If no rule of a list matches paths, a walker asks about the base name only.
func TestMatchesPaths(t *testing.T) {
	for rules, want := range map[string]bool{
		"*.o": false, "**": false, "a/": false, "**/a": false, "!a\nb*": false,
		"/a": true, "a/b": true, "**/a/b": true, "a/**": true, "a\n/b\nc": true,
	} {
		var l List
		require.NoError(t, l.ExcludeFrom(strings.NewReader(rules)))
		require.Equal(t, want, l.NeedsPaths(), rules)
	}
	require.True(t, newList(t, "-a", "+/b").NeedsPaths())
	require.False(t, newList(t, "-a", "+b").NeedsPaths())
	require.False(t, (*List)(nil).NeedsPaths())
}

func TestNilListSelectsEverything(t *testing.T) {
	for _, l := range []*List{nil, {}} {
		assert.Equal(t, selected, word(l.Root()))
		assert.Equal(t, selected, word(l.Match("a/b", false, l.Root())))
		assert.Equal(t, selected, word(l.Match("a", true, l.Root())))
		assert.Equal(t, leftOut, word(l.Match("a", true, Verdict{})))
	}
}

func TestExcludeFrom(t *testing.T) {
	const file = "\ufeff# a comment\n" +
		"\n" +
		"   \n" +
		"\r\n" +
		"*.tmp  \n" +
		"!keep.tmp\r\n" +
		"crlf \r\n" +
		"\\#hash\n" +
		"\\!bang\n" +
		"kept\\ \n" +
		"two\\   \n" +
		"a b\n" +
		" #indented\n" +
		"tab\t\n" +
		"back\\\\  \n" +
		"last\r"
	var l List
	require.NoError(t, l.ExcludeFrom(strings.NewReader(file)))
	for entry, want := range map[string]string{
		"x.tmp": leftOut, "keep.tmp": selected, "crlf": leftOut, "crlf ": selected,
		"#hash": leftOut, "!bang": leftOut, "kept ": leftOut, "kept": selected,
		"two ": leftOut, "two   ": selected, "a b": leftOut, "a": selected,
		" #indented": leftOut, "tab\t": leftOut, "tab": selected, `back\`: leftOut,
		"last": leftOut, "# a comment": selected, "": selected, " ": selected,
	} {
		assert.Equal(t, want, word(l.Match(entry, false, l.Root())), "%q", entry)
	}
	assert.Len(t, l.rules, 12)
}

func TestExcludeFromKeepsTheOrder(t *testing.T) {
	l := newList(t, "-a")
	require.NoError(t, l.ExcludeFrom(strings.NewReader("b\nc\n!a\n!b\n")))
	require.NoError(t, l.Exclude("b"))
	for entry, want := range map[string]string{"a": leftOut, "b": selected, "c": leftOut, "d": selected} {
		assert.Equal(t, want, word(walk(l, entry, false)), entry)
	}
}

func TestExcludeFromErrors(t *testing.T) {
	failing := errors.New("device on fire")
	tests := []struct {
		name, file string
		want       string
	}{
		{"malformed", "good\n# comment\n\n[a\n", `line 4: pattern "[a": a "[" has no closing "]"`},
		{"malformed include", "good\n!a//b\r\n", `line 2: pattern "a//b"`},
		{"lone bang", "!\n", `line 1: pattern "": it is empty`},
		{"bang and spaces", "a\n!  \n", `line 2: pattern "": it is empty`},
		{"too long", "a\n" + strings.Repeat("x", maxRecord+1), "line 2: longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newList(t, "-before")
			assert.ErrorContains(t, l.ExcludeFrom(strings.NewReader(tt.file)), tt.want)
			assert.Len(t, l.rules, 1, "the list is unchanged")
		})
	}
	assert.ErrorIs(t, new(List).ExcludeFrom(iotest.ErrReader(failing)), failing)
	assert.NoError(t, new(List).ExcludeFrom(strings.NewReader(strings.Repeat("x", maxRecord)+"\n")))
}

func TestMatchDoesNotAllocate(t *testing.T) {
	l := newList(t, "-*.tmp", "-/a/**/b/*.o", "+[!x]?*\xff", "-lib*")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		l.Match("a/x/y/b/some.name", false, l.Root())
		l.Match("a/x/y/b/some.name", true, l.Root())
	}))
}

// A pattern with many stars must not take exponential time.
func TestManyStars(t *testing.T) {
	l := newList(t, "-"+strings.Repeat("a*", 50)+"b", "-"+strings.Repeat("**/a/", 50)+"b")
	assert.Equal(t, selected, word(l.Match(strings.Repeat("a", 4000), false, l.Root())))
	assert.Equal(t, selected, word(l.Match(strings.Repeat("a/", 2000)+"a", false, l.Root())))
}

func BenchmarkMatch(b *testing.B) {
	l := new(List)
	for _, p := range []string{"*.tmp", "node_modules/", "/build/**/*.o", ".git", "~*", "[._]*.sw?"} {
		if err := l.Exclude(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Match("src/project/module/file_name.go", false, l.Root())
	}
}
