//go:build unix

package fsys

import (
	"os"
	"runtime"
	"strings"
)

// AbsolutePath makes a user's path absolute without taking ".." out of it, which
// behind a symbolic link leaves the link's target.
func AbsolutePath(path string) (string, error) {
	if strings.HasPrefix(path, "/") {
		return path, nil
	}
	wd, err := os.Getwd()
	return wd + "/" + path, err
}

// SameName compares names of what need not exist yet. On macOS most file systems
// fold case; on one that does not, a refusal loses little.
func SameName(a, b string) bool {
	return a == b || runtime.GOOS == "darwin" && strings.EqualFold(a, b)
}
