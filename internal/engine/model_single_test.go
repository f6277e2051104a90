//go:build linux

package engine_test

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file is the reference model for the copy of a single file.

// singleSite is one destination of a single file.
type singleSite struct {
	f        *forecast
	c        command
	name     string
	src      node
	before   tree
	now      tree
	transfer *transfer
	sidecars map[hash.Algorithm]sidecar
	result   *result
}

// sidecar is the manifest beside a single file as it was before the run.
type sidecar struct {
	name   string
	exists bool
	own    bool     // Sealift may replace it
	digest []string // what it lists for the file
}

// predictSingle predicts the copy of one file.
func predictSingle(f *forecast, before snapshot, c command) {
	var sites []*singleSite
	for i, p := range before.places[:c.Places] {
		f.results = append(f.results, newResult())
		f.after.places[i].exists = true
		s := &singleSite{
			f: f, c: c, name: c.name(), src: before.single[c.Single], before: p.tree, now: f.after.places[i].tree,
			sidecars: map[hash.Algorithm]sidecar{},
		}
		sites = append(sites, s)
		if c.As != "" && p.tree[c.As].kind == directory {
			f.doubt("the file's name is that of a directory")
		}
		rules := destModel{c: c}
		s.transfer = rules.decideFile(s.src, p.tree[s.name])
		for _, a := range c.Hashes {
			s.openSidecar(a)
		}
	}
	read := false
	for i, s := range sites {
		s.result = &f.results[i]
		if s.transfer.action == actionKeep && slices.ContainsFunc(c.Hashes, func(a hash.Algorithm) bool { return !s.sidecars[a].own }) {
			*s.transfer = transfer{action: actionCompare, differ: actionConflict, skipped: true}
		}
		read = read || s.transfer.action == actionWrite || s.transfer.action == actionCompare
	}
	for _, s := range sites {
		s.resolve(read)
	}
	if f.refused {
		return
	}
	if f.mismatches > 0 && c.Places > 1 {
		f.doubt("a publisher's digest does not match at one of several destinations")
	}
	for _, s := range sites {
		s.commit()
	}
}

// openSidecar reads the manifest beside the file. The run refuses a manifest that it cannot use.
func (s *singleSite) openSidecar(a hash.Algorithm) {
	c := sidecar{name: s.name + "." + string(a)}
	n := s.before[c.name]
	if n.kind != absent {
		l := parseAny(a, n.data)
		c.exists, c.digest = true, l.digests[s.name]
		c.own = isOwnForm(a, n) && !signed(s.before, c.name)
		if len(c.digest) == 0 && l.bare != "" {
			c.digest = []string{l.bare}
		}
		switch {
		case n.kind == file && n.data == "":
			s.f.doubt("an empty manifest beside a single file")
		case n.kind == file && len(c.digest) > 0:
		case s.c.Policy == engine.PolicyNever:
			s.f.doubt("policy never, and what is beside a single file is no manifest of it")
		default:
			s.f.refused = true
		}
	}
	s.sidecars[a] = c
}

// lists reports whether the manifest lists just this digest.
func (c sidecar) lists(digest string) bool {
	return !slices.ContainsFunc(c.digest, func(d string) bool { return d != digest })
}

// resolve decides what happens to the file and whether the run must refuse it.
func (s *singleSite) resolve(read bool) {
	t, have := s.transfer, s.before[s.name]
	agree, disagree, foreign := 0, 0, 0
	for _, a := range s.c.Hashes {
		switch c := s.sidecars[a]; {
		case !c.exists:
		case c.lists(digestOf(a, s.src.data)):
			agree++
		case c.own:
			disagree++
		default:
			disagree++
			foreign++
		}
	}
	if t.action == actionKeep && read && disagree > 0 {
		*t = transfer{action: actionCompare, differ: actionConflict, skipped: true}
		s.f.crossed = true
	}
	if t.action == actionCompare {
		switch {
		case have.data == s.src.data:
			t.equal = true
			if foreign > 0 {
				s.f.doubt("a foreign manifest contradicts two equal files")
			}
			return
		case t.skipped && s.c.Policy == engine.PolicyProtect:
			t.action = actionConflict
		case t.skipped && agree > 0 && disagree > 0:
			s.f.doubt("the previous manifests contradict each other")
		case t.skipped && agree > 0:
			t.action = actionWrite
		default:
			t.action = t.differ
		}
	}
	switch {
	case t.action == actionConflict:
		s.f.conflicts++
	case t.action == actionWrite && have.kind == absent && disagree > 0:
		s.f.mismatches++
		s.f.looseMismatches = true
	case t.action == actionWrite && foreign > 0:
		s.f.refused = true
	case t.action == actionKeep && s.c.Verify != engine.VerifyOff:
		for _, a := range s.c.Hashes {
			if !s.sidecars[a].lists(digestOf(a, have.data)) {
				s.f.doubt("verify, and the file is not what its kept line says")
			}
		}
	}
}

// commit makes the file and its manifests.
func (s *singleSite) commit() {
	if n := s.now[s.name]; s.transfer.action == actionKeep {
		n.mode = s.src.mode
		s.now[s.name] = n
	}
	if s.f.mismatches > 0 || s.transfer.action != actionWrite && !s.transfer.equal {
		return
	}
	s.now[s.name] = s.src
	for _, a := range s.c.Hashes {
		c, digest := s.sidecars[a], digestOf(a, s.src.data)
		s.result.manifests[a] = c.name
		if c.exists && c.lists(digest) {
			if n := s.now[c.name]; c.own && s.transfer.action == actionWrite { // it may have moved aside
				n.mtime = anyTime
				s.now[c.name] = n
			}
			continue
		}
		l := lines{}
		if c.own {
			for p, d := range ownLines(a, s.before[c.name]) {
				if p == c.name {
					s.result.itself[a]++
				} else if s.now.isFile(p) {
					l[p] = d
				} else {
					s.result.dropped[a]++
				}
			}
		}
		l[s.name] = digest
		s.now[c.name] = newManifest(s.before[c.name], l)
	}
}
