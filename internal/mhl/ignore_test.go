package mhl

import (
	"testing"

	"github.com/stretchr/testify/require"
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

func TestRepresentable(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "é": true, "a\nb": true, "a\rb\tc": true, "\u007f": true, "😀": true, "\ufffd": true,
		"\x01": false, "\x1f": false, "a\xff": false, "\xed\xa0\x80": false, "\ufffe": false, "\uffff": false,
	} {
		require.Equal(t, want, Representable(name), "%q", name)
	}
}
