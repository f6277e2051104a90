package fsys

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An output that cannot be read can bypass the page cache, also where the file system does not report
// the alignment that this needs.
func TestDirectOutputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		path := filepath.Join(dir, filepath.Base(t.TempDir())+t.Name())
		s, _, err := (*FS)(nil).OpenOutput(path, nil)
		require.NoError(t, err)
		t.Cleanup(func() { os.Remove(path) })
		defer s.Close()
		if _, err := s.SetDirect(true); err != nil {
			require.ErrorIs(t, err, unix.ENOTSUP) // tmpfs before Linux 6.6
			continue
		}
		want := AlignedBuffer(2 * DirectAlignment)
		copy(want, bytes.Repeat([]byte("direct"), DirectAlignment))
		require.NoError(t, s.WriteAt(want, 0))
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, have))
	}
}
