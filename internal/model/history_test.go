//go:build linux

package model

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// A history is a list of steps. Each step has edits and a command. An edit that makes no sense in the
// state that it meets has no effect, so a history remains one when parts of it are removed.
type history []step

type step struct {
	edits   []edit
	command command
	kill    int  // the operation at which the first run is killed or hit by a fault; 0 for none
	fault   bool // only that operation fails
	repeat  bool // run the command again
}

// An edit is a change of a user between two runs.
type edit struct {
	what  string
	place int // 0 is the source, 1 and 2 are destinations
	path  string
	to    string // for rename and hardlink
	n     int    // selects content, time or mode
}

func (e edit) String() string {
	where := []string{"src", "dst", "dst2"}[e.place]
	return fmt.Sprintf("%s %s/%q %q %d", e.what, where, e.path, e.to, e.n)
}

func (c command) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "copy --overwrite-policy %s --hash", c.policy)
	for _, h := range c.hashes {
		fmt.Fprintf(&b, " %s", algorithms[h].name)
	}
	if len(c.hashes) == 0 {
		b.WriteString(" none")
	}
	for _, r := range c.rules {
		if r.include {
			fmt.Fprintf(&b, " --include %q", r.pattern)
		} else {
			fmt.Fprintf(&b, " --exclude %q", r.pattern)
		}
	}
	fmt.Fprintf(&b, " verify %d, backup %q, manifest %q, source manifest %s, %d destinations, %d workers, single %q",
		c.verify, c.backup, c.manifest, c.sourceManifest, c.dsts, c.workers, c.single)
	return b.String()
}

func (h history) String() string {
	var b strings.Builder
	for i, s := range h {
		fmt.Fprintf(&b, "step %d:\n", i)
		for _, e := range s.edits {
			fmt.Fprintf(&b, "\t%s\n", e)
		}
		fmt.Fprintf(&b, "\t%s, killed at %d (fault %v), repeated %v\n", s.command, s.kill, s.fault, s.repeat)
	}
	return b.String()
}

var (
	dirPaths  = []string{"d", "d/e", "g"}
	filePaths = []string{
		"a", "b", "a.txt", "-", "n\nl", `b\s`, "d/a", "d/b", "d/e/a", "d-x", "g/a", "g/b.txt", "é", "d", "a/x", "g",
	}
	contents = []string{"", "x", "y", "xx", "yy", "zz", strings.Repeat("long", 3000), strings.Repeat("lonG", 3000)}
	modes    = []uint32{0o644, 0o644, 0o600}
	dirModes = []uint32{0o755, 0o755, 0o700}
)

const second = 1_000_000_000

// times are few, so that they are often equal.
func timeOf(n int) int64 { return int64(n%4) * second }

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// drawHistory draws a history from a seed.
func drawHistory(seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 0x5ea11f7))
	var h history
	for i := range 1 + r.IntN(3) {
		s := step{command: drawCommand(r), repeat: r.IntN(3) == 0}
		if i > 0 && r.IntN(2) == 0 {
			s.command = h[i-1].command
		}
		edits := r.IntN(5)
		if i == 0 {
			edits = 4 + r.IntN(12)
		}
		for range edits {
			s.edits = append(s.edits, drawEdit(r, i == 0))
		}
		if r.IntN(5) == 0 {
			c := &s.command
			c.single, c.verify, c.rules, c.manifest, c.sourceManifest = pick(r, filePaths), 0, nil, "", "check"
			if r.IntN(2) == 0 {
				name := c.single[strings.LastIndexByte(c.single, '/')+1:]
				e := edit{what: pick(r, []string{"sidecar", "sidecar", "wrong sidecar", "bare digest", "wrong bare digest"}), path: name}
				e.to, e.place, e.n = name+"."+pick(r, algorithms).name, 1+r.IntN(2), r.IntN(64)
				s.edits = append(s.edits, e)
			}
		}
		if r.IntN(8) == 0 && s.command.backup == "" { // a file can be kept twice: by each attempt
			s.kill, s.fault = 1+r.IntN(150), r.IntN(3) == 0
		}
		h = append(h, s)
	}
	return h
}

