package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/filter"
)

// The filters mean the same paths as in a walk of the tree.
func TestSelectedPaths(t *testing.T) {
	exclude := func(pattern string) *Options {
		o := &Options{Filter: &filter.List{}, ConvertPaths: true}
		require.NoError(t, o.Filter.Exclude(pattern))
		return o
	}
	include := &Options{Filter: &filter.List{}}
	require.NoError(t, include.Filter.Include("/d/**/*.mov"))
	require.NoError(t, include.Filter.Exclude("*"))
	only, err := filter.ReadOnly(strings.NewReader("a/b\nc\n"), false)
	require.NoError(t, err)
	listed := &Options{Only: only}
	for _, c := range []struct {
		o    *Options
		path string
		want bool
	}{
		{&Options{}, "../any", true},
		{exclude("*.tmp"), "d/a.tmp", false},
		{exclude("*.tmp"), "d/a.mov", true},
		{exclude("cache/"), "d/cache/a.mov", false},
		{exclude("cache/"), "./d//cache/a.mov", false},
		{exclude("cache/"), `d\cache\a.mov`, false},
		{exclude("cache/"), "d/cache", true}, // a file
		{exclude("/a"), "/a", false},
		{exclude("/a"), "b/a", true},
		{exclude("/a"), "/", true},
		{include, "d/e/f.mov", true},
		{include, "d/f.mov", true},
		{include, "e/f.mov", false},
		{listed, "a/b", true},
		{listed, "a/bc", false},
		{listed, "a", false},
		{listed, "c/d/e", true},
		{listed, "./c", true},
	} {
		require.Equal(t, c.want, c.o.selects(c.path), c.path)
	}
}
