package filter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule has matched also where an earlier one decides.
func TestUnmetRules(t *testing.T) {
	var l List
	require.NoError(t, l.Include("keep.tmp"))
	require.NoError(t, l.ExcludeFrom(strings.NewReader("*.tmp\n!x*\n/d/missing\n/missing\n")))
	root := l.Root()
	require.Equal(t, selected, word(l.Match("keep.tmp", false, root)))
	require.Equal(t, []Rule{{false, "/missing", 1}, {false, "/d/missing", 1}, {true, "x*", 1}}, l.Unmet())
	require.Equal(t, selected, word(l.Match("x.tmp", false, root)))
	require.Equal(t, []Rule{{false, "/missing", 1}, {false, "/d/missing", 1}}, l.Unmet())
	l.Unsearched("d")
	require.Equal(t, []Rule{{false, "/missing", 1}}, l.Unmet())
	l.Unsearched("")
	require.Empty(t, l.Unmet())
	require.Empty(t, (*List)(nil).Unmet())
	(*List)(nil).Unsearched("d")
}

// A rule that can match below a directory that is not searched has perhaps matched.
func TestUnmetBelowDirectoriesLeftOut(t *testing.T) {
	for pattern, reported := range map[string]bool{
		"/d/e/f": false, "/d/*/f": false, "/*/e": false, "x": false, "x/": false, "**/x/y": false, "/d/**": false, "d/e/**/x": false,
		"/e": true, "/e/f": true, "/e/**": true, "/d/f/g": true, "/*/f/x": true, "/d*/x/": true,
	} {
		l := newList(t, "-"+pattern, "-/d/e")
		require.Equal(t, leftOut, word(l.Match("d/e", true, l.Root())))
		want := 0
		if reported {
			want = 1
		}
		require.Len(t, l.Unmet(), want, pattern)
	}
}

func TestUnmetPaths(t *testing.T) {
	o, err := ReadOnly(strings.NewReader("a\nd/b\nd/c\ne\n"), false)
	require.NoError(t, err)
	root := o.Root()
	require.True(t, root.Child("a").All())
	require.True(t, root.Child("d").Child("c").Child("below").All())
	require.Nil(t, root.Child("f"))
	require.Equal(t, []string{"d/b", "e"}, o.Unmet())
	require.Empty(t, (*Only)(nil).Unmet())
	all, err := ReadOnly(strings.NewReader("a\n.\n"), false)
	require.NoError(t, err)
	require.Empty(t, all.Unmet())
}
