//go:build linux

package engine_test

import (
	"fmt"
	"path"
	"slices"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// An observation is what a run reported and left.
type observation struct {
	after                         snapshot
	refused                       bool
	conflicts, mismatches, errors int
	manifests                     [][]reported // of each destination
	events                        []string     // for a person who reads a failure
}

// reported is a manifest that the summary of a run names.
type reported struct {
	path      string // in the destination; outsideManifest if it is not
	algorithm hash.Algorithm
	lines     int
	sha256    string
	dropped   int // noCount where the summary does not have it
}

const noCount = -1

func (o observation) exit() int { return exitCode(o.refused, o.mismatches, o.errors, o.conflicts) }

// A provenance has every digest that a manifest line may contain. These are the digests that users
// or runs have listed, and those of files that a run copied or found equal.
type provenance []map[hash.Algorithm]map[string]map[string]bool // by place; path → digests

func newProvenance(places int) provenance {
	v := make(provenance, places)
	for i := range v {
		v[i] = map[hash.Algorithm]map[string]map[string]bool{}
		for _, a := range modelHashes {
			v[i][a] = map[string]map[string]bool{}
		}
	}
	return v
}

// modelHashes are those that the histories use.
var modelHashes = []hash.Algorithm{hash.SHA256, hash.MD5}

func (v provenance) add(place int, a hash.Algorithm, p, digest string) {
	if v[place][a][p] == nil {
		v[place][a][p] = map[string]bool{}
	}
	v[place][a][p][digest] = true
}

// learnLines adds the lines of the destinations' manifests that have Sealift's form.
func (v provenance) learnLines(s snapshot) {
	for i, p := range s.places {
		for _, n := range append([]node{p.outside}, p.tree.nodes()...) {
			for _, a := range modelHashes {
				if isOwnForm(a, n) {
					for q, digest := range ownLines(a, n) {
						v.add(i, a, q, digest)
					}
				}
			}
		}
	}
}

// learnCopies adds the digests of files that a run copied or found equal.
func (v provenance) learnCopies(s snapshot, c command) {
	for i, p := range s.places[:c.Places] {
		for q, src := range c.files(s) {
			if p.tree.isFile(q) && p.tree[q].data == src.data {
				for _, a := range modelHashes {
					v.add(i, a, q, digestOf(a, src.data))
				}
			}
		}
	}
}

func (t tree) nodes() (all []node) {
	for _, n := range t {
		all = append(all, n)
	}
	return all
}

// files are the regular files that a command copies, by their path at the destination.
func (c command) files(s snapshot) tree {
	t := tree{}
	if c.Single != "" {
		t[c.name()] = s.single[c.Single]
		return t
	}
	for p, n := range s.source {
		if n.kind == file && !c.excluded(p) {
			t[p] = n
		}
	}
	return t
}

// isTarget reports whether a path is that of an entry or directory that the command copies.
func (c command) isTarget(before snapshot, p string) bool {
	if c.Single != "" {
		return p == c.name()
	}
	return before.source[p].kind != absent && !c.excluded(p)
}

// isManifestName reports whether a path is a name for manifests of a command.
func (c command) isManifestName(p string) (hash.Algorithm, bool) {
	for _, a := range c.Hashes {
		if c.Single != "" {
			if p == c.name()+"."+string(a) {
				return a, true
			}
			continue
		}
		for level := range maxLevel {
			if c.inside() && p == c.levelName(level, a) {
				return a, true
			}
		}
	}
	return "", false
}

// invariants returns the general rules that a run without interruption has broken. It does not use
// the model's forecast.
func invariants(before snapshot, c command, o observation, origin provenance) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, d := range o.after.source.diff(before.source) {
		report("source changed: %s", d)
	}
	for _, d := range o.after.single.diff(before.single) {
		report("single file changed: %s", d)
	}
	for i, p := range o.after.places {
		where := fmt.Sprintf("destination %d: ", i)
		old := before.places[i]
		if o.refused || i >= c.Places {
			if p.exists != old.exists || p.outside != old.outside {
				report("%srefused, and the destination or the manifest outside it changed", where)
			}
			for _, d := range p.tree.visible().diff(old.tree.visible()) {
				report(where+"refused, and changed: %s", d)
			}
			for _, q := range p.tree.leftovers() { // those that were there may be removed
				if old.tree[q].kind == absent {
					report(where+"refused, and left over: %q", q)
				}
			}
			continue
		}
		for _, d := range untouchable(before, c, old, p) {
			report(where+"changed what is not its own: %s", d)
		}
		// Leftovers from before the run may belong to a copy from another source.
		if found := p.tree.leftovers(); o.exit() == 0 && len(found) > 0 && len(old.tree.leftovers()) == 0 {
			report(where+"exit 0, and left over: %q", found)
		}
		if i >= len(o.manifests) {
			continue
		}
		for _, m := range o.manifests[i] {
			for _, d := range falseManifest(c, p, m, o.manifests[i], origin[i]) {
				report(where+"manifest %q: %s", m.path, d)
			}
		}
		if o.exit() == 0 {
			for _, d := range missingAfterSuccess(before, c, i, o, origin) {
				report(where+"exit 0, and %s", d)
			}
		}
	}
	return broken
}

