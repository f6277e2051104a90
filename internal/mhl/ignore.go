package mhl

import (
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/filter"
)

// defaultIgnore are the patterns of every history.
var defaultIgnore = []string{".DS_Store", Folder, Folder + "/"}

// Ignore is a list of ignore patterns, each a line of gitignore. The zero Ignore has
// none.
type Ignore struct {
	patterns []string
	rules    *filter.List
}

// NewIgnore returns the list of the default patterns and further ones. A malformed pattern
// matches nothing.
func NewIgnore(patterns ...string) *Ignore {
	i := &Ignore{rules: &filter.List{}}
	for _, p := range defaultIgnore {
		i.add(p)
	}
	for _, p := range patterns {
		i.add(p)
	}
	return i
}

func (i *Ignore) add(pattern string) {
	if slices.Contains(i.patterns, pattern) {
		return
	}
	i.patterns = append(i.patterns, pattern)
	if !strings.Contains(pattern, "\n") {
		_ = i.rules.ExcludeFrom(strings.NewReader(pattern)) // a malformed pattern matches nothing
	}
}

// CheckPattern returns an error for a malformed pattern.
func CheckPattern(pattern string) error {
	return (&filter.List{}).ExcludeFrom(strings.NewReader(pattern))
}

// Patterns returns the patterns. The slice must not be changed.
func (i *Ignore) Patterns() []string {
	if i == nil {
		return nil
	}
	return i.patterns
}

// Hides reports whether the patterns match a path or a directory above it.
func (i *Ignore) Hides(path string, isDir bool) bool {
	if i == nil || i.rules == nil {
		return false
	}
	verdict := i.rules.Root()
	for end := 0; end < len(path); end++ { // at a slash
		if n := strings.IndexByte(path[end:], '/'); n >= 0 {
			end += n
		} else {
			end = len(path)
		}
		verdict = i.rules.Match(path[:end], end < len(path) || isDir, verdict)
		if verdict == filter.Excluded {
			return true
		}
	}
	return false
}

// PatternFor returns a pattern that matches one path of a tree. A path with a slash gets "**/"
// in front, because `ascmhl-debug verify` ignores patterns that are relative to the root.
func PatternFor(path string) string {
	var b strings.Builder
	if strings.Contains(path, "/") {
		b.WriteString("**/")
	}
	for i, c := range []byte(path) {
		if strings.IndexByte(`\*?[]`, c) >= 0 || c == ' ' && i == len(path)-1 || i == 0 && (c == '!' || c == '#') && b.Len() == 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
