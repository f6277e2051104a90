package engine

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A card that is not mounted leaves an empty directory. A directory or a link is an entry.
func TestAnEmptySourceIsAWarning(t *testing.T) {
	t.Parallel()
	needsSymlinks(t)
	for name, c := range map[string]struct {
		source treetest.Dir
		warned int64
	}{
		"empty":     {treetest.Dir{}, 1},
		"file":      {treetest.Dir{"f": treetest.File("")}, 0},
		"directory": {treetest.Dir{"d": treetest.Dir{}}, 0},
		"link":      {treetest.Dir{"l": treetest.Symlink("nowhere")}, 0},
	} {
		dir := treetest.MemoryDir(t)
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		treetest.Create(t, src, c.source)
		for range 2 { // the second run finds everything up to date
			out := runReported(t, options(src, dst))
			require.Equal(t, c.warned, out.summary.Warnings, "%s: %v", name, out.bad())
			require.Len(t, out.bad(), int(c.warned), name)
		}
	}
}
