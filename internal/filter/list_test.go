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
			r, err := compile(tt.pattern)
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
		r, err := compile("[[:" + name + ":]]")
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
			assert.Equal(t, Included, l.Root(), "the list stays empty")
		}
	}
}

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name  string
		rules []string
		want  map[string]Verdict // directories end in "/"
	}{
		{"empty", nil, map[string]Verdict{"a": Included, "a/": Included, "a/b": Included}},
		{"exclude first", []string{"-*.tmp"}, map[string]Verdict{
			"a": Included, "a.tmp": Excluded, "d/": Included, "d/a.tmp": Excluded,
			"d.tmp/": Excluded, "d.tmp/a": Excluded,
		}},
		{"last match wins", []string{"-*.tmp", "+keep.tmp", "-/d/keep.tmp"}, map[string]Verdict{
			"keep.tmp": Included, "x.tmp": Excluded, "e/keep.tmp": Included, "d/keep.tmp": Excluded,
		}},
		{"no way back below an excluded directory", []string{"-/d", "+/d/keep"}, map[string]Verdict{
			"d/": Excluded, "d/keep": Excluded, "d/keep/": Excluded, "d/keep/x": Excluded,
		}},
		{"contents excluded, one kept", []string{"-/d/*", "+/d/keep"}, map[string]Verdict{
			"d/": Included, "d/keep": Included, "d/other": Excluded,
		}},
		{"include first", []string{"+*.jpg"}, map[string]Verdict{
			"a.jpg": Included, "a.png": Excluded, "d/": Traverse, "d/e/": Traverse,
			"d/e/a.jpg": Included, "d/e/a.png": Excluded,
		}},
		{"included directory", []string{"+/d"}, map[string]Verdict{
			"d/": Included, "d/x": Included, "d/e/": Included, "d/e/x": Included,
			"e/": Traverse, "e/d": Excluded, "e/d/": Traverse,
		}},
		{"excluded inside included", []string{"+/d/", "-*.o", "-/d/tmp/"}, map[string]Verdict{
			"d": Excluded, "d/": Included, "d/x.o": Excluded, "d/x": Included,
			"d/tmp/": Excluded, "d/tmp/x": Excluded, "x.o": Excluded,
		}},
		{"include again inside", []string{"+/d", "-*.o", "+/d/e/*.o"}, map[string]Verdict{
			"d/x.o": Excluded, "d/e/x.o": Included, "x.o": Excluded,
		}},
		{"contents only", []string{"+/d/**"}, map[string]Verdict{
			"d/": Traverse, "d/x": Included, "d/e/": Included, "d/e/f": Included,
		}},
		{"exclude prunes the traversal", []string{"+*.jpg", "-/cache/"}, map[string]Verdict{
			"cache/": Excluded, "cache/a.jpg": Excluded, "d/a.jpg": Included,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newList(t, tt.rules...)
			for entry, want := range tt.want {
				assert.Equal(t, want, walkSlash(l, entry), entry)
			}
		})
	}
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

func TestRoot(t *testing.T) {
	var none *List
	assert.Equal(t, Included, none.Root())
	assert.Equal(t, Included, new(List).Root())
	assert.Equal(t, Included, newList(t, "-a", "+b").Root())
	assert.Equal(t, Traverse, newList(t, "+a", "-b").Root())
}

func TestNilListIncludesEverything(t *testing.T) {
	var l *List
	assert.Equal(t, Included, l.Match("a/b", false, l.Root()))
	assert.Equal(t, Included, l.Match("a", true, l.Root()))
	assert.Equal(t, Excluded, l.Match("a", true, Excluded))
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
	for entry, want := range map[string]Verdict{
		"x.tmp": Excluded, "keep.tmp": Included, "crlf": Excluded, "crlf ": Included,
		"#hash": Excluded, "!bang": Excluded, "kept ": Excluded, "kept": Included,
		"two ": Excluded, "two   ": Included, "a b": Excluded, "a": Included,
		" #indented": Excluded, "tab\t": Excluded, "tab": Included, `back\`: Excluded,
		"last": Excluded, "# a comment": Included, "": Included, " ": Included,
	} {
		assert.Equal(t, want, l.Match(entry, false, l.Root()), "%q", entry)
	}
	assert.Len(t, l.rules, 12)
}

func TestExcludeFromKeepsTheOrder(t *testing.T) {
	l := newList(t, "-a")
	require.NoError(t, l.ExcludeFrom(strings.NewReader("!a\n")))
	assert.Equal(t, Included, walk(l, "a", false))
	require.NoError(t, l.Exclude("a"))
	assert.Equal(t, Excluded, walk(l, "a", false))

	first := new(List)
	require.NoError(t, first.ExcludeFrom(strings.NewReader("# none yet\n!a\n")))
	assert.Equal(t, Traverse, first.Root(), "a first rule that includes makes exclusion the default")
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
		l.Match("a/x/y/b/some.name", false, Included)
	}))
}

// A pattern with many stars must not take exponential time.
func TestManyStars(t *testing.T) {
	l := newList(t, "-"+strings.Repeat("a*", 50)+"b", "-"+strings.Repeat("**/a/", 50)+"b")
	assert.Equal(t, Included, l.Match(strings.Repeat("a", 4000), false, Included))
	assert.Equal(t, Included, l.Match(strings.Repeat("a/", 2000)+"a", false, Included))
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
		l.Match("src/project/module/file_name.go", false, Included)
	}
}
