//go:build linux

package engine_test

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// decideAll applies the overwrite policy to all entries. It does not compare content.
func (s *destModel) decideAll() {
	closed := tree{} // directories of which nothing is copied
	for _, p := range s.source.paths() {
		if s.c.excluded(p) || closed.covers(p) {
			continue
		}
		src, have := s.source[p], s.now[p]
		switch src.kind {
		case directory:
			if !s.enter(p, have) {
				closed[p] = node{kind: directory}
			}
		case symlink:
			switch s.decideOther(src, have) {
			case actionWrite, actionKeep:
				s.retire(p)
				s.now[p] = src
			case actionConflict:
				s.f.conflicts++
			}
		case file:
			t := s.decideFile(src, have)
			s.transfer[p] = t
			if t.action == actionConflict {
				s.f.conflicts++
			}
			if t.action == actionKeep && len(s.c.Hashes) > 0 && !s.certified(p) {
				t.action, t.differ, t.skipped = actionCompare, actionConflict, true
			}
		}
	}
}

// covers reports whether p is below an entry of the tree.
func (t tree) covers(p string) bool {
	for q := range t {
		if len(p) > len(q) && p[:len(q)] == q && p[len(q)] == '/' {
			return true
		}
	}
	return false
}

// enter makes a directory. It reports whether its content is copied.
func (s *destModel) enter(p string, have node) bool {
	switch {
	case have.kind == directory:
		return true
	case have.kind == absent, have.kind == symlink && s.c.Policy == engine.PolicyAlways:
		s.now[p] = node{kind: directory}
		return true
	case s.c.Policy != engine.PolicyNever:
		s.f.conflicts++
	}
	return false
}

// decideOther is the overwrite policy for a symbolic link of the source.
func (s *destModel) decideOther(src, have node) action {
	switch {
	case have.kind == absent:
		return actionWrite
	case s.c.Policy == engine.PolicyNever:
		return actionLeave
	case have.kind == directory:
		return actionConflict
	case have.kind != src.kind && (s.c.Policy == engine.PolicyDefault || s.c.Policy == engine.PolicyProtect):
		return actionConflict
	case s.c.Policy == engine.PolicyProtect && have.data != src.data:
		return actionConflict
	case have.kind != src.kind || s.c.Policy != engine.PolicyDefault || have.data == src.data:
		return actionWrite // or up to date, which is the same here
	}
	return newer(src, have)
}

// newer returns a conflict if the destination's entry is newer than the source's.
func newer(src, have node) action {
	if have.mtime > src.mtime {
		return actionConflict
	}
	return actionWrite
}

// decideFile is the overwrite policy for a regular file of the source.
func (s *destModel) decideFile(src, have node) *transfer {
	switch {
	case have.kind == absent:
		return &transfer{action: actionWrite}
	case s.c.Policy == engine.PolicyNever:
		return &transfer{action: actionLeave}
	case have.kind == directory:
		return &transfer{action: actionConflict}
	case have.kind == symlink && (s.c.Policy == engine.PolicyDefault || s.c.Policy == engine.PolicyProtect):
		return &transfer{action: actionConflict}
	case have.kind == symlink:
		return &transfer{action: actionWrite}
	}
	sameSize, sameTime := len(src.data) == len(have.data), src.mtime == have.mtime
	switch {
	case sameSize && sameTime && s.c.skipsByTime():
		return &transfer{action: actionKeep}
	case s.c.Policy == engine.PolicyProtect && sameSize:
		return &transfer{action: actionCompare, differ: actionConflict}
	case s.c.Policy == engine.PolicyProtect:
		return &transfer{action: actionConflict}
	case sameSize && s.c.Policy == engine.PolicyChecksum:
		return &transfer{action: actionCompare, differ: actionWrite}
	case s.c.Policy == engine.PolicyDefault && sameSize:
		return &transfer{action: actionCompare, differ: newer(src, have)}
	case s.c.Policy == engine.PolicyDefault:
		return &transfer{action: newer(src, have)}
	}
	return &transfer{action: actionWrite}
}

// skipsByTime reports whether files of the same size and time are up to date.
func (c command) skipsByTime() bool {
	return c.Policy == engine.PolicyDefault || c.Policy == engine.PolicyProtect || c.Policy == engine.PolicyUpdate
}

// certified reports whether a skipped file has a line of every hash, and none that the
// source's manifests contradict.
func (s *destModel) certified(p string) bool {
	return !slices.ContainsFunc(s.c.Hashes, func(a hash.Algorithm) bool {
		digest, ok := s.previous[a][p]
		return !ok || !s.expect.allows(a, p, digest)
	})
}

// contradicted reports whether a kept line is not the digest that was read.
func (s *destModel) contradicted(p, content string) bool {
	return slices.ContainsFunc(s.c.Hashes, func(a hash.Algorithm) bool {
		return s.previous[a][p] != digestOf(a, content)
	})
}
