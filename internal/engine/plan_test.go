package engine

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// planCase is a source, destinations, and a place for the plan.
type planCase struct {
	*testing.T
	base, source, target, into string
	opts                       Options
	events                     []event.Event
}

func newPlanCase(t *testing.T, source, target treetest.Dir) *planCase {
	t.Helper()
	base := treetest.MemoryDir(t)
	p := &planCase{T: t, base: base, source: filepath.Join(base, "src"), target: filepath.Join(base, "dst"), into: filepath.Join(base, "plans/1")}
	treetest.Create(t, p.source, source)
	if target != nil {
		treetest.Create(t, p.target, target)
	}
	p.opts = options(p.source, p.target)
	return p
}

// plan runs Plan, with the events kept.
func (p *planCase) plan(ctx context.Context) (*shard.Plan, error) {
	p.events = nil
	p.opts.Report = func(e event.Event) { p.events = append(p.events, e) }
	return Plan(ctx, &p.opts, PlanOptions{Into: p.into, Shards: 3, Sealift: "test"}, &counters.Set{})
}

// planned is plan where it has to succeed without a message. It opens the plan.
func (p *planCase) planned() *shard.Store {
	p.Helper()
	plan, err := p.plan(p.Context())
	require.NoError(p, err)
	require.Empty(p, p.events)
	require.NotNil(p, plan)
	return p.open(p.into)
}

func (p *planCase) open(path string) *shard.Store {
	dir, err := fsys.OpenRoot(path)
	require.NoError(p, err)
	p.Cleanup(dir.Close)
	s, err := shard.Open(dir)
	require.NoError(p, err)
	return s
}

// each calls yield for each line of all lists.
func (p *planCase) each(s *shard.Store, yield func(*shard.Entry)) {
	p.Helper()
	for i := range s.Plan.Shards {
		r, err := s.OpenList(i)
		require.NoError(p, err)
		e, err := r.Next()
		for ; err == nil; e, err = r.Next() {
			yield(e)
		}
		require.ErrorIs(p, err, io.EOF)
		r.Close()
	}
}

// entries returns the entries of all shards.
func (p *planCase) entries(s *shard.Store) map[string]shard.Entry {
	all := map[string]shard.Entry{}
	p.each(s, func(e *shard.Entry) {
		if e.Kind != fsys.Directory && !e.Missing {
			all[e.Path] = *e
		}
	})
	return all
}

// made returns the directories that the lists name.
func (p *planCase) made(s *shard.Store) []string {
	all := map[string]bool{}
	p.each(s, func(e *shard.Entry) {
		if e.Kind == fsys.Directory && !e.Missing {
			all[e.Path] = true
		}
	})
	return keysOf(all)
}

// directories returns the table of directories.
func (p *planCase) directories(s *shard.Store) map[string]shard.Directory {
	all := map[string]shard.Directory{}
	r, err := s.OpenDirs()
	require.NoError(p, err)
	defer r.Close()
	d, err := r.Next()
	for ; err == nil; d, err = r.Next() {
		all[d.Path] = *d
	}
	require.ErrorIs(p, err, io.EOF)
	return all
}

// missing returns the missing paths with their manifests.
func (p *planCase) missing(s *shard.Store) (all []string) {
	p.each(s, func(e *shard.Entry) {
		if e.Missing {
			all = append(all, string(s.Plan.Lists[e.Expected[0].List].Name)+": "+e.Path)
		}
	})
	return all
}

// listing returns all names below a directory.
func (p *planCase) listing(root string) (names []string) {
	require.NoError(p, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); rel != "." {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	}))
	return names
}

func keysOf[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sha256Of(content string) []byte {
	set := hash.NewSet([]hash.Algorithm{hash.SHA256})
	set.Write([]byte(content))
	return set.Digests()[0]
}

func lineOf(content, path string) string {
	return hash.SHA256.Text(sha256Of(content)) + "  " + path + "\n"
}

func TestAPlanHasEveryEntryAndLeavesTheDestinationAlone(t *testing.T) {
	linuxOnly(t, "names are bytes")
	p := newPlanCase(t, treetest.Dir{
		"a\nb": treetest.File("1"), "\xff": treetest.Dir{"x": treetest.File("22", treetest.Linked("g")), "empty": treetest.Dir{}},
		"there": treetest.Dir{"y": treetest.File("22", treetest.Linked("g")), "new": treetest.Dir{"z": treetest.Symlink("../x")}},
		"file":  treetest.Dir{"w": treetest.Fifo()},
		"link":  treetest.Dir{"below": treetest.Dir{"v": treetest.File("")}},
	}, treetest.Dir{"there": treetest.Dir{"old": treetest.File("o")}, "file": treetest.File("f"), "link": treetest.Symlink("there")})
	second := filepath.Join(p.base, "deep/dst2")
	p.opts.Targets = append(p.opts.Targets, second)
	before := p.listing(p.target)
	s := p.planned()
	entries := p.entries(s)
	assert.Equal(t, []string{"a\nb", "file/w", "link/below/v", "there/new/z", "there/y", "\xff/x"}, keysOf(entries))
	assert.Equal(t, []string{"", "file", "link", "link/below", "there", "there/new", "\xff", "\xff/empty"}, p.made(s), "all directories")
	dirs := p.directories(s)
	assert.Equal(t, []string{"", "file", "link", "link/below", "there", "there/new", "\xff", "\xff/empty"}, keysOf(dirs))
	require.Len(t, s.Plan.Targets, 2)
	assert.EqualValues(t, second, s.Plan.Targets[1].Path)
	info, err := os.Stat(p.into)
	require.NoError(t, err)
	assert.EqualValues(t, 0o700, info.Mode().Perm())

	after := slices.DeleteFunc(p.listing(p.target), func(name string) bool { return strings.HasPrefix(name, ".sealift-journal") })
	assert.Equal(t, before, after)
	for _, target := range p.opts.Targets {
		root, err := fsys.OpenRoot(target)
		require.NoError(t, err)
		mark, found, err := resume.ReadPlanMark(root)
		root.Close()
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, resume.PlanMark{ID: s.Plan.ID, Path: p.into}, mark)
	}
}

