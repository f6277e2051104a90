//go:build linux

package pipe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The sizes are on both sides of one block: inline, and through lanes.
func BenchmarkTransfer(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 128 << 10, 128<<10 + 1, 64 << 20} {
		for _, algorithms := range [][]hash.Algorithm{nil, {hash.SHA256}} {
			for _, targets := range []int{1, 2} {
				b.Run(fmt.Sprintf("size=%d/hashes=%d/targets=%d", size, len(algorithms), targets), func(b *testing.B) {
					dir := treetest.MemoryDir(b)
					require.NoError(b, os.WriteFile(filepath.Join(dir, "src"), treetest.Pattern(size, 1), 0o600))
					d := openDir(b, dir)
					src, info, err := d.Open("src")
					require.NoError(b, err)
					defer src.Close()
					r := mover(128<<10, 10, 64<<20, true)
					set := hash.NewSet(algorithms)
					out := sinks(b, d, targets)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						set.Reset()
						if _, err := r.Move(context.Background(), src, info, set, out, MoveOptions{}); err != nil {
							b.Fatal(err)
						}
					}
					for _, s := range out {
						require.NoError(b, s.Err)
						s.File.Abort()
					}
				})
			}
		}
	}
}