// untouchable returns the changes at a destination that no run may make.
func untouchable(before snapshot, c command, old, now place) (broken []string) {
	was, is := old.tree.visible(), now.tree.visible()
	all := tree{}
	for p := range was {
		all[p] = node{}
	}
	for p := range is {
		all[p] = node{}
	}
	for _, p := range all.paths() {
		if was[p] == is[p] || c.isTarget(before, p) {
			continue
		}
		a, isName := c.isManifestName(p)
		switch {
		case isName && was[p].kind == absent:
		case isName && isOwnForm(a, was[p]) && !signed(old.tree, p):
		case was[p].kind == absent && is[p].kind == directory && p == path.Dir(c.Manifest):
		default:
			broken = append(broken, fmt.Sprintf("%q: was %s, is %s", p, was[p], is[p]))
		}
	}
	if old.outside != now.outside {
		if c.inside() || old.outside.kind != absent && !isOwnForm(c.Hashes[0], old.outside) {
			broken = append(broken, fmt.Sprintf("%s: was %s, is %s", outsideName, old.outside, now.outside))
		}
	}
	return broken
}

// falseManifest describes what is wrong with a manifest that a run reports.
func falseManifest(c command, p place, m reported, all []reported, origin map[hash.Algorithm]map[string]map[string]bool) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	n := p.tree[m.path]
	if m.path == outsideManifest {
		n = p.outside
	}
	if n.kind == absent && m.lines == 0 {
		return nil // the run removed a manifest without lines
	}
	if n.kind != file {
		report("reported, and is %s", n)
		return broken
	}
	if got := digestOf(hash.SHA256, n.data); m.sha256 != "" && got != m.sha256 {
		report("its digest is %s, reported as %s", got, m.sha256)
	}
	if c.Single != "" && !isOwnForm(m.algorithm, n) {
		return broken // the publisher's
	}
	l, marked, err := parseOwn(m.algorithm, n.data)
	if err != nil {
		report("%v", err)
		return broken
	}
	if m.lines != noCount && len(l) != m.lines {
		report("it has %d lines, reported as %d", len(l), m.lines)
	}
	if marked > 0 && c.Single == "" { // beside a single file it stays as it is while it matches
		report("%d lines have the mark of binary mode", marked)
	}
	for q, digest := range l {
		switch {
		case c.Single != "" && q != c.name(): // a line of the user in a manifest that the run did not rewrite
		case slices.ContainsFunc(all, func(m reported) bool { return m.path == q }):
			report("lists the manifest %q", q)
		case !p.tree.isFile(q):
			report("lists %q, which is %s", q, p.tree[q])
		case !origin[m.algorithm][q][digest]:
			report("lists %q with %s, which no run has read and no user has listed", q, digest)
		}
	}
	return broken
}

// missingAfterSuccess returns what a destination lacks after exit 0.
func missingAfterSuccess(before snapshot, c command, i int, o observation, origin provenance) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	p, old := o.after.places[i], before.places[i].tree
	files := c.files(before)
	for _, q := range files.paths() {
		src, have := files[q], p.tree[q]
		skipped := old[q].kind == file && old[q].data == have.data && old[q].mtime == src.mtime && len(old[q].data) == len(src.data) && c.skipsByTime()
		if c.Policy == engine.PolicyNever || skipped && have.kind == file {
			continue
		}
		if _, isName := c.isManifestName(q); isName && have.kind == file {
			continue // judged as a manifest
		}
		if have.kind != file || have.data != src.data {
			report("%q is %s, and not the source's %s", q, have, src)
		}
	}
	for _, a := range c.Hashes {
		l, name := c.manifestOf(before, o, i, a)
		for _, q := range files.paths() {
			_, isName := c.isManifestName(q)
			digest, listed := l[q]
			switch {
			case !p.tree.isFile(q), c.Policy == engine.PolicyNever, isName && (q == name || path.Dir(q) == path.Dir(name)):
			case !listed:
				report("%q is not listed in %q", q, name)
			case digest == digestOf(a, p.tree[q].data), c.inside() && keptLine(a, old, q, digest):
			case len(old.leftovers()) > 0 && origin[i][a][q][digest]: // the digest comes from the journal of an interrupted run
			default:
				report("%q is listed in %q with a digest that is neither its own nor an earlier one", q, name)
			}
		}
	}
	return broken
}

