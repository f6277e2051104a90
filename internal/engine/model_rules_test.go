//go:build linux

package engine_test

import (
	"path"
	"slices"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file is the reference model of a run without interruption. It computes the snapshot after a
// command from the snapshot before it, by the rules of the contract alone.

// A forecast is what a command makes of a snapshot.
type forecast struct {
	after      snapshot
	refused    bool
	conflicts  int
	mismatches int
	// unsure says where the contract leaves the result open. Only the invariants hold then.
	unsure string
	// crossed: the run read a file for one destination, and that caused a comparison at another.
	crossed bool
	// looseConflicts says that a file that does not match the source's manifest may be
	// counted as a conflict or not.
	looseConflicts bool
	// looseMismatches: there are mismatches, and the contract leaves their number open.
	looseMismatches bool
	results         []result // of each destination
}

// A result is what a run does about the manifests of one destination.
type result struct {
	levels    levels
	manifests map[hash.Algorithm]string // the path of each manifest that is at the destination in the end
	dropped   map[hash.Algorithm]int    // lines of the previous manifest that are not in the new one
	itself    map[hash.Algorithm]int    // lines of dropped that list the run's own manifests; the run may leave them out of its count
	adopted   bool                      // the entries of the highest taken level are the manifests
}

func newResult() result {
	return result{
		levels:    levels{chosen: noLevel, highest: noLevel},
		manifests: map[hash.Algorithm]string{}, dropped: map[hash.Algorithm]int{}, itself: map[hash.Algorithm]int{},
	}
}

// doubt notes the first reason why the result is open.
func (f *forecast) doubt(reason string) {
	if f.unsure == "" {
		f.unsure = reason
	}
}

// exitCode returns the exit code for an outcome.
func exitCode(refused bool, mismatches, errors, conflicts int) int {
	switch {
	case refused:
		return 2
	case mismatches > 0:
		return 3
	case errors > 0:
		return 1
	case conflicts > 0:
		return 4
	}
	return 0
}

func (f *forecast) exit() int { return exitCode(f.refused, f.mismatches, 0, f.conflicts) }

// predict says what a command makes of a snapshot.
func predict(before snapshot, c command) *forecast {
	f := &forecast{after: before.clone()}
	for _, p := range before.places[:c.Places] {
		if len(p.tree.leftovers()) > 0 {
			f.doubt("an interrupted run has left something")
		}
	}
	if c.Single != "" {
		predictSingle(f, before, c)
	} else {
		predictTree(f, before, c)
	}
	if f.refused {
		f.after = before.clone()
		f.conflicts, f.mismatches = 0, 0
	}
	return f
}

// A transfer is what happens to one file of the source at one destination.
type transfer struct {
	action action
	differ action // what a difference leads to, for actionCompare
	// skipped: the file is up to date under the policy. Only the manifest needs a comparison.
	skipped bool
	equal   bool // compared and found equal
}

type action byte

const (
	actionNone     action = iota // no regular file at either place, or in a directory that is not copied
	actionWrite                  // created or replaced
	actionKeep                   // up to date, not read
	actionCompare                // the content decides
	actionConflict               // left alone and reported
	actionLeave                  // left alone by policy never
)

// A destModel is the state of one destination in the model of a run.
type destModel struct {
	f      *forecast
	c      command
	expect expectation
	result *result
	source tree
	before place
	now    tree // what the destination becomes
	// previous are the lines of the manifest that an earlier run has left, by hash.
	previous map[hash.Algorithm]lines
	listed   map[hash.Algorithm]lines // what this run lists itself
	transfer map[string]*transfer     // of regular files
	failed   map[string]bool          // files that do not match the source's manifest
	// retired: a listed file was replaced, so the run moved the previous manifests aside. It then
	// writes new files, even with equal content.
	retired bool
	// inherits: the name of the previous manifest is also a name of the source. The new manifest
	// may get the mode of the previous one.
	inherits map[hash.Algorithm]bool
}

// predictTree predicts the copy of a directory.
func predictTree(f *forecast, before snapshot, c command) {
	expect := c.expectations(before.source)
	if len(expect.doubtful) > 0 {
		f.doubt("SPEC does not say whether a manifest of the source is checked")
	}
	var sites []*destModel
	for i, p := range before.places[:c.Places] {
		f.results = append(f.results, newResult())
		f.after.places[i].exists = true
		sites = append(sites, &destModel{
			f: f, c: c, expect: expect, source: before.source, before: p, now: f.after.places[i].tree,
			previous: map[hash.Algorithm]lines{}, listed: map[hash.Algorithm]lines{},
			transfer: map[string]*transfer{}, failed: map[string]bool{}, inherits: map[hash.Algorithm]bool{},
		})
	}
	for i, s := range sites {
		s.result = &f.results[i]
		s.chooseNames()
	}
	if f.refused {
		return
	}
	for _, s := range sites {
		s.openPrevious()
		s.decideAll()
	}
	for _, p := range before.source.paths() {
		if before.source.isFile(p) && !c.excluded(p) {
			copyFile(f, sites, p)
		}
	}
	if c.SourceManifest == engine.SourceManifestStrict && len(c.Hashes) > 0 {
		missing, unsure := expect.absent(c, before.source)
		f.mismatches += len(missing)
		if unsure || expect.malformed {
			f.doubt("strict, and the source's manifest has lines that are neither met nor absent")
		}
	}
	for i, s := range sites {
		s.writeManifests(&f.after.places[i])
	}
}

// chooseNames decides the level of the names and what must be refused.
func (s *destModel) chooseNames() {
	if len(s.c.Hashes) == 0 {
		return
	}
	if !s.c.inside() {
		s.result.levels = levels{highest: noLevel}
		a := s.c.Hashes[0]
		if n := s.before.outside; n.kind != absent && !isOwnForm(a, n) {
			s.f.refused = true
		}
		return
	}
	s.result.levels = s.c.levels(s.source, s.before.tree)
	if unsigned := s.before.tree.unsigned(); s.c.levels(s.source, unsigned).chosen != s.result.levels.chosen {
		s.f.doubt("a signed manifest is at a later level")
	}
	if n := s.before.tree[s.c.Manifest]; s.c.Manifest != "" && n.kind != absent && n.kind != file && s.result.levels.chosen != 0 {
		s.f.doubt("what --manifest names is not a regular file, and the source has the name")
	}
	if dir := path.Dir(s.c.Manifest); s.c.Manifest != "" && dir != "." {
		for _, t := range []tree{s.source, s.before.tree} {
			if t[dir].kind != absent && t[dir].kind != directory {
				s.f.doubt("the directory that --manifest names is no directory")
			}
		}
	}
	for _, a := range s.c.Hashes {
		name := s.c.levelName(s.result.levels.chosen, a)
		if !s.mayReplace(a, name) {
			s.f.refused = true
		}
	}
}

// mayReplace reports whether a manifest of the run may have this name.
func (s *destModel) mayReplace(a hash.Algorithm, name string) bool {
	n := s.before.tree[name]
	return n.kind == absent || isOwnForm(a, n) && !signed(s.before.tree, name)
}

// openPrevious finds the lines of an earlier run, and moves a manifest aside whose name
// the source has now.
func (s *destModel) openPrevious() {
	for _, a := range s.c.Hashes {
		s.listed[a], s.previous[a] = lines{}, lines{}
		if !s.c.inside() {
			continue
		}
		if name := s.c.levelName(s.result.levels.chosen, a); s.before.tree[name].kind != absent {
			s.previous[a] = ownLines(a, s.before.tree[name])
			s.dropItself(a, name)
			continue
		}
		for _, level := range slices.Backward(s.result.levels.taken) {
			name := s.c.levelName(level, a)
			n := s.before.tree[name]
			if !isOwnForm(a, n) {
				continue
			}
			s.previous[a], s.inherits[a] = ownLines(a, n), true
			s.dropItself(a, name)
			switch entry := s.source[name]; {
			case signed(s.before.tree, name):
				s.f.doubt("a signed manifest has a name that the source has")
			case entry.kind == absent:
				s.f.doubt("the source has the name of a manifest in another case")
			case entry.kind == file && entry.data == n.data:
			case s.c.excluded(name):
				s.f.doubt("the filters leave out what has the name of a previous manifest")
			case s.c.Policy == engine.PolicyNever:
				s.f.doubt("policy never, and a previous manifest has a name that the source has")
			default:
				delete(s.now, name)
			}
			break
		}
	}
}

// dropItself removes the line that a previous manifest has for itself, because that is always wrong.
func (s *destModel) dropItself(a hash.Algorithm, name string) {
	if _, listed := s.previous[a][name]; listed {
		delete(s.previous[a], name)
		s.result.dropped[a]++
		s.result.itself[a]++
	}
}

// copyFile predicts the copy of one regular file to all destinations.
func copyFile(f *forecast, sites []*destModel, p string) {
	src := sites[0].source[p]
	read := false
	for _, s := range sites {
		t := s.transfer[p]
		read = read || t != nil && (t.action == actionWrite || t.action == actionCompare)
	}
	if !read {
		for _, s := range sites {
			if t := s.transfer[p]; t != nil && t.action == actionKeep {
				s.settleKept(p)
			}
		}
		return
	}
	for _, s := range sites {
		if t := s.transfer[p]; t != nil && t.action == actionKeep && s.contradicted(p, src.data) {
			t.action, t.differ, t.skipped = actionCompare, actionConflict, true
			f.crossed = true
		}
	}
	if !sites[0].expected(p, src.data) {
		f.mismatches++
		for _, s := range sites {
			s.failed[p] = true
			if t := s.transfer[p]; t != nil && t.action == actionCompare {
				f.looseConflicts = true
			} else if t != nil && t.action == actionKeep {
				n := s.now[p]
				n.mode = anyMode
				s.now[p] = n
			}
		}
		return
	}
	for _, s := range sites {
		if t := s.transfer[p]; t != nil {
			s.settle(p, t)
		}
	}
}

// expected reports whether the source's manifests list what was read, or nothing.
func (s *destModel) expected(p, content string) bool {
	return !slices.ContainsFunc(s.c.Hashes, func(a hash.Algorithm) bool {
		return !s.expect.allows(a, p, digestOf(a, content))
	})
}

// settle ends a transfer of a file that was read.
func (s *destModel) settle(p string, t *transfer) {
	src, have := s.source[p], s.now[p]
	if t.action == actionCompare {
		switch {
		case have.data == src.data:
			t.equal = true
			s.write(p)
			return
		case t.skipped && s.c.Policy != engine.PolicyProtect && s.damaged(p, src.data):
			t.action = actionWrite
		default:
			if t.action = t.differ; t.action == actionConflict {
				s.f.conflicts++
			}
		}
	}
	switch t.action {
	case actionWrite:
		s.write(p)
	case actionKeep:
		s.settleKept(p)
	}
}

// damaged reports whether the previous lines show that the destination's file has changed since it
// was copied, and the source's has not.
func (s *destModel) damaged(p, content string) bool {
	agree, disagree := 0, 0
	for _, a := range s.c.Hashes {
		digest, ok := s.previous[a][p]
		switch {
		case ok && digest == digestOf(a, content):
			agree++
		case ok:
			disagree++
		}
	}
	if agree > 0 && disagree > 0 {
		s.f.doubt("the previous manifests contradict each other")
	}
	return agree > 0 && disagree == 0
}

// retire sets retired if a previous manifest lists the path, which the run is about to write.
func (s *destModel) retire(p string) {
	for _, l := range s.previous {
		if _, listed := l[p]; listed {
			s.retired = true
		}
	}
}

// write copies the source's file to the destination and adds its lines.
func (s *destModel) write(p string) {
	if s.transfer[p].action == actionWrite {
		s.retire(p)
	}
	s.now[p] = s.source[p]
	for _, a := range s.c.Hashes {
		s.listed[a][p] = digestOf(a, s.source[p].data)
	}
}

// settleKept keeps the lines of a file that was not read, and makes its mode the source's.
func (s *destModel) settleKept(p string) {
	n := s.now[p]
	n.mode = s.source[p].mode
	s.now[p] = n
	for _, a := range s.c.Hashes {
		digest := s.previous[a][p]
		s.listed[a][p] = digest
		if s.c.Verify != engine.VerifyOff && digest != digestOf(a, s.now[p].data) {
			s.f.doubt("verify, and a file is not what its kept line says")
		}
	}
}
