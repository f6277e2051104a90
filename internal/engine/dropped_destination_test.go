package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A destination in which no file can be created any more is dropped and reported once. A
// destination in which one file could not be created is not.
func TestADestinationThatFailsEverywhereIsDropped(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Windows reports a failing disk with another error")
	for name, times := range map[string]int64{"always": 1 << 30, "once": 1} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			for i := range 50 {
				write(t, src, fmt.Sprint(i), []byte("x"), since)
			}
			var made atomic.Int64
			sys := faultfs.New(func(op fsys.Op, _ string) error {
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
			o.FS = sys
			out := watched(t, o)
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

// A server can create a hard link and lose its answer, so that the link exists when it is created
// again. The copy reports nothing and is complete.
func TestAHardLinkThatExistsAlready(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("x"), since)
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "b")))
	sys := faultfs.New(func(op fsys.Op, name string) error {
		other, ours := map[string]string{"a": "b", "b": "a"}[name]
		if op == fsys.OpLink && ours { // or the commit of the first one
			err := os.Link(filepath.Join(dst, other), filepath.Join(dst, name))
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
	o := options(src, dst)
	o.Workers = 1
	o.FS = sys
	out := watched(t, o)
	require.Empty(t, out.bad())
	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
}
