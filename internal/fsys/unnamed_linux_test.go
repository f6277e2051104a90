package fsys

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file system without unnamed files does not keep another one of the same tree from
// having them.
func TestUnnamedFilesAreTriedOnEachFileSystem(t *testing.T) {
	path, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	alone, err := OpenRoot(path)
	require.NoError(t, err)
	defer alone.Close()
	if !createsUnnamed(t, alone) {
		t.Skip("the file system of temporary files has no unnamed files")
	}
	top, err := OpenRoot("/")
	require.NoError(t, err)
	defer top.Close()
	proc, err := top.OpenDir("proc")
	if err != nil {
		t.Skipf("/proc: %v", err)
	}
	defer proc.Close()
	_, err = proc.Create(false)
	require.Error(t, err)
	known, err := proc.unnamedFiles()
	require.NoError(t, err)
	require.True(t, known.none.Load(), "/proc has none")
	dir := top
	for name := range strings.SplitSeq(path[1:], "/") {
		dir, err = dir.OpenDir(name)
		require.NoError(t, err)
		defer dir.Close()
	}
	require.True(t, createsUnnamed(t, dir))
}

func createsUnnamed(t *testing.T, d *Dir) bool {
	t.Helper()
	p, err := d.Create(false)
	require.NoError(t, err)
	defer p.Abort()
	return p.Name() == ""
}
