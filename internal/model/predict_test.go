//go:build linux

package model

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The overwrite policies, by their names on the command line.
const (
	policyDefault  = "default"
	policyProtect  = "protect"
	policyNever    = "never"
	policyUpdate   = "update"
	policyChecksum = "checksum"
	policyAlways   = "always"
)

// A command is one call of `copy`.
type command struct {
	policy         string
	hashes         []int  // indexes of algorithms
	verify         int    // 0: off, 1: dest, 2: full
	backup         string // "" for none
	manifest       string // "" for the usual names
	sourceManifest string // check, present or ignore
	rules          []rule
	dsts           int
	workers        int
	single         string // the file that is copied; "" to copy the tree
}

// A place is a destination.
type place struct {
	exists bool
	tree   tree

	// The rules of the run that wrote a marker of an incomplete copy, by its name. Only a complete run with the same
	// rules, or without any, removes it.
	markers map[string][]rule
}

// A state is everything on disk.
type state struct {
	src  tree
	dsts [2]place
}

func (s state) clone() state {
	s.src = s.src.clone()
	for i := range s.dsts {
		s.dsts[i].tree = s.dsts[i].tree.clone()
	}
	return s
}

// counts are those of the summary for one destination.
type counts struct{ created, replaced, updated, upToDate, kept, conflicts int }

// A forecast is what a command does.
type forecast struct {
	refused    bool
	mismatched map[string]bool // paths that the run must report as mismatches
	counts     [2]counts
	conflicts  [2]map[string]bool
	after      state

	// Size and time call a file up to date, but its content or its line is not that of the source. After an
	// interruption, the next run compares the content of files that the interrupted run has changed or could not
	// read. So it finds more than an uninterrupted run.
	rechecks bool

	// New names and existing ones become one file. If the run cannot read one of these names, the others still
	// get their content, and all are up to date afterwards, or kept by policy never.
	joins bool

	others bool     // a destination has other manifests of Sealift's own
	names  []string // of the manifests at all destinations
}

// exit is the exit code.
func (f *forecast) exit() int {
	switch {
	case f.refused:
		return 2
	case len(f.mismatched) > 0:
		return 3
	case len(f.conflicts[0])+len(f.conflicts[1]) > 0:
		return 4
	}
	return 0
}

// An action is what a run does with an entry at one destination.
type action uint8

const (
	none     action = iota // the entry is not reached, or not committed
	create                 // the name is new
	replace                // the entry gets the source's content
	compare                // size and time are no evidence: the contents decide
	skip                   // up to date by size and time
	upToDate               // compared and equal
	kept                   // left alone by policy never
	conflict
)

// A target is a destination during the prediction.
type target struct {
	before  tree
	after   tree
	names   []string // of the manifests, one for each hash of the command
	old     []lines  // of these manifests
	listed  []string // in a copy of one file: the digests in the manifests beside it, in any form
	actions map[string]action
	read    map[string]bool // the run has read or compared the file

	evidence map[string]bool // the file was compared although size and time say that it is up to date
	linked   map[string]bool // the run creates or replaces a name of the group
	late     map[string]bool // the file is compared only because of that
	primary  map[*node]*node // by the node of the source: the file that names of the group are links of

	blocked []string          // directories that are in conflict: what is below is not reached
	markers map[string][]rule // as in place
	bad     bool              // a file did not match its line when it was read back
}

// blockSize is the size of the buffers of a run.
const blockSize = 4096

// markers are the names of markers of incomplete copies, in the order in which runs choose them.
var markers = func() (names []string) {
	for _, suffix := range []string{"", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"} {
		names = append(names, "SEALIFT-INCOMPLETE-src"+suffix+".txt")
	}
	return names
}()

// A prediction is the state of predict.
type prediction struct {
	command
	dry      bool
	src      tree
	chosen   selection
	expected []map[string][]string // by hash: the digests that manifests of the source list
	targets  []*target
	forecast *forecast

	known          map[*node]bool // the files of the source of which the run has read a digest
	sourceMismatch bool           // the source does not match its manifests: no destination is complete
}

