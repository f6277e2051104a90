package fsys

import (
	"path/filepath"
	"strings"
)

// AbsolutePath makes a user's path absolute: "E:", "E:x" and "\x" are neither
// absolute nor below the working directory. The system itself takes ".." by
// name.
func AbsolutePath(path string) (string, error) { return filepath.Abs(path) }

// SameName compares names of what need not exist yet: file systems fold case.
func SameName(a, b string) bool { return strings.EqualFold(a, b) }