// keptLine reports whether an earlier manifest of the destination lists p with this digest.
func keptLine(a hash.Algorithm, t tree, p, digest string) bool {
	return slices.ContainsFunc(t.nodes(), func(n node) bool {
		return n.kind == file && slices.Contains(parseAny(a, n.data).digests[p], digest)
	})
}

// manifestOf finds the manifest of a hash at a destination: the one that the run has
// reported, or the source's entry that is the manifest.
func (c command) manifestOf(before snapshot, o observation, i int, a hash.Algorithm) (l lines, name string) {
	p := o.after.places[i]
	for _, m := range o.manifests[i] {
		if m.algorithm != a || m.lines == 0 {
			continue
		}
		n := p.tree[m.path]
		if m.path == outsideManifest {
			n = p.outside
		}
		if isOwnForm(a, n) {
			return ownLines(a, n), m.path
		}
		return c.foreignLines(a, n), m.path
	}
	if c.Single != "" {
		name = c.name() + "." + string(a)
		return c.foreignLines(a, p.tree[name]), name
	}
	for level := range maxLevel {
		if q := c.levelName(level, a); before.source.isFile(q) && isOwnForm(a, p.tree[q]) {
			l, name = ownLines(a, p.tree[q]), q
		}
	}
	return l, name
}

// foreignLines are what a publisher's manifest lists for a single file.
func (c command) foreignLines(a hash.Algorithm, n node) lines {
	l, found := lines{}, parseAny(a, n.data)
	for p, digests := range found.digests {
		l[p] = digests[0]
	}
	if l[c.name()] == "" && found.bare != "" {
		l[c.name()] = found.bare
	}
	return l
}

// compare returns the differences between a run's outcome and the forecast.
func (f *forecast) compare(o observation, c command) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if f.unsure != "" {
		return nil
	}
	if o.refused != f.refused {
		report("refused: got %t, want %t", o.refused, f.refused)
		return broken
	}
	if o.errors > 0 {
		report("%d errors", o.errors)
	}
	if o.mismatches != f.mismatches && !(f.looseMismatches && o.mismatches > 0) {
		report("mismatches: got %d, want %d", o.mismatches, f.mismatches)
	}
	if o.conflicts != f.conflicts && !(f.looseConflicts && o.conflicts >= f.conflicts) {
		report("conflicts: got %d, want %d", o.conflicts, f.conflicts)
	}
	if !f.looseConflicts && o.exit() != f.exit() {
		report("exit code: got %d, want %d", o.exit(), f.exit())
	}
	for i := range f.after.places {
		for _, d := range f.differs(i, o.after.places[i]) {
			report("destination %d: %s", i, d)
		}
	}
	for i, r := range f.results {
		if i >= len(o.manifests) {
			continue
		}
		for _, m := range o.manifests[i] {
			if want, ok := r.manifests[m.algorithm]; c.inside() && ok && want != m.path {
				report("destination %d: manifest %q, want %q", i, m.path, want)
			}
			most := r.dropped[m.algorithm]
			least := most - r.itself[m.algorithm]
			if m.dropped != noCount && !r.adopted && c.Single == "" && (m.dropped < least || m.dropped > most) {
				report("destination %d: %q dropped %d lines, want %d to %d", i, m.path, m.dropped, least, most)
			}
		}
	}
	return broken
}

// differs returns the differences between a destination and its forecast.
func (f *forecast) differs(i int, got place) (differences []string) {
	want := f.after.places[i]
	if got.exists != want.exists {
		differences = append(differences, fmt.Sprintf("exists: got %t, want %t", got.exists, want.exists))
	}
	if !got.outside.matches(want.outside) {
		differences = append(differences, fmt.Sprintf("%s: got %s, want %s", outsideName, got.outside, want.outside))
	}
	return append(differences, got.tree.visible().diff(want.tree.visible())...)
}
