//go:build linux

package pipe

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Eviction does not query each window of a file that is a single hole.
func TestEvictionOfAHugeFile(t *testing.T) {
	dir := treetest.MemoryDir(t)
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("cached"), 0o600))
	if err := os.Truncate(path, math.MaxInt64); err != nil {
		t.Skip("the file system has no files of that size: ", err)
	}
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	f, info, err := root.Open("f")
	require.NoError(t, err)
	defer f.Close()
	v := NewEviction(f, info.Size)
	if v == nil {
		t.Skip("the system does not tell what is cached")
	}
	require.LessOrEqual(t, len(v.keep), mostWindows)
	require.True(t, v.keep[0])
	v.Read(info.Size - 1)
	v.End(info.Size)
	require.Equal(t, info.Size, v.dropped)
}

// Data that was cached before stays, window by window, also in a second reading and in
// one that begins between two windows.
func TestEvictionLeavesEarlierPages(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, treetest.Pattern(4*evictWindow+5000, 1), 0o600))
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	f, info, err := root.Open("f")
	require.NoError(t, err)
	defer f.Close()
	if fromDevice, err := f.DropCache(); err != nil || !fromDevice {
		t.Skip("the temporary directory's file system does not tell what is cached")
	}
	if _, known := f.Cached(0, evictWindow); !known { // before Linux 6.5
		t.Skip("the system does not tell what is cached")
	}
	buf := make([]byte, evictWindow)
	cached := func() (windows []bool) {
		for off := int64(0); off < info.Size; off += evictWindow {
			held, known := f.Cached(off, evictWindow)
			require.True(t, known)
			windows = append(windows, held)
		}
		return windows
	}
	_, err = f.ReadAt(buf[:4096], evictWindow+4096) // another program has a page of the second window
	require.NoError(t, err)
	before := cached()
	require.True(t, before[1])
	v := NewEviction(f, info.Size)
	require.NotNil(t, v)
	for _, start := range []int64{0, evictWindow/2 + 4096, evictWindow + 4096} {
		v.Restart()
		off := start
		for off < info.Size {
			n, err := f.ReadAt(buf[:1<<20], off)
			require.NoError(t, err)
			off += int64(n)
			v.Read(off)
		}
		v.End(off)
		now := cached()
		for i := range now {
			require.True(t, !now[i] || before[i], "window %d was not cached, and is, after a reading from %d", i, start)
		}
		require.True(t, now[1], "what was there has gone, after a reading from %d", start)
	}
}
