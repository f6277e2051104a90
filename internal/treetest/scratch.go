package treetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// MemoryDir makes a directory in memory where there is one for that, and
// removes it in the end, whatever is in it.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() || runtime.GOOS == "windows" { // where Wine finds it
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "sealift-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { Remove(t, dir) })
	return dir
}

// Remove removes a tree, read-only directories and all.
func Remove(t testing.TB, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// Pattern returns size bytes that no other seed gives and that do not repeat
// within a block.
func Pattern(size int, seed byte) []byte {
	b := make([]byte, size)
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}