func drawCommand(r *rand.Rand) command {
	c := command{
		policy: pick(r, []string{
			policyDefault, policyDefault, policyDefault, policyProtect, policyNever, policyUpdate, policyChecksum, policyAlways,
		}),
		hashes:         pick(r, [][]int{{0}, {0}, {0}, {1}, {0, 1}, {}}),
		sourceManifest: pick(r, []string{"check", "check", "check", "present", "ignore"}),
		dsts:           pick(r, []int{1, 1, 2}),
		workers:        pick(r, []int{1, 8}),
	}
	if len(c.hashes) > 0 && r.IntN(4) == 0 {
		c.verify = 1 + r.IntN(2)
	}
	if r.IntN(8) == 0 {
		c.backup = "kept"
	}
	if r.IntN(12) == 0 && len(c.hashes) == 1 {
		c.manifest = "list"
	}
	if r.IntN(3) == 0 {
		c.rules = drawRules(r)
	}
	return c
}

var patterns = []string{
	"a", "*.txt", "d/", "/d", "d/**", "d/e/", "/d/a", "**/e/a", "*/", "b*", "g/?", "**/a", "d", "/g/", "[ab]", "e",
}

// drawRules draws rules that the program accepts: the last one excludes.
func drawRules(r *rand.Rand) (rules []rule) {
	for range r.IntN(4) {
		rules = append(rules, rule{r.IntN(2) == 0, pick(r, patterns)})
	}
	rules = append(rules, rule{false, pick(r, append([]string{"*", "**", "*"}, patterns...))})
	for i, a := range rules { // an include after an exclude of its own pattern is refused
		for _, b := range rules[i+1:] {
			if !a.include && b.include && a.pattern == b.pattern {
				return rules[len(rules)-1:]
			}
		}
	}
	return rules
}

func drawEdit(r *rand.Rand, first bool) edit {
	e := edit{place: pick(r, []int{0, 0, 0, 1, 1, 2}), path: pick(r, filePaths), to: pick(r, filePaths), n: r.IntN(64)}
	if first {
		e.what = pick(r, []string{"put", "put", "put", "put", "put", "same", "same", "mkdir", "symlink", "fifo"})
	} else {
		e.what = pick(r, []string{"put", "put", "same", "symlink", "touch", "damage", "damage", "chmod", "delete", "rename", "fifo", "mkdir"})
	}
	if r.IntN(5) == 0 {
		e.what = "hardlink"
	}
	if r.IntN(10) == 0 {
		e.what = pick(r, []string{"stray line", "wrong line", "lose line"})
		e.path = "SHA256SUMS"
		e.place = max(e.place, 1)
	}
	if r.IntN(8) == 0 {
		e.what = pick(r, []string{"list", "list wrongly", "list unsorted", "put", "wrong line"})
		e.path = pick(r, []string{"SHA256SUMS", "SHA256SUMS", "MD5SUMS", "sealift.sha256", "SHA256SUMS.asc", "a.sha256"})
	}
	if r.IntN(12) == 0 {
		e.what, e.place = pick(r, []string{"put", "put", "marker"}), 0
		e.path = pick(r, []string{
			".sealift-0123456789abcdef.tmp", "d/.sealift-0123456789abcdef-01234567.tmp", ".sealift-0.tmp",
			".sealift-bad-1", ".sealift-was-SHA256SUMS", "d/.sealift-journal", "d/SEALIFT-INCOMPLETE-x.txt",
		})
	}
	if r.IntN(12) == 0 {
		e.what, e.path = pick(r, []string{"sidecar", "sidecar", "wrong sidecar", "bare digest"}), pick(r, []string{"a", "b", "a.txt", "d-x"})
		e.to, e.place = e.path+"."+pick(r, algorithms).name, pick(r, []int{0, 1, 1, 1, 2, 2})
	}
	if e.what == "mkdir" {
		e.path = pick(r, dirPaths)
	}
	return e
}

