package engine

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Direct reads need aligned blocks. With other blocks the cache is dropped instead, and one
// warning reports that.
func TestDirectWithOddBlocksIsReportedOnce(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it reads directly from the device")
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	for _, name := range []string{"a", "b", "c"} {
		write(t, src, name, treetest.Pattern(50_000, 1), since)
	}
	for block, want := range map[int]int{10_000: 1, 4096: 1, 8192: 0, 1 << 20: 0} { // the last: no file is longer
		o := options(src, filepath.Join(treetest.MemoryDir(t), "dst"))
		o.Cache, o.BlockSize = pipe.CacheDirect, block
		out := runReported(t, o)
		require.Zero(t, out.summary.Errors)
		reports := slices.DeleteFunc(out.events, func(e event.Event) bool {
			return e.Kind != event.Warning || !strings.Contains(e.Err.Error(), "cannot be bypassed")
		})
		require.Len(t, reports, want, "blocks of %d", block)
	}
}

// The counter of unwritten bytes follows a slow device, and ends at 0.
func TestUnwrittenIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, dst := filepath.Join(treetest.MemoryDir(t), "src"), filepath.Join(dir, "dst")
	write(t, src, "big", treetest.Pattern(24<<20, 1), since)
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	ranges := root.WritesBehind()
	root.Close()
	if !ranges {
		t.Skip("the temporary directory's file system has no writeback of ranges")
	}
	c := &counters.Set{}
	var most atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpWriteback {
			time.Sleep(60 * time.Millisecond)
			most.Store(max(most.Load(), c.Unwritten.Load()))
		}
		return nil
	})
	const window = 8 << 20
	o := options(src, dst)
	o.Sync, o.BlockSize, o.DirtyWindow = dest.SyncEnd, 128<<10, window
	o.FS = sys
	out := runCounted(t, o, c)
	require.Zero(t, out.summary.Errors)
	require.Positive(t, most.Load())
	require.LessOrEqual(t, most.Load(), int64(window+o.BlockSize))
	require.Zero(t, c.Unwritten.Load())
}
