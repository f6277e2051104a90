package fsys

import (
	"path/filepath"
	"strings"
)

// AbsolutePath makes a user's path absolute. Paths such as "E:", "E:x" and "\x" are neither
// absolute nor below the working directory. Windows itself resolves ".." by name.
func AbsolutePath(path string) (string, error) { return filepath.Abs(path) }

// SameName compares names of objects that need not exist yet. File systems fold case.
func SameName(a, b string) bool { return strings.EqualFold(a, b) }
