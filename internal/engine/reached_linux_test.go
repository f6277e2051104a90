package engine

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A destination that a bind mount shows in the source is refused. One that is mounted there
// after the start is reported and not copied, neither to itself nor to another destination.
func TestADestinationInTheSourceIsNotCopied(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst, other := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "other")
	write(t, src, "a", []byte("a"), since)
	write(t, src, "sub/b", []byte("b"), since)
	write(t, dst, "earlier", []byte("earlier"), since)
	shown := filepath.Join(src, "sub", "shown")
	require.NoError(t, os.Mkdir(shown, 0o700))
	if err := unix.Mount(dst, shown, "", unix.MS_BIND, ""); err != nil {
		t.Skip("nothing can be mounted:", err)
	}
	mounted := true
	unmount := func() {
		require.NoError(t, unix.Unmount(shown, unix.MNT_DETACH))
		mounted = false
	}
	t.Cleanup(func() {
		if mounted {
			unmount()
		}
	})

	for _, dry := range []bool{true, false} {
		o := options(src, dst, other)
		o.DryRun = dry
		_, err := Run(t.Context(), &o, nil)
		require.ErrorContains(t, err, "is a part of the source, which is mounted a second time")
		require.NoDirExists(t, other)

		unmount()
		var once sync.Once
		o.FS = faultfs.New(func(op fsys.Op, name string) error {
			if name == "sub" { // the source is listed
				once.Do(func() {
					require.NoError(t, unix.Mount(dst, shown, "", unix.MS_BIND, ""))
					mounted = true
				})
			}
			return nil
		})
		out := runReported(t, o)
		require.True(t, mounted)
		require.Len(t, out.bad(), 1)
		require.Equal(t, "sub/shown", out.bad()[0].Path)
		require.ErrorIs(t, out.bad()[0].Err, errReached)
		require.EqualValues(t, 3, out.summary.Created)
	}
	for _, target := range []string{dst, other} {
		require.NoDirExists(t, filepath.Join(target, "sub", "shown"))
		require.FileExists(t, filepath.Join(target, "sub", "b"))
	}
	require.NoFileExists(t, filepath.Join(other, "sub", "shown", "earlier"))
}
