package engine

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Each destination has its own account of files and bytes.
func TestSummaryCountsFilesAtEachDestination(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, full, some := filepath.Join(dir, "src"), filepath.Join(dir, "full"), filepath.Join(dir, "some")
	write(t, src, "a", []byte("12345"), since)
	write(t, src, "b", []byte("123"), since)
	write(t, src, "c", []byte("1"), since)
	write(t, some, "a", []byte("12345"), since)
	o := options(src, full, some)
	o.FS = &fsys.FS{Fault: faultfs.When(func(c fsys.Call) bool {
		return c.Op == fsys.OpLink && c.Name == "c" && strings.HasPrefix(c.Path, some)
	}, faultfs.Fail(syscall.EPERM))}
	out := runReported(t, o)
	require.Len(t, out.bad(), 1)
	require.Equal(t, Copied{Files: 3, Bytes: 9}, out.summary.Targets[0].Copied)
	require.Equal(t, Copied{Files: 1, Bytes: 3}, out.summary.Targets[1].Copied)
	require.EqualValues(t, 3, out.summary.Targets[0].Present)
	require.EqualValues(t, 2, out.summary.Targets[1].Present)
}
