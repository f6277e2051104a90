package filter

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// A rule is one compiled pattern.
type rule struct {
	Rule
	dirOnly bool // true if the pattern ended in a slash
	anyBase bool // true for one segment, matched against the base name at any depth
	segs    []segment
	first   int          // index of the first rule of its file, otherwise of the rule itself
	met     *atomic.Bool // true if it has matched an entry, or can match one in an unsearched directory
}

// compile parses the pattern of a rule; the error quotes it.
func compile(given Rule) (rule, error) {
	r, err := parsePattern(given.Pattern)
	if err != nil {
		return rule{}, fmt.Errorf("pattern %q: %w", given.Pattern, err)
	}
	r.Rule, r.met = given, new(atomic.Bool)
	return r, nil
}

func parsePattern(pattern string) (rule, error) {
	if pattern == "" {
		return rule{}, errors.New("it is empty")
	}
	if strings.IndexByte(pattern, 0) >= 0 {
		return rule{}, errors.New("it holds a NUL byte, which no name can")
	}
	var r rule
	var rest string
	rest, r.dirOnly = strings.CutSuffix(pattern, "/")
	anchored := strings.Contains(rest, "/")
	rest = strings.TrimPrefix(rest, "/")
	if rest == "" {
		return rule{}, errors.New("it names no entry (everything is \"**\")")
	}
	for more := true; more; {
		var seg segment
		var err error
		if seg, rest, more, err = parseSegment(rest); err != nil {
			return rule{}, err
		}
		if seg.kind == anyDepth && len(r.segs) > 0 && r.segs[len(r.segs)-1].kind == anyDepth {
			continue // "**/**" means the same as "**"
		}
		r.segs = append(r.segs, seg)
	}
	switch {
	case !anchored:
		r.anyBase = true
		if r.segs[0].kind == anyDepth {
			r.segs[0].kind = anyName // a lone "**"
		}
	case len(r.segs) == 2 && r.segs[0].kind == anyDepth:
		r.anyBase = true // "**/name" means the same as "name"
		r.segs = r.segs[1:]
	}
	return r, nil
}

// match reports whether the rule matches the entry at path, whose last
// component is base.
func (r *rule) match(path, base string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if r.anyBase {
		return r.segs[0].match(base)
	}
	return r.matchPath(path)
}

// matchesAll reports whether the rule matches every entry.
func (r *rule) matchesAll() bool { return r.anyBase && r.segs[0].kind == anyName && !r.dirOnly }

// matchesBelow reports whether the rule can match an entry below the directory at path; "" is the root.
func (r *rule) matchesBelow(path string) bool {
	start := 0
	for i := range r.segs {
		if r.anyBase || path == "" || start > len(path) || r.segs[i].kind == anyDepth {
			return true
		}
		end := componentEnd(path, start)
		if !r.segs[i].match(path[start:end]) {
			return false
		}
		start = end + 1
	}
	return false
}

// matchPath matches the segments against the components of path. After a mismatch, the last
// "**" matches one more component. Going back to an earlier "**" could not help, because that
// only leaves fewer components for the rest.
func (r *rule) matchPath(path string) bool {
	seg, at := 0, 0            // next segment, start of the next component
	retrySeg, retryAt := -1, 0 // where to continue after the last "**"
	for at <= len(path) {
		if seg < len(r.segs) && r.segs[seg].kind == anyDepth {
			seg++
			if seg == len(r.segs) {
				return true // a component is left for the final "**"
			}
			retrySeg, retryAt = seg, at
			continue
		}
		end := componentEnd(path, at)
		if seg < len(r.segs) && r.segs[seg].match(path[at:end]) {
			seg, at = seg+1, end+1
			continue
		}
		if retrySeg < 0 {
			return false
		}
		retryAt = componentEnd(path, retryAt) + 1
		seg, at = retrySeg, retryAt
	}
	return seg == len(r.segs)
}

// componentEnd returns the index after the component that starts at i.
func componentEnd(path string, i int) int {
	if n := strings.IndexByte(path[i:], '/'); n >= 0 {
		return i + n
	}
	return len(path)
}
