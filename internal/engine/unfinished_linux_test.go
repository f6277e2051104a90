package engine

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// Policy "never" does not touch existing directories. One that a failed run has made and not completed is none
// of them: the next run completes it. Here each single operation fails once.
func TestPolicyNeverCompletesDirectoriesOfAFailedRun(t *testing.T) {
	t.Parallel()
	for failing, more := int64(1), true; more; failing++ {
		src, dst := sourceAndDestination(t)
		require.NoError(t, os.MkdirAll(filepath.Join(src, "d"), 0o755))
		require.NoError(t, os.Mkdir(dst, 0o755))
		require.NoError(t, os.Chtimes(filepath.Join(src, "d"), since, since))
		o := options(src, dst)
		o.Policy = policy.Never
		var count atomic.Int64
		o.FS = faultfs.New(func(fsys.Op, string) error {
			if count.Add(1) == failing {
				return syscall.EIO
			}
			return nil
		})
		_, _ = Run(t.Context(), &o, new(counters.Set))
		more = count.Load() >= failing
		o.FS = nil
		s, err := Run(t.Context(), &o, new(counters.Set))
		require.NoError(t, err)
		require.Zero(t, s.Errors)
		info, err := os.Stat(filepath.Join(dst, "d"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755)|os.ModeDir, info.Mode(), "operation %d failed", failing)
		require.Equal(t, since.UnixNano(), info.ModTime().UnixNano(), "operation %d failed", failing)
	}
}
