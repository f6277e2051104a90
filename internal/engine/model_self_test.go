//go:build linux

package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// The tests in this file check the model itself: its generators, parsers, rules and judge.

// ideal is the observation of a run that does what the forecast says.
func (f *forecast) ideal(c command) observation {
	o := observation{after: f.after.clone(), refused: f.refused, conflicts: f.conflicts, mismatches: f.mismatches}
	for i, r := range f.results {
		for p, n := range o.after.places[i].tree {
			o.after.places[i].tree[p] = n.real()
		}
		o.after.places[i].outside = o.after.places[i].outside.real()
		o.manifests = append(o.manifests, nil)
		if f.refused {
			continue
		}
		for _, a := range c.Hashes {
			name, n := r.manifests[a], o.after.places[i].tree[r.manifests[a]]
			if !c.inside() {
				name, n = outsideManifest, o.after.places[i].outside
			}
			if n.kind == file && !(r.adopted && f.adoptedEntry(i, c, a)) {
				l := strings.Count(n.data, "\n")
				o.manifests[i] = append(o.manifests[i], reported{name, a, l, digestOf(hash.SHA256, n.data), r.dropped[a]})
			}
		}
	}
	return o
}

// adoptedEntry reports whether the manifest of a hash is an entry of the source.
func (f *forecast) adoptedEntry(i int, c command, a hash.Algorithm) bool {
	return f.after.source[f.results[i].manifests[a]].kind != absent
}

// real replaces values that match everything by those that a file system would give.
func (n node) real() node {
	if n.mtime == anyTime {
		n.mtime = at(9)
	}
	if n.kind == file && n.mode == anyMode {
		n.mode = usualMode
	}
	return n
}

// idealRun is a run in memory that does exactly what the model says.
type idealRun struct {
	before   snapshot
	command  command
	forecast *forecast
	observed observation
	origin   provenance
}

// drawIdeal draws a history of ideal runs, at most steps of them, and returns the last run.
func drawIdeal(t *rapid.T, steps int) (last idealRun) {
	s := drawSnapshot(t)
	origin := newProvenance(len(s.places))
	for range between(t, "steps", 1, steps) {
		for range between(t, "edits", 0, 5) {
			s.edit(t)
		}
		c := drawCommand(t, len(s.places))
		last = idealRun{before: s.clone(), command: c, forecast: predict(s, c), origin: origin}
		origin.learnLines(s)
		last.observed = last.forecast.ideal(c)
		s = last.observed.after.clone()
		origin.learnCopies(s, c)
	}
	return last
}

// judge is the judgement of history.run.
func (i idealRun) judge(o observation) []string {
	return append(invariants(i.before, i.command, o, i.origin), i.forecast.compare(o, i.command)...)
}

// A run that does what the forecast says keeps the invariants: neither contradicts the
// other.
func TestModelAgreesWithItsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		step := drawIdeal(t, 4)
		if step.forecast.unsure != "" {
			t.Skip(step.forecast.unsure)
		}
		require.Empty(t, step.judge(step.observed), "command: %+v\nbefore:\n%safter:\n%s", step.command, step.before, step.observed.after)
	})
}

// An idle repetition changes nothing, unless the first run has given the second something
// to refuse.
func TestModelIsIdempotent(t *testing.T) {
	t.Parallel()
	repeated := 0
	rapid.Check(t, func(t *rapid.T) {
		step := drawIdeal(t, 3)
		if step.forecast.repeatable(step.command) {
			repeated++
			again := predict(step.observed.after, step.command)
			require.Empty(t, again.compare(again.ideal(step.command), step.command))
		}
	})
	require.Positive(t, repeated)
}

