//go:build linux

package engine_test

import (
	"maps"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// newLines returns the lines of the new manifest of a hash, except those for the names in without.
func (s *destModel) newLines(a hash.Algorithm, without []string) lines {
	l := lines{}
	if s.c.inside() {
		for p, digest := range s.previous[a] {
			if s.now.isFile(p) {
				l[p] = digest
			}
		}
	}
	maps.Copy(l, s.listed[a])
	for _, name := range without {
		delete(l, name)
	}
	return l
}

// writeManifests writes what the run lists at one destination.
func (s *destModel) writeManifests(p *place) {
	if len(s.c.Hashes) == 0 {
		return
	}
	if !s.c.inside() {
		s.writeOutside(p)
		return
	}
	if s.adopts() {
		s.result.adopted = true
		s.adopt()
		return
	}
	level := s.result.levels.chosen
	for _, a := range s.c.Hashes {
		s.put(a, s.c.levelName(level, a), s.newLines(a, s.c.levelNames(level)))
	}
}

// writeOutside writes the manifest that is not in the destination.
func (s *destModel) writeOutside(p *place) {
	a := s.c.Hashes[0]
	l := s.newLines(a, nil)
	switch {
	case len(l) == 0 && p.outside.kind != absent:
		s.f.doubt("nothing to list, and a previous manifest outside the destination")
	case len(l) > 0 && l.render() != p.outside.data:
		p.outside = newManifest(p.outside, l)
	}
}

// newManifest is a manifest that replaces another one, or nothing.
func newManifest(previous node, l lines) node {
	n := node{kind: file, data: l.render(), mtime: anyTime, mode: previous.mode}
	if previous.kind == absent {
		n.mode = usualMode
	}
	return n
}

// put writes the manifest of a hash under its name.
func (s *destModel) put(a hash.Algorithm, name string, l lines) {
	have := s.now[name]
	for p := range s.previous[a] {
		if _, ok := l[p]; !ok {
			s.result.dropped[a]++
			if _, isName := s.c.isManifestName(p); isName {
				s.result.itself[a]++
			}
		}
	}
	switch {
	case len(l) == 0 && have.kind == absent:
		return
	case len(l) == 0:
		if have.data == "" {
			s.f.doubt("nothing to list, and an empty file has the manifest's name")
		}
		delete(s.now, name)
		return
	case have.data != l.render():
		s.now.withParents(name)
		s.now[name] = newManifest(have, l)
		if s.inherits[a] {
			n := s.now[name]
			n.mode = anyMode
			s.now[name] = n
		}
	case s.retired:
		have.mtime = anyTime
		s.now[name] = have
	}
	s.result.manifests[a] = name
}

// adopts reports whether the entries of the highest taken level are the manifests of this run. They
// are if each equals what this run would write without lines for the names of that level.
func (s *destModel) adopts() bool {
	level := s.result.levels.highest
	if level == noLevel {
		return false
	}
	open, adopts := false, true
	for _, a := range s.c.Hashes {
		name := s.c.levelName(level, a)
		want := s.newLines(a, s.c.levelNames(level)).render()
		for _, p := range s.c.entriesAt(s.source, level, a) {
			src := s.source[p]
			same := src.kind == file && src.data == want
			switch {
			case !same || s.c.excluded(p) && s.now[p].data != src.data:
				adopts = false
			case s.c.excluded(p):
				open = true
			case p != name, src.data == "", s.now[p].data != src.data && s.transfer[p].action == actionKeep,
				s.transfer[p].action == actionLeave:
				open = true
			case !s.has(p):
				adopts = false
			}
		}
		if len(s.c.entriesAt(s.source, level, a)) > 0 {
			continue
		}
		if !s.mayReplace(a, name) {
			adopts = false
		} else if s.before.tree[name].kind != absent && s.before.tree[s.c.levelName(s.result.levels.chosen, a)].kind != absent {
			open = true // there are two previous manifests, and the run keeps only one
		}
	}
	if adopts && open {
		s.f.doubt("it is open whether the source's entries are the manifests")
	}
	return adopts
}

// has reports whether the destination has the source's file, by this run or before.
func (s *destModel) has(p string) bool {
	t := s.transfer[p]
	return !s.failed[p] && (t.action == actionWrite || t.action == actionKeep || t.equal)
}

// adopt makes the entries of the highest taken level the manifests of the run.
func (s *destModel) adopt() {
	highest, chosen := s.result.levels.highest, s.result.levels.chosen
	for _, a := range s.c.Hashes {
		if name := s.c.levelName(chosen, a); s.now[name].kind != absent {
			s.inherits[a] = true // a manifest that takes over its lines may take over its mode
			delete(s.now, name)
		}
	}
	for _, a := range s.c.Hashes {
		name := s.c.levelName(highest, a)
		if len(s.c.entriesAt(s.source, highest, a)) > 0 {
			s.result.manifests[a] = name
			continue
		}
		s.put(a, name, s.newLines(a, s.c.levelNames(highest)))
	}
}
