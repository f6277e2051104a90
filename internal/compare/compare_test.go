package compare_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// verdictNames are how the tests write verdicts.
var verdictNames = map[compare.Verdict]string{
	compare.Equal: "equal", compare.Differs: "differs", compare.OnlyIn: "only in", compare.TypeDiffers: "type differs",
	compare.MetadataDiffers: "metadata differs", compare.Unreadable: "unreadable", compare.Incomplete: "incomplete",
}

func text(e compare.Event) string {
	letters := ""
	for _, i := range e.Trees {
		letters += compare.Letter(i)
	}
	s := strings.TrimSpace(verdictNames[e.Verdict] + " " + letters)
	s += " " + e.Path
	if e.Whole {
		s += fmt.Sprintf(" (%d files, %d bytes)", e.Files, e.Bytes)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// trees makes the trees in a directory of their own and returns their paths.
func trees(t *testing.T, literals ...treetest.Dir) (paths []string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	for i, tree := range literals {
		path := dir + "/" + strings.ToLower(compare.Letter(i))
		treetest.Create(t, path, tree)
		paths = append(paths, path)
	}
	return paths
}

// run compares, and returns what was reported, one line for each event.
func run(t *testing.T, o compare.Options) (lines []string, s *compare.Summary) {
	t.Helper()
	var c counters.Set
	c.CountTotals = true
	o.Report = func(e compare.Event) { lines = append(lines, text(e)) }
	s, err := compare.Run(t.Context(), &o, &c)
	require.NoError(t, err)
	return lines, s
}

var _ = context.Background
var _ = errors.New
var _ fsys.Kind

func TestSmoke(t *testing.T) {
	p := trees(t, treetest.Dir{"a": treetest.File("x"), "d": treetest.Dir{"b": treetest.File("12"), "e": treetest.Dir{"f": treetest.File("y")}}, "k": treetest.Symlink("z"), "t": treetest.File("")},
		treetest.Dir{"a": treetest.File("x"), "d": treetest.Dir{"b": treetest.File("13"), "n": treetest.File("")}, "k": treetest.Symlink("y"), "t": treetest.Dir{}, "q": treetest.Dir{"w": treetest.File("qqq")}})
	lines, s := run(t, compare.Options{Trees: p})
	t.Log(strings.Join(lines, "\n"))
	t.Logf("%+v", s)
}
