package mhl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/filter"
)

func TestIgnore(t *testing.T) {
	i := NewIgnore("*.tmp", "/top", "a/b", "dir/", "!keep.tmp", "*.tmp", "[", "# comment", "")
	require.Equal(t, []string{".DS_Store", "ascmhl", "ascmhl/", "*.tmp", "/top", "a/b", "dir/", "!keep.tmp", "[", "# comment", ""}, i.Patterns())
	for path, want := range map[string]bool{
		".DS_Store": true, "x/.DS_Store": true, "ascmhl": true, "x/ascmhl": true, "ascmhl/a.mhl": true,
		"a.tmp": true, "x/a.tmp": true, "keep.tmp": false, "x/keep.tmp": false,
		"top": true, "x/top": false, "top/below": true, "a/b": true, "x/a/b": false,
		"dir": false, "dir/file": true, "x/dir/file": true, "[": false, "# comment": false, "other": false,
	} {
		require.Equal(t, want, i.Hides(path, false), path)
	}
	require.True(t, i.Hides("dir", true))
	require.False(t, (*Ignore)(nil).Hides("a", false))
	require.Nil(t, (*Ignore)(nil).Patterns())
}

// The pattern for a path matches it, whatever is in it, and nothing beside it.
func TestPatternFor(t *testing.T) {
	for _, path := range []string{"a", "a/b", "*", "x/[a]", "a?", `a\b`, "end ", "d/end  ", "!a", "#a", "d/!a", "d/#a", "**", "{a,b}", "é"} {
		p := PatternFor(path)
		require.NoError(t, CheckPattern(p), path)
		i := NewIgnore(p)
		require.True(t, i.Hides(path, false), "%q for %q", p, path)
		require.False(t, i.Hides(path+"x", false), "%q for %q", p, path)
		require.False(t, i.Hides("b/c", false), "%q for %q", p, path)
	}
}

// Thousands of patterns for single paths cost no comparison of each file with each of them. The
// result is that of a list of rules, also where a pattern negates others.
func TestPatternsForManyPaths(t *testing.T) {
	paths := []string{"a", "a/b", "b/b/a", "b ", "*", "!a", "b/ab"}
	for _, further := range [][2][]string{{}, {{"a*"}}, {{"!a"}, {"!b"}}, {{"*", "!a"}, {"b/", "!b"}}, {nil, {"\ufeff!a"}}} {
		for mask := range 1 << len(paths) {
			patterns, rules := slices.Clone(further[0]), &filter.List{}
			for n, path := range paths {
				if mask>>n&1 == 1 {
					patterns = append(patterns, PatternFor(path))
				}
			}
			patterns = append(patterns, further[1]...)
			lines := strings.Join(slices.Concat(defaultIgnore, patterns), "\n")
			require.NoError(t, rules.ExcludeFrom(strings.NewReader(strings.ReplaceAll(lines, "\ufeff", ""))))
			i, plain := NewIgnore(patterns...), &Ignore{rules: rules}
			for _, path := range append(paths, "b", "b/b", "a/b/b", "x/a/b", "xa/b") {
				for _, isDir := range []bool{false, true} {
					if i.Hides(path, isDir) != plain.Hides(path, isDir) {
						t.Errorf("%q with %q, directory: %v: %v", path, patterns, isDir, i.Hides(path, isDir))
					}
				}
			}
		}
	}
	var many []string
	for n := range 4000 {
		many = append(many, PatternFor(fmt.Sprintf("dir/link %d", n)))
	}
	i := NewIgnore(many...)
	require.LessOrEqual(t, len(i.rules.Rules()), len(defaultIgnore))
	require.True(t, i.Hides("x/dir/link 3999/y", false))
	require.False(t, i.Hides("x/dir/link 4000/y", false))
}

func TestRepresentable(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "é": true, "a\nb": true, "a\rb\tc": true, "\u007f": true, "😀": true, "\ufffd": true,
		"\x01": false, "\x1f": false, "a\xff": false, "\xed\xa0\x80": false, "\ufffe": false, "\uffff": false,
	} {
		require.Equal(t, want, Representable(name), "%q", name)
	}
}
