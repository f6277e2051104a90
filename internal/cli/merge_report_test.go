package cli

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// plannedCard makes a source and a plan with three shards to copy it, and finishes shard 1.
func plannedCard(t *testing.T) (dir, plan string) {
	t.Helper()
	dir = t.TempDir()
	tree := treetest.Dir{}
	for i := range 6 {
		tree["clip"+strconv.Itoa(i)] = treetest.File(string(treetest.Pattern(100_000, byte(i))))
	}
	treetest.Create(t, filepath.Join(dir, "card"), tree)
	plan = filepath.Join(dir, "plan")
	code, _, stderr := whole(t.Context(), "plan", "-q", "--into", plan, "--shards", "3", filepath.Join(dir, "card"), filepath.Join(dir, "dst"))
	require.Zero(t, code, stderr)
	runShard(t, plan, 1)
	return dir, plan
}

func runShard(t *testing.T, plan string, index int) {
	t.Helper()
	code, _, stderr := whole(t.Context(), "run", "-q", plan, "--shard", strconv.Itoa(index))
	require.Zero(t, code, stderr)
}

// Before the merge, the report is the state of the shards. Afterwards it is that of the whole copy.
// Both have a row for each shard, and the numbers of the JSON output.
func TestReportOfAMergeShowsItsShards(t *testing.T) {
	dir, plan := plannedCard(t)
	file := filepath.Join(dir, "report.html")

	code, stdout, _ := whole(t.Context(), "merge", "--json", "--report", file, plan)
	require.Equal(t, 1, code)
	page := readPage(t, file)
	paths := sameNumbers(t, page, stdout)
	require.Subset(t, paths, []string{"shards.total", "shards.finished", "shards.not_begun"})
	require.Contains(t, page, `<h1><span aria-hidden="true">✗</span> NOT COMPLETE: 2 of 3 shards not finished</h1>`)
	require.Equal(t, 2, strings.Count(page, "<td>not begun</td>"))
	require.Equal(t, 1, strings.Count(page, "<td>finished</td>"))
	require.Contains(t, page, "Nothing was merged.")

	runShard(t, plan, 0)
	runShard(t, plan, 2)
	code, stdout, _ = whole(t.Context(), "merge", "--json", "--report", file, plan)
	require.Zero(t, code)
	page = readPage(t, file)
	paths = sameNumbers(t, page, stdout)
	require.Subset(t, paths, []string{"counts.files", "bytes", "destinations.0.manifests.0.lines"})
	require.Contains(t, page, "Sealift report: merge,")
	require.Contains(t, page, "Source and destinations")
	require.Contains(t, page, `<dt>size</dt><dd><data value="600000" data-json="bytes">600 kB (600,000 bytes)`)
	require.Equal(t, 3, strings.Count(page, "<td>finished</td>"))
	require.Equal(t, 3, strings.Count(page, `<td class="bar"><svg aria-hidden="true"><rect x="`))
	require.Contains(t, page, "The tasks of the shards have copied the files. All files are listed in ")
	require.NotContains(t, page, "No file was processed")
}