func TestOnlyTasksOfThePlanWriteToItsDestination(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1")}, nil)
	p.planned()
	for _, dry := range []bool{false, true} {
		o := options(p.source, p.target)
		o.DryRun = dry
		_, err := Run(t.Context(), &o, &counters.Set{})
		var refused *failure.RefusedError
		require.ErrorAs(t, err, &refused, "dry run: %v", dry)
		assert.Contains(t, refused.Error(), "sealift merge "+quoteName(p.into))
	}
	file := options(filepath.Join(p.source, "a"), p.target+"/")
	_, err := Run(t.Context(), &file, &counters.Set{})
	require.NoError(t, err, "a single file has its own journal")

	_, err = p.plan(t.Context())
	require.ErrorContains(t, err, "it contains a plan")
	p.into += "b"
	_, err = p.plan(t.Context())
	require.ErrorContains(t, err, "sealift merge --abandon")
	assert.NoDirExists(t, p.into)
}

func TestFiltersDecideWhenThePlanIsMade(t *testing.T) {
	tree := treetest.Dir{
		"a.mov": treetest.File("1"), "a.tmp": treetest.File("2"), "d": treetest.Dir{"b.mov": treetest.File("3"), "c.tmp": treetest.File("4")},
		"e":          treetest.Dir{"f": treetest.File("5")},
		"g":          treetest.Dir{"h.tmp": treetest.File("6"), "i": treetest.Dir{"j.mov": treetest.File("7")}},
		"k":          treetest.Dir{"l.tmp": treetest.File("8")},
		"SHA256SUMS": treetest.File(lineOf("1", "a.mov") + lineOf("x", "gone.mov") + lineOf("x", "gone.tmp")),
	}
	t.Run("rules", func(t *testing.T) {
		p := newPlanCase(t, tree, nil)
		p.opts.Filter = &filter.List{}
		require.NoError(t, p.opts.Filter.Include("*.mov"))
		require.NoError(t, p.opts.Filter.ExcludeFrom(strings.NewReader("*\n!/e/")))
		s := p.planned()
		entries := p.entries(s)
		assert.Equal(t, []string{"a.mov", "d/b.mov", "g/i/j.mov"}, keysOf(entries))
		dirs := p.directories(s)
		assert.Equal(t, []string{"", "d", "e", "g", "g/i"}, keysOf(dirs), "nothing in k is wanted")
		assert.NotZero(t, dirs["e"].Mtime)
		assert.EqualValues(t, 6, s.Plan.Totals.LeftOut, "a.tmp, d/c.tmp, e/f, g/h.tmp, k/l.tmp, SHA256SUMS")
		assert.Zero(t, dirs["d"].Mtime, "it is implied")
		assert.Equal(t, []string{"SHA256SUMS: gone.mov"}, p.missing(s))
		back, err := OptionsOfPlan(s.Plan)
		require.NoError(t, err)
		assert.Equal(t, p.opts.Filter.Fingerprint(), back.Filter.Fingerprint())
	})
	t.Run("files from", func(t *testing.T) {
		p := newPlanCase(t, tree, nil)
		var err error
		p.opts.Only, err = filter.ReadOnly(strings.NewReader("d\na.tmp\ngone.tmp\n"), false)
		require.NoError(t, err)
		plan, err := p.plan(t.Context())
		require.NoError(t, err)
		assert.Nil(t, plan, "gone.tmp is asked for and does not exist")
		require.Len(t, p.events, 1)
		assert.Equal(t, "gone.tmp", p.events[0].Path)
		p.opts.Only, err = filter.ReadOnly(strings.NewReader("d\na.tmp\n"), false)
		require.NoError(t, err)
		s := p.planned()
		entries := p.entries(s)
		assert.Equal(t, []string{"a.tmp", "d/b.mov", "d/c.tmp"}, keysOf(entries))
		assert.Empty(t, p.missing(s))
	})
}

