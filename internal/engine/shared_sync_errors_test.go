package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The daemon of a file system can report lost data of one file when another is synced, and only
// once. Then the sync of the first file succeeds. A failed sync drops the destination: there is no
// manifest, and the next run finds the lost data.
func TestASyncErrorThatMayBeAboutAnotherFile(t *testing.T) {
	t.Parallel()
	for name, existing := range map[string]bool{"new files": false, "equal files": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := sourceAndDestination(t)
			files := map[string][]byte{}
			for i := range 20 {
				files[fmt.Sprintf("%02d", i)] = treetest.Pattern(5000, byte(i))
			}
			for name, content := range files {
				write(t, src, name, content, since)
				if existing {
					write(t, dst, name, content, since.AddDate(0, 0, 1)) // compared, and synced with its new time
				}
			}
			o := sweepOptions(src, []string{dst}, dest.SyncFile)
			o.sharesSyncErrors = func(*fsys.Dir) bool { return true }
			o.Policy = policy.Checksum
			var met, failed atomic.Bool // the file 10, whose sync fails
			o.FS = faultfs.New(func(op fsys.Op, name string) error {
				met.Store(met.Load() || op == fsys.OpOpen && name == "10")
				if op == fsys.OpSync && met.Load() && failed.CompareAndSwap(false, true) {
					return syscall.EIO
				}
				return nil
			})
			out := watched(t, o)
			require.True(t, failed.Load(), "or this tests nothing")
			require.ErrorIs(t, out.summary.Targets[0].Lost, syscall.EIO, "%s", out)
			require.Len(t, out.bad(), 1, "%s", out)
			require.Contains(t, out.String(), "written data cannot be flushed to the device")
			require.NoFileExists(t, filepath.Join(dst, "SHA256SUMS"))
			lost := filepath.Join(dst, "00")
			info, err := os.Stat(lost)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(lost, make([]byte, 5000), 0o600))
			require.NoError(t, os.Chtimes(lost, info.ModTime(), info.ModTime()))
			o.FS = nil
			requireCopied(t, o, files)
		})
	}
}
