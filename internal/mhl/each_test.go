package mhl_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/mhl"
)

// The error of a directory that cannot be listed has its path, quoted as in all messages.
func TestEachReportsTheDirectoryThatCannotBeListed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(base, "a b"), 0o700))
	for n, want := range []string{"input/output error", "'a b': input/output error"} {
		sys := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnIndex(int64(n), faultfs.Fail(syscall.EIO)), fsys.OpList)}
		root, err := sys.OpenRoot(base)
		require.NoError(t, err)
		defer root.Close()
		err = mhl.Each(root, func(string, fsys.Kind) (bool, error) { return true, nil })
		require.EqualError(t, err, want)
	}
}
