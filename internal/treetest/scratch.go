package treetest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// MemoryDir creates a directory in memory if the system has a file system for that, and
// removes it with its content at the end of the test.
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

// Remove removes a tree, including read-only directories.
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

// Pattern returns size bytes that differ for each seed and do not repeat. It uses a cipher,
// because a loop over the bytes would need seconds for large files under the race detector.
func Pattern(size int, seed byte) []byte {
	key, err := aes.NewCipher(bytes.Repeat([]byte{seed}, aes.BlockSize))
	if err != nil {
		panic(err) // only for a key of the wrong length
	}
	b := make([]byte, size)
	cipher.NewCTR(key, make([]byte, aes.BlockSize)).XORKeyStream(b, b)
	return b
}

// Large reports whether tests use as many files and bytes as users have. SEALIFT_LARGE=1
// asks for it; otherwise they use few, or skip.
func Large() bool { return os.Getenv("SEALIFT_LARGE") == "1" }
