package walk

import (
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// A walk visits the selected entries and the directories that have to be searched. It counts
// everything else once, at its highest directory.
func TestFiltersAreThoseOfMatchAll(t *testing.T) {
	patterns := rapid.SampledFrom([]string{"*", "*a*", "b*", "/a*/**", "/*/*b", "*/", "/b", "**/?/a", "?", "/?/?/?", "- "})
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		root := makeTree(t, paths...)
		defer os.RemoveAll(root)
		rules := &filter.List{}
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			require.NoError(t, rules.Add(filter.Rule{Include: rapid.Bool().Draw(t, "include"), Pattern: patterns.Draw(t, "pattern")}))
		}
		v := newRecorder()
		var leftOut atomic.Int64
		o := Options{Workers: rapid.IntRange(1, 4).Draw(t, "workers"), Filter: rules, LeftOut: &leftOut}
		if rapid.Bool().Draw(t, "found") {
			o.Found = v.found
		}
		walkTree(t.Context(), t, root, 8, v, o)

		files, dirs := split(paths)
		var wantFiles []string
		wantDirs, wantLeftOut := []string{""}, 0
		count := func(entry string, isDir bool) (visited bool) {
			verdict := rules.MatchAll(entry, isDir)
			if dir := path.Dir(entry); verdict.LeftOut() && (dir == "." || rules.MatchAll(dir, true).Searched) {
				wantLeftOut++
			}
			return !verdict.LeftOut()
		}
		for _, file := range files {
			if count(file, false) {
				wantFiles = append(wantFiles, file)
			}
		}
		for _, dir := range dirs[1:] {
			if count(dir, true) {
				wantDirs = append(wantDirs, dir)
			}
		}
		require.ElementsMatch(t, wantFiles, v.paths("entry"))
		require.ElementsMatch(t, wantDirs, v.paths("enter"))
		require.EqualValues(t, wantLeftOut, leftOut.Load())
	})
}

// A rule has perhaps matched in a directory that the walk does not read.
func TestRulesOfDirectoriesThatAreNotRead(t *testing.T) {
	root := tree(t, "d/", "e/x", "f/")
	rules := func() *filter.List {
		l := &filter.List{}
		for _, p := range []string{"/d/x", "/e/y", "/f/z"} {
			require.NoError(t, l.Exclude(p))
		}
		return l
	}
	unmet := func(l *filter.List) string {
		var patterns []string
		for _, r := range l.Unmet() {
			patterns = append(patterns, r.Pattern)
		}
		return strings.Join(patterns, " ")
	}
	v, l := newRecorder(), rules()
	walkTree(t.Context(), t, root, 4, v, Options{Workers: 1, Filter: l})
	require.Equal(t, "/d/x /e/y /f/z", unmet(l))

	v, l = newRecorder(), rules()
	v.onEnter = func(d *Dir) bool { return d.Name != "d" }
	walkTree(t.Context(), t, root, 4, v, Options{Workers: 1, Filter: l})
	require.Equal(t, "/e/y /f/z", unmet(l), "the visitor does not enter d")

	lists := 0
	for what, fails := range map[string]func(op fsys.Op, name string) bool{
		"opened": func(op fsys.Op, name string) bool { return op == fsys.OpOpenDir && name == "e" },
		"listed": func(op fsys.Op, _ string) bool {
			if op == fsys.OpList {
				lists++
			}
			return op == fsys.OpList && lists == 3 // after the root and d
		},
	} {
		v, l = newRecorder(), rules()
		v.fs = faultfs.New(func(op fsys.Op, name string) error {
			if fails(op, name) {
				return os.ErrPermission
			}
			return nil
		})
		walkTree(t.Context(), t, root, 4, v, Options{Workers: 1, Filter: l})
		require.Equal(t, "/d/x /f/z", unmet(l), "e cannot be %s", what)
		require.Len(t, v.failed, 1)
	}
}

// Directories that Feed visits are not only searched: no filter has judged them.
func TestFedDirectoriesAreSelected(t *testing.T) {
	v := newRecorder()
	implied := map[string]bool{}
	v.onEnter = func(d *Dir) bool {
		implied[d.Path()] = d.Implied()
		return true
	}
	steps := []Step{{Dir: "d"}, {Dir: "d/e"}}
	require.NoError(t, Feed(t.Context(), openRoot(t, nil, tree(t, "d/e/"), 4, v), func() (Step, error) {
		if len(steps) == 0 {
			return Step{}, io.EOF
		}
		step := steps[0]
		steps = steps[1:]
		return step, nil
	}, func(Item) {}))
	require.Equal(t, map[string]bool{"": false, "d": false, "d/e": false}, implied)
}