// predict returns what a command does. dry says that it is a dry run: then after is what the run would
// leave, as far as a dry run knows it.
func predict(s state, c command, dry bool) *forecast {
	p := &prediction{command: c, dry: dry, src: s.src, known: map[*node]bool{}, forecast: &forecast{mismatched: map[string]bool{}, after: s.clone()}}
	if c.single != "" {
		p.predictSingle(s)
		return p.forecast
	}
	if p.refuse(s) {
		p.forecast.refused = true
		return p.forecast
	}
	p.chosen = selectEntries(withoutReserved(s.src), c.rules)
	p.expect()
	var entries []string
	groups := map[*node][]string{}
	for _, q := range s.src.paths() {
		if isMarker(q) {
			p.forecast.mismatched[q], p.sourceMismatch = true, true
		}
		if n := s.src[q]; p.chosen[q] && !reserved(q) {
			entries = append(entries, q)
			groups[n] = append(groups[n], q)
			for _, t := range p.targets {
				t.actions[q] = p.decide(t, q, n)
			}
		}
	}
	for _, q := range entries {
		if n := s.src[q]; n.kind == file && groups[n][0] == q {
			p.compareGroup(groups[n], n)
		}
	}
	for i, t := range p.targets {
		for _, names := range groups {
			p.choosePrimary(t, names)
		}
		for _, q := range entries {
			p.apply(i, t, q, s.src[q])
		}
	}
	manifests := make([][]lines, len(p.targets))
	for i, t := range p.targets {
		manifests[i] = p.lines(t)
	}
	if p.verify > 0 && !dry {
		p.readBack(manifests)
	}
	for i, t := range p.targets {
		p.removeOutdated(t, manifests[i])
	}
	for i, t := range p.targets {
		p.writeManifests(t, manifests[i])
		p.forecast.after.dsts[i] = place{exists: true, tree: t.after, markers: t.markers}
	}
	return p.forecast
}

// newTarget adds destination i to the prediction.
func (p *prediction) newTarget(s state, i int) *target {
	t := &target{
		before: s.dsts[i].tree, after: p.forecast.after.dsts[i].tree, actions: map[string]action{}, read: map[string]bool{},
		markers: maps.Clone(s.dsts[i].markers), evidence: map[string]bool{}, linked: map[string]bool{}, late: map[string]bool{}, primary: map[*node]*node{},
	}
	if t.markers == nil {
		t.markers = map[string][]rule{}
	}
	p.forecast.conflicts[i] = map[string]bool{}
	p.targets = append(p.targets, t)
	return t
}

// refuse chooses the names of the manifests; it reports whether there is none.
func (p *prediction) refuse(s state) bool {
	if p.verify > 0 && len(p.hashes) == 0 {
		return true
	}
	for i := range p.dsts {
		t := p.newTarget(s, i)
		for _, h := range p.hashes {
			a, name := algorithms[h], p.manifest
			candidates := a.names[:]
			if name != "" {
				candidates = []string{name}
			}
			at := slices.IndexFunc(candidates, func(n string) bool { return a.free(s.src, n) && a.free(t.before, n) })
			if at < 0 {
				return true
			}
			name = candidates[at]
			l, _ := a.own(t.before, name)
			t.names, t.old = append(t.names, name), append(t.old, l)
			p.forecast.names = append(p.forecast.names, name)
		}
	}
	return false
}

// isSourceManifest reports whether an entry of the source is its own manifest, in whose place the run writes one.
func (p *prediction) isSourceManifest(t *target, q string) bool {
	return slices.Contains(t.names, q)
}

// manifestHash returns the hash of a manifest in the root of a source by its name, or -1.
func manifestHash(name string) int {
	for h, a := range algorithms {
		if slices.Contains(a.names[:], name) || strings.HasSuffix(name, "."+a.name) {
			return h
		}
	}
	return -1
}

