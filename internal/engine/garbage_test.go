package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Entries, their transfers and their results reuse the memory of earlier ones. A file that is up to
// date leaves about 200 bytes of garbage. With the race detector, pools drop some of their content,
// and a file leaves 700 bytes.
func TestGarbageOfSmallFiles(t *testing.T) { // not parallel: it measures the process
	const few, many = 200, 1200
	require.Less(t, (garbageOf(t, many)-garbageOf(t, few))/(many-few), int64(1000), "bytes for each file")
}

// garbageOf returns how many bytes a run allocates that finds so many files up to date.
func garbageOf(t *testing.T, files int) int64 {
	t.Helper()
	dir := treetest.MemoryDir(t)
	o := options(filepath.Join(dir, "src"), filepath.Join(dir, "dst"))
	o.Hashes = nil // the memory of manifests grows in steps
	for i := range files {
		write(t, o.Source, fmt.Sprintf("d%d/f%d", i%10, i), []byte(fmt.Sprint("content ", i)), since)
	}
	run := func() *Summary {
		s, err := Run(context.Background(), &o, &counters.Set{})
		require.NoError(t, err)
		return s
	}
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := run()
	runtime.ReadMemStats(&after)
	require.EqualValues(t, files, s.Skipped)
	return int64(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // far below 2^63
}
