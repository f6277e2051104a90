//go:build linux

package stream

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Zeros are holes where nothing stands, and where something stood.
func TestSparse(t *testing.T) {
	dir := treetest.MemoryDir(t)
	content := slicesOf(treetest.Pattern(300_000, 1), make([]byte, 1<<20), treetest.Pattern(5, 2), make([]byte, 900_001))
	in, out := write(t, filepath.Join(dir, "in"), content), filepath.Join(dir, "out")
	blocks := func() int64 {
		info, err := os.Stat(out)
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	for name, c := range map[string]struct {
		standing int
		keep     bool
		seek     int64
		most     int64 // bytes that may be allocated
	}{
		"new":                {-1, false, 0, 400_000},
		"truncated":          {3 << 20, false, 0, 400_000},
		"in place":           {3 << 20, true, 0, 3<<20 - 1<<20 - 900_001 + 3*4096},
		"partly in place":    {1 << 20, true, 0, 400_000},
		"in place, unevenly": {3 << 20, true, 1001, 3<<20 - 1<<20 - 900_001 + 8*4096},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(out)
			want := make([]byte, c.seek)
			if c.standing >= 0 {
				write(t, out, treetest.Pattern(c.standing, 7))
				copy(want, treetest.Pattern(c.standing, 7))
			}
			want = append(want, content...)
			if c.keep && c.standing > len(want) {
				want = append(want, treetest.Pattern(c.standing, 7)[len(want):]...)
			}
			succeeds(t, stream(t.Context(), in, []string{out}, func(o *Options) {
				o.Sparse, o.NoTruncate, o.Seek = true, c.keep, Amount{N: c.seek, Bytes: true}
			}))
			require.True(t, bytes.Equal(want, read(t, out)))
			require.LessOrEqual(t, blocks(), c.most)
		})
	}
}

// Where holes cannot be made, zeros are written.
func TestSparseWithoutHoles(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in, out := write(t, filepath.Join(dir, "in"), make([]byte, 2<<20)), write(t, filepath.Join(dir, "out"), treetest.Pattern(1<<20, 1))
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpPunch {
			return unix.EOPNOTSUPP
		}
		return nil
	})
	succeeds(t, streamIn(t.Context(), sys, in, []string{out}, func(o *Options) { o.Sparse, o.NoTruncate = true, true }))
	require.True(t, bytes.Equal(make([]byte, 2<<20), read(t, out)))
}