// expect collects the digests that manifests of the source list.
func (p *prediction) expect() {
	p.expected = make([]map[string][]string, len(algorithms))
	if p.sourceManifest == "ignore" {
		return
	}
	for name, n := range p.src {
		h := manifestHash(name)
		if h < 0 || path.Dir(name) != "." || n.kind != file || !slices.Contains(p.hashes, h) {
			continue
		}
		l, _, ok := algorithms[h].parse(n.data)
		if !ok {
			continue
		}
		for q, digest := range l {
			if p.expected[h] == nil {
				p.expected[h] = map[string][]string{}
			}
			p.expected[h][q] = append(p.expected[h][q], digest)
			if p.absent(q) && p.sourceManifest == "check" && selectPath(p.rules, q) {
				p.forecast.mismatched[q], p.sourceMismatch = true, true
			}
		}
	}
}

// absent reports whether no file of the source has a name, links followed.
func (p *prediction) absent(q string) bool {
	at, rest, links := ".", strings.Split(q, "/"), 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		n := p.src[next]
		switch rest = rest[1:]; {
		case n == nil:
			return true
		case n.kind == link && links == 40:
			return false // links that lead to each other
		case n.kind == link:
			links++
			rest = append(strings.Split(n.data, "/"), rest...)
		case n.kind == dir:
			at = next
		default:
			return len(rest) > 0 || n.kind != file
		}
	}
	return true
}

// selectPath reports whether the rules include a path that is absent.
func selectPath(rules []rule, q string) bool {
	t := tree{}
	for d := path.Dir(q); d != "."; d = path.Dir(d) {
		t[d] = &node{kind: dir}
	}
	t[q] = &node{kind: file}
	return selectEntries(t, rules)[q]
}

// contradicts reports whether a manifest of the source lists another digest for a file.
func (p *prediction) contradicts(h int, q, digest string) bool {
	return slices.ContainsFunc(p.expected[h][q], func(e string) bool { return e != digest })
}

// apply carries out what was decided.
func (p *prediction) apply(i int, t *target, q string, n *node) {
	c := &p.forecast.counts[i]
	e := t.after[q]
	switch t.actions[q] {
	case none:
		if n.kind == dir && e != nil && e.kind == dir && p.policy == policyNever {
			return
		}
	case create:
		c.created++
		p.put(t, q, n)
	case replace:
		c.replaced++
		p.keepBackup(t, q)
		t.after.remove(q)
		p.put(t, q, n)
	case skip, upToDate:
		switch primary := t.primary[n]; {
		case t.actions[q] == upToDate && primary != nil && t.after[q] != primary:
			c.replaced++
			p.keepBackup(t, q)
			t.after[q] = primary // which gets its metadata under its own name
			return
		case differsInMetadata(t.after[q], n): // the first of several names that are one file
			c.updated++
			p.forecast.rechecks = p.forecast.rechecks || e.data != n.data
		case n.kind != dir:
			c.upToDate++
		}
		t.after[q].mtime, t.after[q].mode = n.mtime, n.mode
	case kept:
		c.kept++
	case conflict:
		c.conflicts++
		p.forecast.conflicts[i][q] = true
	case compare:
		panic("a comparison without a result")
	}
}

// put creates an entry at a destination.
func (p *prediction) put(t *target, q string, n *node) {
	switch {
	case n.kind == file && t.primary[n] != nil:
		t.after[q] = t.primary[n]
	default:
		d := *n
		t.after[q] = &d
		t.primary[n] = &d
	}
	// The kernel sets the time of a directory that the run does not set.
	if up := path.Dir(q); up != "." && p.policy == policyNever && t.before[up] != nil {
		t.after[up].mtime = anyTime
	}
}

