package fsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// In a chroot without /proc what has a descriptor of its own loses nothing. Of the
// rest, older kernels may refuse what newer ones do.
func TestWithoutProc(t *testing.T) {
	d, path := ownRoot(t)
	d.calls().procFD = "/nowhere/"
	require.NoError(t, os.Symlink("target", filepath.Join(path, "link")))
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
	for _, name := range []string{"link", "fifo"} {
		o, err := d.OpenObject(name)
		require.NoError(t, err)
		defer o.Close()
		refusable := func(err error) {
			t.Helper()
			require.True(t, err == nil || NotPermitted(err), "%v", err)
		}
		if err = o.SetTimes(Time{Sec: 1e9}, Time{Sec: 1e9}, Time{}); err != unix.EINVAL { // Linux before 5.8
			require.NoError(t, err)
			info, err := o.Stat()
			require.NoError(t, err)
			require.Equal(t, Time{Sec: 1e9}, info.Mtime)
		}
		_, err = o.Xattrs(func(string) bool { return true })
		refusable(err)
		refusable(o.SetXattr("security.x", nil))
		refusable(o.RemoveXattr("security.x"))
		if name == "fifo" {
			refusable(o.Chmod(0o640))
		}
	}

	d.caps.noLinkPath.Store(true) // as of Linux before 6.10
	p := begin(t, d, false, "x")
	require.NotEmpty(t, p.Name(), "what has no name could not get one")
	require.NoError(t, p.Commit("f"))
	require.Equal(t, "x", content(t, filepath.Join(path, "f")))
}
