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
	rules    *filter.List // rules of the patterns that are not in paths

	// paths are those for which PatternFor has made a pattern, by their last names. There can
	// be thousands, and rules compares a file with every pattern.
	paths map[string][]string
}

// NewIgnore returns the list of the default patterns and further ones. A malformed pattern
// matches nothing.
func NewIgnore(patterns ...string) *Ignore {
	i := &Ignore{rules: &filter.List{}, paths: map[string][]string{}}
	known := map[string]bool{}
	inOrder := false // the last pattern that matches decides
	var rest []string
	for _, p := range slices.Concat(defaultIgnore, patterns) {
		if !known[p] {
			known[p] = true
			i.patterns = append(i.patterns, p)
			inOrder = inOrder || strings.HasPrefix(strings.TrimPrefix(p, "\ufeff"), "!")
		}
	}
	for _, p := range i.patterns {
		if path, ok := pathOf(p); ok && !inOrder {
			name := path[strings.LastIndexByte(path, '/')+1:]
			i.paths[name] = append(i.paths[name], path)
		} else if !strings.Contains(p, "\n") {
			rest = append(rest, strings.TrimPrefix(p, "\ufeff"))
		}
	}
	rest = slices.DeleteFunc(rest, func(p string) bool { return CheckPattern(p) != nil })
	_ = i.rules.ExcludeFrom(strings.NewReader(strings.Join(rest, "\n"))) // each pattern is checked
	return i
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
	for end := 0; end < len(path) && len(i.paths) > 0; end++ { // one round for each slash
		start := end
		if n := strings.IndexByte(path[end:], '/'); n >= 0 {
			end += n
		} else {
			end = len(path)
		}
		for _, listed := range i.paths[path[start:end]] {
			if above, ok := strings.CutSuffix(path[:end], listed); ok && (above == "" || above[len(above)-1] == '/') {
				return true
			}
		}
	}
	return !i.rules.MatchAll(path, isDir).Selected
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

// pathOf returns the path for which PatternFor makes a pattern; not ok if there is none.
func pathOf(pattern string) (path string, ok bool) {
	var b strings.Builder
	rest := strings.TrimPrefix(pattern, "**/")
	for j := 0; j < len(rest); j++ {
		if rest[j] == '\\' && j+1 < len(rest) {
			j++
		}
		b.WriteByte(rest[j])
	}
	path = b.String()
	return path, path != "" && path[len(path)-1] != '/' && PatternFor(path) == pattern
}
