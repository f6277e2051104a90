//go:build unix

package fsys_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func TestOpenFile(t *testing.T) {
	var sys *fsys.FS
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("A"), 0o600))
	require.NoError(t, os.Symlink("a", path+".link"))
	f, info, err := sys.OpenFile(path + ".link")
	require.NoError(t, err)
	f.Close()
	require.Equal(t, fsys.Regular, info.Kind)
	_, _, err = sys.OpenFile(path + ".missing")
	require.ErrorIs(t, err, os.ErrNotExist)

	// A shell passes this for <(command): a link whose text is no path.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skipf("without %s: %v", name, err)
	}
	f, info, err = sys.OpenFile(name)
	require.NoError(t, err)
	f.Close()
	require.Equal(t, fsys.Fifo, info.Kind)
}
