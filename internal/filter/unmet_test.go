package filter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule has matched also where a later one has decided, and what is in an excluded
// directory is not asked about.
func TestUnmetRules(t *testing.T) {
	var l List
	require.NoError(t, l.ExcludeFrom(strings.NewReader("*.tmp\n!keep.tmp\nbuild/\n*.o\nmissing\n")))
	require.NoError(t, l.Include("*.jpg"))
	root := l.Root()
	require.Equal(t, Excluded, l.Match("a.tmp", false, root))
	require.Equal(t, Included, l.Match("keep.tmp", false, root))
	build := l.Match("build", true, root)
	require.Equal(t, Excluded, l.Match("build/x.o", false, build))
	require.Equal(t, [][2]string{{"exclude", "*.o"}, {"exclude", "missing"}, {"include", "*.jpg"}}, l.Unmet())
	l.Match("x.o", false, root)
	require.Equal(t, [][2]string{{"exclude", "missing"}, {"include", "*.jpg"}}, l.Unmet())

	var shadowed List
	require.NoError(t, shadowed.Exclude("*.tmp"))
	require.NoError(t, shadowed.Include("a*"))
	require.Equal(t, Included, shadowed.Match("a.tmp", false, shadowed.Root()))
	require.Empty(t, shadowed.Unmet())
	require.Empty(t, (*List)(nil).Unmet())
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
