//go:build unix

package fsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A read past the page cache that fails has read nothing, so that messages have the right offset.
func TestAFailedReadReadsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) // reads return EBADF
	require.NoError(t, err)
	defer unix.Close(fd)
	f := &File{Object: Object{fd: fd}}
	for _, direct := range []bool{false, true} {
		f.direct.Store(direct)
		n, err := f.ReadAt(make([]byte, DirectAlignment), 0)
		require.ErrorIs(t, err, unix.EBADF)
		require.Zero(t, n)
	}
}
