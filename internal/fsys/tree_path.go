package fsys

import "strings"

// IsTreePath reports whether path is spelled as a walk of a tree spells the entries below its root:
// relative, without empty, "." and ".." elements, and without NUL.
func IsTreePath(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "", ".", "..":
			return false
		}
	}
	return strings.IndexByte(path, 0) < 0
}
