//go:build linux

package engine

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A destination where nothing can be made any more is given up once; one where a
// single file could not be made is not.
func TestADestinationThatFailsEverywhereIsGivenUp(t *testing.T) {
	for name, times := range map[string]int64{"always": 1 << 30, "once": 1} {
		t.Run(name, func(t *testing.T) {
			dir := treetest.MemoryDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			for i := range 50 {
				write(t, src, fmt.Sprint(i), []byte("x"), since)
			}
			var made atomic.Int64
			unhook := hook(t, func(op fsys.Op, _ string) error {
				if op != fsys.OpCreate {
					return nil
				}
				if n := made.Add(1); n > 10 && n <= 10+times {
					return syscall.EIO
				}
				return nil
			})
			o := options(src, dst)
			o.Workers = 1
			out := watched(t, o)
			unhook()
			if name == "always" {
				require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EIO)
				require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
			} else {
				require.NoError(t, out.summary.Targets[0].Lost)
				require.EqualValues(t, 1, out.summary.Errors)
			}
			require.LessOrEqual(t, len(out.bad()), 2, "%v", out.bad()) // and that there is no manifest
		})
	}
}
