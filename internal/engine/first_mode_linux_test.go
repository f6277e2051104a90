package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A file without a name is created with its final mode if that gives no user access too early. Only
// the first file of a directory and files whose mode the umask changes need a chmod.
func TestFilesAreCreatedWithTheirFinalMode(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for i := range 8 {
		for _, mode := range []os.FileMode{0o644, 0o444, 0o600, 0o666 | os.ModeSetuid} {
			name := fmt.Sprintf("d/%o-%d", mode.Perm(), i)
			write(t, src, name, []byte("x"), since)
			require.NoError(t, os.Chmod(filepath.Join(src, name), mode))
		}
	}
	var chmods atomic.Int64
	o := options(src, dst)
	o.Workers = 1
	o.FS = faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpChmod {
			chmods.Add(1)
		}
		return nil
	})
	out := runReported(t, o)
	require.Zero(t, out.summary.Errors)
	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
	// The first file, the eight with setuid, the two directories, and finding out whether the
	// file system keeps modes.
	require.LessOrEqual(t, chmods.Load(), int64(1+8+2+2))
}