// apply makes the edit.
func (e edit) apply(s *state) {
	t := s.src
	if e.place > 0 {
		d := &s.dsts[e.place-1]
		d.exists = true
		t = d.tree
	}
	if t == nil {
		return
	}
	n := t[e.path]
	parents := func(p string) bool {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if t[d] != nil && t[d].kind != dir {
				return false
			}
		}
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if t[d] == nil {
				t[d] = &node{kind: dir, mtime: timeOf(e.n / 3), mode: 0o755}
			}
		}
		return true
	}
	set := func(p string, n *node) {
		if t[p] != nil && t[p].kind == dir {
			t.remove(p)
		}
		if parents(p) {
			t[p] = n
		}
	}
	a := algorithms[max(manifestHash(e.path), 0)]
	switch e.what {
	case "put":
		set(e.path, &node{kind: file, data: contents[e.n%len(contents)], mtime: timeOf(e.n / 8), mode: modes[e.n%3]})
	case "same": // as in the source
		if m := s.src[e.path]; e.place > 0 && m != nil && m.kind != dir {
			d := *m
			set(e.path, &d)
		}
	case "mkdir":
		if n == nil {
			set(e.path, &node{kind: dir, mtime: timeOf(e.n), mode: dirModes[e.n%3]})
		}
	case "symlink":
		set(e.path, &node{kind: link, data: []string{"a", "nowhere", "d"}[e.n%3], mtime: timeOf(e.n / 3), mode: 0o777})
	case "fifo":
		set(e.path, &node{kind: fifo, mtime: timeOf(e.n), mode: modes[e.n%3]})
	case "touch":
		if n != nil {
			n.mtime = timeOf(e.n)
		}
	case "chmod":
		if n != nil && n.kind == file {
			n.mode = modes[e.n%3]
		} else if n != nil && n.kind == dir {
			n.mode = dirModes[e.n%3]
		}
	case "damage":
		if n != nil && n.kind == file && len(n.data) > 0 {
			n.data = string('#'+byte(e.n%3)) + n.data[1:]
		}
	case "delete":
		t.remove(e.path)
	case "rename":
		if n == nil || t[e.to] != nil || strings.HasPrefix(e.to, e.path+"/") || !parents(e.to) {
			return
		}
		for _, q := range append(t.below(e.path), e.path) {
			t[e.to+strings.TrimPrefix(q, e.path)] = t[q]
			delete(t, q)
		}
	case "hardlink":
		if n != nil && n.kind == file && e.to != e.path && (t[e.to] == nil || t[e.to].kind != dir) && parents(e.to) {
			t[e.to] = n
		}
	case "marker": // the source is a copy that was not completed
		if m := s.dsts[0].tree[markers[0]]; m != nil {
			d := *m
			s.src["SEALIFT-INCOMPLETE-x.txt"] = &d
			d.mtime = timeOf(e.n)
		}
	case "list", "list wrongly", "list unsorted":
		set(e.path, &node{kind: file, data: e.list(a, t), mtime: timeOf(e.n / 3), mode: 0o644})
	case "sidecar", "wrong sidecar", "bare digest", "wrong bare digest":
		a = algorithms[manifestHash(e.to)]
		digest := a.digest("another content")
		if m := s.src[e.path]; n == nil && m != nil && !strings.HasPrefix(e.what, "wrong") {
			digest = a.digest(m.data) // of the publisher
		} else if n != nil && n.kind == file && !strings.HasPrefix(e.what, "wrong") {
			digest = a.digest(n.data)
		}
		text := line(digest, e.path)
		if strings.HasSuffix(e.what, "digest") {
			text = digest + "\n"
		}
		set(e.to, &node{kind: file, data: text, mtime: timeOf(e.n), mode: 0o644})
	case "stray line", "wrong line", "lose line":
		if l, ok := a.own(t, e.path); ok {
			e.changeLine(a, l)
			if len(l) > 0 {
				t[e.path] = &node{kind: file, data: l.text(), mtime: n.mtime, mode: n.mode}
			}
		}
	}
}

// list returns a manifest of the files of a tree.
func (e edit) list(a algorithm, t tree) string {
	l := lines{}
	for q, n := range t {
		isManifest := manifestHash(q) >= 0 && (q == e.path || e.n%3 > 0) // some lists name other manifests
		if n.kind == file && !isManifest && !strings.HasPrefix(path.Base(q), "SHA256SUMS") && !strings.HasPrefix(q, "kept/") {
			l[q] = a.digest(n.data)
		}
	}
	if len(l) == 0 {
		l["a"] = a.digest("")
	}
	switch e.what {
	case "list wrongly":
		e.changeLine(a, l)
	case "list unsorted":
		list := slices.Collect(strings.Lines(l.text()))
		slices.Reverse(list)
		return "# by hand\n" + strings.Join(list, "")
	}
	return l.text()
}

// changeLine changes one line.
func (e edit) changeLine(a algorithm, l lines) {
	names := make([]string, 0, len(l))
	for q := range l {
		names = append(names, q)
	}
	slices.Sort(names)
	q := names[e.n%len(names)]
	switch e.what {
	case "stray line":
		l[e.to] = a.digest(contents[e.n%len(contents)])
	case "lose line":
		delete(l, q)
	default:
		l[q] = a.digest("another content")
	}
}