// The generator draws each situation of the rules often enough. Otherwise TestModel would prove
// nothing about that rule.
func TestModelHistoriesReachTheRules(t *testing.T) {
	drawSame(t, 500)
	seen := map[string]int{}
	total := 0
	rapid.Check(t, func(t *rapid.T) {
		step := drawIdeal(t, 4)
		total++
		f := step.forecast
		note := func(what string, holds bool) {
			if holds {
				seen[what]++
			}
		}
		note("unsure", f.unsure != "")
		note("refused", f.refused)
		note("conflict", !f.refused && f.conflicts > 0)
		note("mismatch", !f.refused && f.mismatches > 0)
		note("crossed", f.crossed)
		note("single", step.command.Single != "" && !f.refused)
		note("exit 0", f.exit() == 0 && f.unsure == "")
		for i, r := range f.results {
			if f.refused || f.unsure != "" || step.command.Single != "" || !step.command.inside() || len(step.command.Hashes) == 0 {
				continue
			}
			note("taken", r.levels.highest != noLevel)
			note("later level", r.levels.chosen > 0 && !step.command.taken(step.before.source, r.levels.chosen-1))
			note("adopted", r.adopted)
			for _, a := range step.command.Hashes {
				note("dropped", r.dropped[a] > 0)
				name := step.command.levelName(max(r.levels.highest, 0), a)
				old := step.before.places[i].tree[name]
				note("moved aside", r.levels.highest != noLevel && isOwnForm(a, old) && step.before.source[name] != old)
			}
		}
	})
	t.Logf("of %d steps: %v", total, seen)
	if total >= 500 {
		for _, what := range []string{"refused", "conflict", "mismatch", "single", "exit 0", "taken", "later level", "dropped"} {
			require.Positive(t, seen[what], what)
		}
		require.Less(t, seen["unsure"]*4, total, "too many steps are judged by invariants alone")
	}
}

