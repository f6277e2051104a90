package engine

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// What no copy gets, as alternate data streams, is told once a kind, whichever file has
// it, and keeps nothing from being copied; what stands at the destination is no matter.
func TestStreamsAreReportedOncePerKind(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	for i := range 20 {
		write(t, src, fmt.Sprint(i), []byte("x"), since)
	}
	asked := 0
	o := options(src, dst)
	o.Workers = 1
	for run := range 2 { // the second time what stands at the destination is asked, too
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpGetXattr {
				asked++
				return &fsys.NotKeptError{What: []string{"streams", "encryption"}[asked%2]}
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		require.Zero(t, out.summary.Errors, "%v", out.bad())
		told := map[string]int{}
		for _, e := range out.bad() {
			require.Equal(t, EventWarning, e.Kind)
			told[e.Err.Error()]++
		}
		if run == 0 {
			require.Greater(t, asked, 20, "of every file")
			require.Len(t, told, 2)
		}
		for text, times := range told {
			require.Regexp(t, "^its (streams|encryption), and perhaps the same of others, cannot be kept", text)
			require.Equal(t, 1, times)
		}
	}
}
