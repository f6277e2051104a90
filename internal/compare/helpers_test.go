//go:build unix

package compare_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// verdictNames are the verdicts as the tests write them.
var verdictNames = map[compare.Verdict]string{
	compare.Equal: "equal", compare.Differs: "differs", compare.OnlyIn: "only in", compare.TypeDiffers: "type differs",
	compare.MetadataDiffers: "metadata differs", compare.Unreadable: "unreadable", compare.Incomplete: "incomplete",
}

func text(e compare.Event) string {
	s := verdictNames[e.Verdict]
	for i, tree := range e.Trees {
		if i == 0 {
			s += " "
		}
		s += compare.Letter(tree)
	}
	s += " " + e.Path
	if e.Whole {
		s += fmt.Sprintf(" (%d files, %d bytes)", e.Files, e.Bytes)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + string(e.Stage) + ": " + e.Err.Error()
	}
	return s
}

// trees makes the trees in a new directory and returns their paths.
func trees(t *testing.T, literals ...treetest.Dir) (paths []string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	for i, tree := range literals {
		path := filepath.Join(dir, strings.ToLower(compare.Letter(i)))
		treetest.Create(t, path, tree)
		paths = append(paths, path)
	}
	return paths
}

// run compares, and returns the reports, one line for each event.
func run(t *testing.T, o compare.Options) (lines []string, s *compare.Summary) {
	t.Helper()
	o.Report = func(e compare.Event) { lines = append(lines, text(e)) }
	s, err := compare.Run(t.Context(), &o, &counters.Set{CountTotals: true})
	require.NoError(t, err)
	return lines, s
}

type file = treetest.Dir // to keep the tables short