// The parsers read the output of sha256sum and similar programs. Only the exact form that Sealift
// writes counts as Sealift's own.
func TestModelParsers(t *testing.T) {
	t.Parallel()
	l := lines{"a": digestOf(hash.SHA256, "one"), "sub/b": digestOf(hash.SHA256, "two"), `q\`: digestOf(hash.SHA256, "six")}
	got, marked, err := parseOwn(hash.SHA256, l.render())
	require.NoError(t, err)
	require.Zero(t, marked)
	require.Equal(t, l, got)
	require.Equal(t, digestOf(hash.SHA256, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	require.Equal(t, digestOf(hash.MD5, ""), "d41d8cd98f00b204e9800998ecf8427e")

	reference := tree{
		"a": {kind: file, data: "one"}, "b": {kind: file, data: "two"}, "SHA256SUMS": {kind: file}, "sealift.md5": {kind: file},
	}
	own := map[string]bool{"right": true, "wrong": true, "partial": true, "extra": true, "itself": true, "binary": true, "empty": true}
	for _, form := range forms {
		content := manifestOf(form, hash.SHA256, "SHA256SUMS", reference)
		require.Equal(t, own[form], isOwnForm(hash.SHA256, node{kind: file, data: content}), form)
		any := parseAny(hash.SHA256, content)
		switch form {
		case "wrong", "partial", "bare", "text", "empty":
			continue
		}
		require.Equal(t, []string{digestOf(hash.SHA256, "one")}, any.digests["a"], form)
		require.Equal(t, form == "mixed", any.malformed > 0, form)
	}
	require.Contains(t, manifestOf("right", hash.SHA256, "SHA256SUMS", reference), "sealift.md5")
	require.NotContains(t, manifestOf("right", hash.SHA256, "SHA256SUMS", reference), "SHA256SUMS")
	require.Equal(t, digestOf(hash.SHA256, "one"), parseAny(hash.SHA256, manifestOf("bare", hash.SHA256, "a.sha256", reference)).bare)
	for _, bad := range []string{
		strings.TrimSuffix(l.render(), "\n"), strings.ToUpper(l.render()), l.render() + l.render(), "\n", "# comment\n" + l.render(),
		strings.Replace(l.render(), "  a", "  ./a", 1), strings.ReplaceAll(l.render(), "\n", "\r\n"), strings.Replace(l.render(), "  a", " a", 1),
	} {
		require.False(t, isOwnForm(hash.SHA256, node{kind: file, data: bad}), "%q", bad)
	}
}

// The judge reports every change that the test makes to the outcome of a run.
func TestModelJudgeReports(t *testing.T) {
	t.Parallel()
	before := scene(
		tree{"a": text("one", 1), "b": text("two", 1), "SHA256SUMS": text("text\n", 1)},
		tree{"b": text("two", 1), "kept": text("kept", 1), "other": text("other", 1), "MD5SUMS": text("foreign\n", 1),
			"sealift.sha256": sums("kept", "kept", "other", "was")},
	)
	c := command{Hashes: []hash.Algorithm{hash.SHA256}, Places: 1, Workers: 1}
	f := predict(before, c)
	require.Empty(t, f.unsure)
	require.Zero(t, f.exit())
	origin := newProvenance(1)
	origin.learnLines(before)
	origin.learnCopies(f.after, c)
	judge := func(o observation) []string { return append(invariants(before, c, o, origin), f.compare(o, c)...) }
	require.Empty(t, judge(f.ideal(c)))

	const own = "sealift.sha256"
	rewrite := func(o *observation, change func(l lines)) {
		n := o.after.places[0].tree[own]
		l := ownLines(hash.SHA256, n)
		change(l)
		n.data = l.render()
		o.after.places[0].tree[own] = n
		o.manifests[0][0].lines, o.manifests[0][0].sha256 = len(l), digestOf(hash.SHA256, n.data)
	}
	set := func(p string, n node) func(o *observation) {
		return func(o *observation) { o.after.places[0].tree[p] = n }
	}
	for name, change := range map[string]func(o *observation){
		"a digest is another":                          func(o *observation) { rewrite(o, func(l lines) { l["a"] = digestOf(hash.SHA256, "six") }) },
		"a line is lost":                               func(o *observation) { rewrite(o, func(l lines) { delete(l, "a") }) },
		"a kept line is lost":                          func(o *observation) { rewrite(o, func(l lines) { delete(l, "other") }) },
		"a kept line is renewed":                       func(o *observation) { rewrite(o, func(l lines) { l["other"] = digestOf(hash.SHA256, "other") }) },
		"a line of nothing":                            func(o *observation) { rewrite(o, func(l lines) { l["gone"] = digestOf(hash.SHA256, "gone") }) },
		"a line of itself":                             func(o *observation) { rewrite(o, func(l lines) { l[own] = digestOf(hash.SHA256, "itself") }) },
		"the manifest is missing":                      func(o *observation) { o.after.places[0].tree.remove(own) },
		"the summary's lines":                          func(o *observation) { o.manifests[0][0].lines++ },
		"the summary's digest":                         func(o *observation) { o.manifests[0][0].sha256 = digestOf(hash.SHA256, "") },
		"the summary's dropped":                        func(o *observation) { o.manifests[0][0].dropped++ },
		"the summary's path":                           func(o *observation) { o.manifests[0][0].path = "SHA256SUMS" },
		"a file has other content":                     set("a", text("six", 1)),
		"a file has another time":                      set("a", text("one", 2)),
		"a file is missing":                            func(o *observation) { o.after.places[0].tree.remove("a") },
		"a foreign manifest":                           set("MD5SUMS", text("changed\n", 1)),
		"a file of the user":                           set("kept", text("changed", 1)),
		"a new file":                                   set("new", text("new", 1)),
		"a manifest at a free name that is not chosen": set("sealift-2.sha256", sums("a", "one")),
		"the source's manifest is Sealift's":           set("SHA256SUMS", sums("a", "one")),
		"a leftover":                                   set(".sealift-journal", node{kind: directory}),
		"the source":                                   func(o *observation) { o.after.source["a"] = text("one", 2) },
		"the single file":                              func(o *observation) { o.after.single.remove("a") },
		"the destination is gone":                      func(o *observation) { o.after.places[0] = place{tree: tree{}} },
		"a manifest outside":                           func(o *observation) { o.after.places[0].outside = sums() },
		"refused":                                      func(o *observation) { o.refused = true },
		"a conflict":                                   func(o *observation) { o.conflicts++ },
		"a mismatch":                                   func(o *observation) { o.mismatches++ },
		"an error":                                     func(o *observation) { o.errors++ },
		"the mark of binary mode": func(o *observation) {
			n := o.after.places[0].tree[own]
			n.data = strings.ReplaceAll(n.data, "  ", " *")
			o.after.places[0].tree[own] = n
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := f.ideal(c)
			change(&o)
			require.NotEmpty(t, judge(o))
		})
	}
}

// The judge also reports every change that an interrupted run must not make.
func TestModelJudgeOfInterruptions(t *testing.T) {
	t.Parallel()
	before := scene(
		tree{"a": text("one", 3), "b": text("two", 1)},
		tree{"a": text("old", 1), "kept": text("kept", 1), "SHA256SUMS": sums("a", "old", "kept", "kept")},
	)
	c := command{Hashes: []hash.Algorithm{hash.SHA256}, Places: 1, Workers: 1}
	f := predict(before, c)
	set := func(p string, n node) func(s snapshot) { return func(s snapshot) { s.places[0].tree[p] = n } }
	both := func(changes ...func(s snapshot)) func(s snapshot) {
		return func(s snapshot) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	remove := func(p string) func(s snapshot) { return func(s snapshot) { s.places[0].tree.remove(p) } }
	aside := both(remove("SHA256SUMS"), set(asideName("SHA256SUMS"), before.places[0].tree["SHA256SUMS"]))
	for name, change := range map[string]func(s snapshot){
		"nothing is done":             func(snapshot) {},
		"everything is done":          func(s snapshot) { s.places[0].tree = f.ideal(c).after.places[0].tree },
		"the manifest is moved aside": aside,
		"a file is replaced":          both(aside, set("a", text("one", 3)), set(".sealift-journal", node{kind: directory})),
	} {
		t.Run(name, func(t *testing.T) {
			s := before.clone()
			change(s)
			require.Empty(t, afterInterruption(before, c, f, s, true, newProvenance(1)))
		})
	}
	for name, change := range map[string]func(s snapshot){
		"a torn file":                set("a", text("on", 3)),
		"new content, no time":       set("a", text("one", 9)),
		"a file is lost":             remove("a"),
		"a file of the user":         set("kept", text("torn", 1)),
		"a file of the user is lost": remove("kept"),
		"the manifest is lost":       remove("SHA256SUMS"),
		"the manifest is torn":       set("SHA256SUMS", sums()),
		"the source":                 func(s snapshot) { s.source.remove("a") },
	} {
		t.Run(name, func(t *testing.T) {
			s := before.clone()
			change(s)
			require.NotEmpty(t, afterInterruption(before, c, f, s, true, newProvenance(1)))
		})
	}
}

// Trees are read as they were written.
func TestModelTreesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := scene(tree{"sub": {kind: directory}, "sub/a": text("one", 1), "l": {kind: symlink, data: "nowhere", mtime: at(2)}}, tree{})
	s.places[0].outside = sums("a", "one")
	require.NoError(t, s.write(dir, snapshot{}))
	got, err := readSnapshot(dir, 1)
	require.NoError(t, err)
	require.Equal(t, s, got)
	changed := s.clone()
	changed.source["l"] = text("a file now", 3)
	changed.source.remove("sub")
	changed.places[0] = place{tree: tree{}}
	require.NoError(t, changed.write(dir, got))
	again, err := readSnapshot(dir, 1)
	require.NoError(t, err)
	require.Equal(t, changed, again)
	require.Len(t, got.source.diff(changed.source), 3)
}