// keepBackup keeps an entry that is about to be replaced in the backup directory.
func (p *prediction) keepBackup(t *target, q string) {
	if p.backup == "" {
		return
	}
	// A directory gets a number, too, if another entry was kept under its name.
	at := ""
	parts := strings.Split(p.backup+"/"+q, "/")
	for i, part := range parts {
		free := func(name string) bool {
			e := t.after[name]
			return e == nil || i < len(parts)-1 && e.kind == dir
		}
		name := path.Join(at, part)
		for n := 1; !free(name); n++ {
			name = path.Join(at, part+".~"+strconv.Itoa(n)+"~")
		}
		if d := t.after[at]; d != nil {
			d.mtime = anyTime
		}
		at = name
		if t.after[at] == nil && i < len(parts)-1 {
			t.after[at] = &node{kind: dir, mtime: anyTime}
		}
	}
	t.after[at] = t.after[q]
}

// lines returns the lines of the manifests of a destination.
func (p *prediction) lines(t *target) []lines {
	manifests := make([]lines, len(p.hashes))
	for j, h := range p.hashes {
		l := lines{}
		for q, digest := range t.old[j] {
			a := t.actions[q]
			n, isManifest := t.after[q], slices.Contains(t.names, q) // the manifests of one run do not list each other
			if n != nil && n.kind == file && a != create && a != replace && !isManifest {
				l[q] = digest
			}
		}
		for q := range t.read {
			if t.read[q] && t.after[q].kind == file {
				l[q] = algorithms[h].digest(p.src[q].data)
			}
		}
		manifests[j] = l
	}
	return manifests
}

// writeManifests predicts the manifests and the marker of a destination.
func (p *prediction) writeManifests(t *target, manifests []lines) {
	for j := range p.hashes {
		name := t.names[j]
		text := manifests[j].text()
		old := t.after[name]
		switch {
		case text == "":
			delete(t.after, name)
		case old == nil:
			t.after[name] = &node{kind: file, data: text, mtime: anyTime}
		default:
			t.after[name] = &node{kind: file, data: text, mtime: anyTime, mode: old.mode}
		}
	}
	// Each selection has its own marker. A copy without rules replaces or removes all of them.
	complete, name := !p.sourceMismatch && !t.bad, ""
	for _, marker := range markers {
		of, exists := t.markers[marker]
		ours := exists && (len(p.rules) == 0 || slices.Equal(of, p.rules))
		if ours {
			delete(t.after, marker)
			delete(t.markers, marker)
		}
		if first := name == ""; !complete && (ours && (first || len(p.rules) > 0) || !exists && first) {
			name = marker
		}
	}
	if name != "" {
		t.after[name] = &node{kind: file, anyData: true, mtime: anyTime}
		t.markers[name] = p.rules
	}
}

