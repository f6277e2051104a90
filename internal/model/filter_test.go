//go:build linux

package model

import (
	"path"
	"strings"
)

// A rule is one --include or --exclude.
type rule struct {
	include bool
	pattern string
}

// matches reports whether the rule matches an entry.
func (r rule) matches(p string, isDir bool) bool {
	pattern, dirOnly := strings.CutSuffix(r.pattern, "/")
	if dirOnly && !isDir {
		return false
	}
	if !strings.Contains(pattern, "/") {
		if pattern == "**" {
			pattern = "*"
		}
		ok, err := path.Match(pattern, path.Base(p))
		return ok && err == nil
	}
	return matchParts(strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(p, "/"))
}

func matchParts(pattern, p []string) bool {
	switch {
	case len(pattern) == 0:
		return len(p) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(p) > 0
	case pattern[0] == "**":
		for i := range p {
			if matchParts(pattern[1:], p[i:]) {
				return true
			}
		}
		return false
	case len(p) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], p[0])
	return ok && err == nil && matchParts(pattern[1:], p[1:])
}

// A selection says for each entry of a source whether the rules include it.
type selection map[string]bool

// selectEntries applies rules to a tree. The first rule that matches an entry decides. An
// entry that no rule matches follows its directory. Below a directory that rule k excludes, only the
// rules before k count. An excluded directory is included if an entry below it is.
func selectEntries(t tree, rules []rule) selection {
	s := selection{}
	limit := map[string]int{}     // by directory: how many rules count
	excluded := map[string]bool{} // directories
	limit["."] = len(rules)
	for _, p := range t.paths() {
		isDir := t[p].kind == dir
		up := path.Dir(p)
		n, include := limit[up], !excluded[up]
		for i, r := range rules[:n] {
			if r.matches(p, isDir) {
				include = r.include
				if !include {
					n = i
				}
				break
			}
		}
		if isDir {
			limit[p], excluded[p] = n, !include
		}
		if include {
			for q := p; q != "."; q = path.Dir(q) {
				s[q] = true
			}
		}
	}
	return s
}