func TestEntriesHaveWhatTheManifestsOfTheSourceList(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{
		"a": treetest.File("1"), "d": treetest.Dir{"b": treetest.File("2")}, "c": treetest.File("3"), "n": treetest.File("4"),
		"old.sha256": treetest.File(lineOf("1", "./a") + lineOf("x", "gone") + lineOf("x", `d\b`) + lineOf("y", "old.sha256")),
		"c.sha256":   treetest.File(lineOf("z", "c")),
	}, nil)
	p.opts.Hashes = []hash.Algorithm{hash.MD5, hash.SHA256}
	s := p.planned()
	entries := p.entries(s)
	expected := func(path string) (all []string) {
		for _, x := range entries[path].Expected {
			l := s.Plan.Lists[x.List]
			assert.Equal(t, hash.SHA256, l.Hash)
			all = append(all, string(l.Name)+" "+hash.SHA256.Text(x.Digest))
		}
		return all
	}
	assert.Equal(t, []string{"old.sha256 " + hash.SHA256.Text(sha256Of("1"))}, expected("a"))
	assert.Equal(t, []string{"old.sha256 " + hash.SHA256.Text(sha256Of("x"))}, expected("d/b"))
	assert.Equal(t, []string{" " + hash.SHA256.Text(sha256Of("z"))}, expected("c"))
	assert.Empty(t, expected("n"))
	assert.Empty(t, expected("old.sha256"))
	assert.Equal(t, []string{"old.sha256: gone"}, p.missing(s))
}

func TestWithoutChecksNothingIsExpected(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "b.sha256": treetest.File(lineOf("x", "a") + lineOf("x", "gone"))}, nil)
	p.opts.SourceManifest = SourceManifestIgnore
	s := p.planned()
	entries := p.entries(s)
	assert.Empty(t, entries["a"].Expected)
	assert.Empty(t, p.missing(s))
}

func TestPathsOutsideTheSourceAreReportedWhenThePlanIsMade(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "b.sha256": treetest.File(lineOf("x", "../up") + lineOf("x", "/abs"))}, nil)
	p.opts.SourceManifest = SourceManifestPresent
	plan, err := p.plan(t.Context())
	require.NoError(t, err)
	assert.NotNil(t, plan)
	require.Len(t, p.events, 1)
	assert.ErrorContains(t, p.events[0].Err, "lists 2 files that are absent: '../up', '/abs'")

	p = newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "b.sha256": treetest.File(lineOf("x", "../up"))}, nil)
	plan, err = p.plan(t.Context())
	require.NoError(t, err)
	assert.Nil(t, plan)
	require.Len(t, p.events, 1)
	assert.Equal(t, event.Mismatch, p.events[0].Kind)
}

func TestEntriesHaveTheirPreviousLinesAndManifestsMoveAside(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "d": treetest.Dir{"b": treetest.File("2")}}, nil)
	p.opts.Targets = append(p.opts.Targets, filepath.Join(p.base, "dst2"))
	out := runReported(t, p.opts)
	require.False(t, out.anything(), out)
	manifest, err := os.ReadFile(filepath.Join(p.target, "SHA256SUMS"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(p.base, "dst2", "SHA256SUMS")))
	treetest.Create(t, filepath.Join(p.source, "new"), treetest.File("3"))

	s := p.planned()
	entries := p.entries(s)
	assert.Equal(t, []shard.LineDigest{{Target: 0, Hash: 0, Digest: sha256Of("1")}}, entries["a"].Previous)
	assert.Equal(t, []shard.LineDigest{{Target: 0, Hash: 0, Digest: sha256Of("2")}}, entries["d/b"].Previous)
	assert.Empty(t, entries["new"].Previous)
	aside, err := os.ReadFile(filepath.Join(p.target, ".sealift-was-SHA256SUMS"))
	require.NoError(t, err)
	assert.Equal(t, string(manifest), string(aside))
	assert.NoFileExists(t, filepath.Join(p.target, "SHA256SUMS"))
}

func TestLinesOfAManifestThatAKilledCopyLeftAsideAreNotTrusted(t *testing.T) {
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1")}, treetest.Dir{".sealift-was-SHA256SUMS": treetest.File(lineOf("1", "a"))})
	s := p.planned()
	entries := p.entries(s)
	assert.Empty(t, entries["a"].Previous)
}

func TestManifestsOfTheSourceAreInNoShard(t *testing.T) {
	md5 := digestOf(hash.MD5, []byte("1")) + "  a\n"
	p := newPlanCase(t, treetest.Dir{"a": treetest.File("1"), "SHA256SUMS": treetest.File(lineOf("1", "a")), "MD5SUMS": treetest.File(md5),
		"old.sha256": treetest.File(lineOf(lineOf("1", "a"), "SHA256SUMS"))}, treetest.Dir{"MD5SUMS": treetest.File(digestOf(hash.MD5, []byte("other")) + "  a\n")})
	s := p.planned()
	entries := p.entries(s)
	assert.Equal(t, []string{"a", "old.sha256"}, keysOf(entries))
	assert.Empty(t, p.missing(s))
}

var _ record.Interrupted = untouched{}
