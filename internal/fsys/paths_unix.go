//go:build unix

package fsys

import (
	"os"
	"runtime"
	"strings"
)

// AbsolutePath makes a user's path absolute. It does not resolve "..", which leaves the target
// of a link if it follows a symbolic link.
func AbsolutePath(path string) (string, error) {
	if strings.HasPrefix(path, "/") {
		return path, nil
	}
	wd, err := os.Getwd()
	return wd + "/" + path, err
}

// SameName compares names of objects that need not exist yet. On macOS most file systems fold
// case; if one does not, an unnecessary refusal costs little.
func SameName(a, b string) bool {
	return a == b || runtime.GOOS == "darwin" && strings.EqualFold(a, b)
}