// removeOutdated removes lines that the run knows to be wrong. Manifests of Sealift's own that are not this run's
// lose those of files that it replaced. All manifests lose those of manifests that it changed. sidecars are the
// manifests of a copy of one file that it changed.
func (p *prediction) removeOutdated(t *target, manifests []lines, sidecars ...string) {
	changed := map[string]bool{}
	for _, name := range sidecars {
		changed[name] = true
	}
	var dirs []string // that have replaced a link, so all names below lead to other files
	for q, a := range t.actions {
		if a == replace {
			changed[q] = true
		}
		if a == replace && p.src[q].kind == dir {
			dirs = append(dirs, q+"/")
		}
	}
	others := map[string]lines{}
	for name := range t.before {
		h, a := manifestHash(name), t.actions[name]
		if h < 0 || strings.Contains(name, "/") || slices.Contains(t.names, name) || p.src[name] != nil && a != conflict && a != kept && a != none {
			continue
		}
		l, ok := algorithms[h].own(t.before, name)
		if !ok || p.src[name] != nil && p.src[name].kind == file && p.src[name].data == t.before[name].data { // it describes the source
			continue
		}
		beside := !slices.Contains(algorithms[h].names[:], name)
		if beside && p.src[name] != nil {
			continue
		}
		if !beside || algorithms[h].matches(t.before, l) {
			others[name] = l
		}
		for q, digest := range l {
			// A repeated run does not know whether the interrupted one created or replaced the file, whether the
			// file had that digest before, and whether there was a file.
			n, e, a := p.src[q], t.before[q], t.actions[q]
			p.forecast.rechecks = p.forecast.rechecks || a == create || e != nil && e.kind != file ||
				a == replace && n.kind == file && digest == algorithms[h].digest(n.data)
		}
	}
	p.forecast.others = p.forecast.others || len(others) > 0
	for before := -1; before < len(changed); { // a manifest can list another one
		before = len(changed)
		for name, l := range others {
			for q := range l {
				if changed[q] || slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(q, d) }) {
					delete(l, q)
					changed[name] = true
				}
			}
		}
		for j, l := range manifests {
			for q := range changed {
				if !t.read[q] {
					delete(l, q)
				}
			}
			if old := t.before[t.names[j]]; old != nil && old.data != l.text() {
				changed[t.names[j]] = true
			}
		}
	}
	for name, l := range others {
		if text := l.text(); text == "" {
			delete(t.after, name)
		} else if text != t.before[name].data {
			t.after[name].data, t.after[name].mtime = text, anyTime
		}
	}
}

// readBack predicts what reading the destinations back finds. A file of the source is read, too, if --verify=full
// says so, or if the file of a destination differs from its line.
func (p *prediction) readBack(manifests [][]lines) {
	verified := func(t *target, q string) bool {
		n, a := t.after[q], t.actions[q]
		return p.src[q].kind == file && n != nil && n.kind == file && a != none && a != kept && a != conflict
	}
	differs := func(i int, q, content string) bool {
		for j, h := range p.hashes {
			if manifests[i][j][q] != algorithms[h].digest(content) {
				return true
			}
		}
		return false
	}
	reread := map[string]bool{}
	for i, t := range p.targets {
		for q := range t.actions {
			reread[q] = reread[q] || p.verify == 2 || verified(t, q) && differs(i, q, t.after[q].data)
		}
	}
	for i, t := range p.targets {
		for q := range t.actions {
			if verified(t, q) && reread[q] {
				p.judgeRead(t, manifests[i], q, differs(i, q, t.after[q].data), differs(i, q, p.src[q].data))
			}
		}
	}
}

// judgeRead predicts what happens to a file at a destination. bad and badSource say that it, or the source,
// differs from its line.
func (p *prediction) judgeRead(t *target, manifests []lines, q string, bad, badSource bool) {
	if bad || badSource {
		p.forecast.mismatched[q] = true
		t.bad = t.bad || bad
		p.sourceMismatch = p.sourceMismatch || !bad
	}
	if !bad || badSource {
		return
	}
	t.after[path.Join(path.Dir(q), ".sealift-bad-"+path.Base(q))] = t.after[q]
	delete(t.after, q)
	if d := t.after[path.Dir(q)]; d != nil {
		d.mtime = anyTime
	}
	for j := range p.hashes {
		delete(manifests[j], q)
	}
}

// reserved reports whether a name of the source is never copied.
func reserved(q string) bool {
	return isMarker(q) || slices.Contains([]string{".sealift-0123456789abcdef.tmp", ".sealift-0123456789abcdef-01234567.tmp"}, path.Base(q))
}

// withoutReserved returns the entries of a tree that can be copied.
func withoutReserved(t tree) tree {
	t = maps.Clone(t)
	maps.DeleteFunc(t, func(q string, _ *node) bool { return reserved(q) })
	return t
}

// isMarker reports whether an entry of the source says that it is an incomplete copy.
func isMarker(q string) bool {
	return strings.HasPrefix(q, "SEALIFT-INCOMPLETE-") && strings.HasSuffix(q, ".txt")
}
