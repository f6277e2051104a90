package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// mergeCase is a copy that is made twice: by one run, and by a plan, its tasks and its merge.
type mergeCase struct {
	*testing.T
	base   string
	source string
	opts   Options       // without destinations
	events []event.Event // of the last step
}

func newMergeCase(t *testing.T, source treetest.Dir) *mergeCase {
	c := &mergeCase{T: t, base: treetest.MemoryDir(t)}
	c.source = filepath.Join(c.base, "src")
	treetest.Create(t, c.source, source)
	c.opts = options(c.source)
	return c
}

// at returns the options with destinations in a directory.
func (c *mergeCase) at(where string, targets []string) *Options {
	o := c.opts
	o.Targets = nil
	for _, t := range targets {
		o.Targets = append(o.Targets, filepath.Join(c.base, where, t))
	}
	c.events = nil
	o.Report = func(e event.Event) { c.events = append(c.events, e) }
	return &o
}

// store opens the plan.
func (c *mergeCase) store() *shard.Store {
	dir, err := fsys.OpenRoot(filepath.Join(c.base, "plan"))
	require.NoError(c, err)
	c.Cleanup(dir.Close)
	s, err := shard.Open(dir)
	require.NoError(c, err)
	return s
}

// plan plans the copy.
func (c *mergeCase) plan(shards int, targets []string) *shard.Store {
	c.Helper()
	plan, err := Plan(c.Context(), c.at("split", targets), PlanOptions{Into: filepath.Join(c.base, "plan"), Shards: shards}, &counters.Set{})
	require.NoError(c, err)
	require.NotNil(c, plan, "%v", c.events)
	return c.store()
}

// task runs a shard as another process would: with the options of the plan.
func (c *mergeCase) task(s *shard.Store, index int, sys *fsys.FS) *Summary {
	c.Helper()
	o, err := OptionsOfPlan(s.Plan)
	require.NoError(c, err)
	o.FS, o.Workers, o.BlockSize, o.Memory = sys, 2, c.opts.BlockSize, c.opts.Memory
	summary, err := RunShard(c.Context(), o, s, index, shard.AttemptOptions{}, &counters.Set{})
	require.NoError(c, err)
	return summary
}

// merge merges the plan, as another process would.
func (c *mergeCase) merge(s *shard.Store) *MergeSummary {
	c.Helper()
	o, err := OptionsOfPlan(s.Plan)
	require.NoError(c, err)
	o.BlockSize, o.Memory = c.opts.BlockSize, c.opts.Memory
	c.events = nil
	o.Report = func(e event.Event) { c.events = append(c.events, e) }
	summary, err := Merge(c.Context(), &MergeOptions{Plan: s, Copy: o}, &counters.Set{})
	require.NoError(c, err)
	return summary
}

// split copies by a plan.
func (c *mergeCase) split(shards int, targets []string) *MergeSummary {
	c.Helper()
	s := c.plan(shards, targets)
	for i := range s.Plan.Shards {
		c.task(s, i, nil)
	}
	m := c.merge(s)
	require.True(c, m.Merged)
	return m
}

// single copies by one run.
func (c *mergeCase) single(targets []string) *Summary {
	c.Helper()
	summary, err := Run(c.Context(), c.at("single", targets), &counters.Set{})
	require.NoError(c, err)
	return summary
}

// requireEqual demands that both copies have the same result: trees, manifests, messages, and the
// counts of the summary.
func (c *mergeCase) requireEqual(targets []string, single *Summary, singleEvents []event.Event, split *Summary) {
	c.Helper()
	for _, t := range targets {
		one, other := filepath.Join(c.base, "single", t), filepath.Join(c.base, "split", t)
		if single.Errors+single.Mismatches > 0 { // so that failed shards can run again
			require.FileExists(c, filepath.Join(other, ".sealift-journal", "plan"))
			require.NoError(c, os.RemoveAll(filepath.Join(other, ".sealift-journal")))
		}
		c.requireEqualMarkers(one, other)
		c.forgetNow(one)
		c.forgetNow(other)
		treetest.Compare(c, one, other, treetest.Options{Root: true})
	}
	shown := func(events []event.Event) (list []string) {
		for _, e := range badOf(events) {
			list = append(list, fmt.Sprintf("%d %s %q: %v", e.Kind, filepath.Base(e.Target), e.Path, e.Err))
		}
		return list
	}
	assert.Equal(c, shown(singleEvents), shown(c.events))
	a, b := *single, *split
	for _, s := range []*Summary{&a, &b} {
		s.Elapsed, s.ReadBack, s.copying, s.Shares, s.Limit = 0, 0, 0, nil, Share{}
		s.Causes = slices.Clone(s.Causes)
		for i := range s.Causes {
			s.Causes[i].Where = filepath.Base(s.Causes[i].Where)
		}
		slices.SortFunc(s.Causes, func(a, b outcomes.Cause) int { return cmp.Compare(a.Name+a.Where, b.Name+b.Where) })
		s.Targets = append([]TargetSummary{}, s.Targets...)
		for i := range s.Targets {
			t := &s.Targets[i]
			t.Path, t.BackupDir, t.Created, t.Flushed, t.ReadBack, t.ReadBytes = "", "", false, 0, 0, 0
			for j := range t.Manifests {
				t.Manifests[j].Path = filepath.Base(t.Manifests[j].Path)
			}
		}
	}
	assert.Equal(c, a, b)
}

// requireEqualMarkers demands that the markers of two destinations list the same, and removes them.
func (c *mergeCase) requireEqualMarkers(dirs ...string) {
	var lists []string
	for _, dir := range dirs {
		marker := filepath.Join(dir, "SEALIFT-INCOMPLETE-src.txt")
		text, err := os.ReadFile(marker)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(c, err)
			require.NoError(c, os.Remove(marker))
		}
		parts := strings.Split(string(text), "\n\n")
		lists = append(lists, parts[len(parts)-1])
	}
	assert.Equal(c, lists[0], lists[1])
}

// forgetNow gives everything below root that has a time of this test the same time.
func (c *mergeCase) forgetNow(root string) {
	require.NoError(c, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || time.Since(info.ModTime()) > time.Hour {
			return err
		}
		stamp := unix.NsecToTimespec(since.UnixNano())
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

// planTree has what is hard for a copy, and is the same each time.
func planTree() treetest.Dir {
	at := treetest.Mtime(before)
	file := func(size int, seed byte) treetest.Node {
		return treetest.File(string(treetest.Pattern(size, seed)), at)
	}
	pair := treetest.Linked("pair")
	wide := treetest.Dir{}
	for i := range 40 {
		wide[fmt.Sprintf("%02d", i)] = file(10*i, byte(i))
	}
	return treetest.Dir{
		"a":            file(100, 1),
		"B":            file(100, 2),
		"new\nline \\": treetest.File("x", at, pair),
		"\xff\xfe":     treetest.File("bytes", treetest.Mode(0o751), at),
		"d": treetest.Directory(treetest.Dir{
			"link": treetest.File("x", at, pair), "big": file(7*sweepBlock+1, 3), "gone": treetest.Symlink("nowhere", at),
			"e": treetest.Directory(treetest.Dir{"deep": treetest.Directory(treetest.Dir{"z": file(0, 4)}, treetest.Mode(0o555), at)}, at),
		}, treetest.Mode(0o2755), at),
		"empty": treetest.Directory(treetest.Dir{"below": treetest.Directory(treetest.Dir{}, treetest.Mode(0o700), at)}, at),
		"wide":  treetest.Directory(wide, at),
	}
}

func TestASplitCopyIsAsOneCopy(t *testing.T) {
	twice := []string{"one", "two"}
	manifest := func(names ...string) treetest.Node {
		text := ""
		for _, name := range names {
			text += sha(string(treetest.Pattern(100, 1))) + "  " + name + "\n"
		}
		return treetest.File(text, treetest.Mtime(before))
	}
	for name, test := range map[string]struct {
		targets []string
		change  func(c *mergeCase)
		source  map[string]treetest.Node // besides planTree
		old     treetest.Dir             // what is at the first destination
		earlier bool                     // an earlier copy of another source has written a manifest there
	}{
		"one destination": {},
		"two destinations and two hashes": {targets: twice, change: func(c *mergeCase) {
			c.opts.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5}
		}},
		"no hash": {change: func(c *mergeCase) { c.opts.Hashes = nil }},
		"an existing destination": {old: treetest.Dir{
			"a":     treetest.File(string(treetest.Pattern(100, 1)), treetest.Mtime(before)),
			"B":     treetest.File("old", treetest.Mtime(longAgo)),
			"other": treetest.File("other"),
			"d":     treetest.Directory(treetest.Dir{"big": treetest.File("newer", treetest.Mtime(since))}, treetest.Mode(0o700)),
			"wide":  treetest.Directory(treetest.Dir{}, treetest.Mtime(before)), // which is up to date
		}},
		"an earlier manifest": {earlier: true},
		"a manifest of others": {old: treetest.Dir{
			"B": treetest.File("old", treetest.Mtime(longAgo)), "b.sha256": treetest.File(sha("old") + "  B\n"),
		}},
		"verify": {targets: twice, change: func(c *mergeCase) { c.opts.Verify = VerifyFull }},
		"filters": {change: func(c *mergeCase) {
			c.opts.Filter = &filter.List{}
			require.NoError(c, c.opts.Filter.Exclude("big"))
			require.NoError(c, c.opts.Filter.Include("d/**"))
			require.NoError(c, c.opts.Filter.Exclude("*"))
		}},
		"a taken name":        {source: map[string]treetest.Node{"SHA256SUMS": treetest.File("x", treetest.Mtime(before)), "MD5SUMS": treetest.File(digestOf(hash.MD5, []byte("x"))+"  a\n", treetest.Mtime(before))}, old: treetest.Dir{"MD5SUMS": treetest.File(digestOf(hash.MD5, []byte("y"))+"  a\n", treetest.Mtime(before))}},
		"a source's manifest": {source: map[string]treetest.Node{"SHA256SUMS": manifest("a")}},
		"a manifest below":    {change: func(c *mergeCase) { c.opts.Manifest = "d/sums" }},
		"absent listed files": {source: map[string]treetest.Node{"SHA256SUMS": manifest("a", "absent", "also/absent")}},
		"a mismatch":          {source: map[string]treetest.Node{"SHA256SUMS": manifest("B", "a")}},
		"absence is allowed":  {source: map[string]treetest.Node{"SHA256SUMS": manifest("a", "absent")}, change: func(c *mergeCase) { c.opts.SourceManifest = SourceManifestPresent }},
		"a link in the way":   {old: treetest.Dir{"d": treetest.Symlink("elsewhere"), "wide": treetest.File("no directory")}},
		"policy always, a link in the way": {old: treetest.Dir{"d": treetest.Symlink("elsewhere")}, change: func(c *mergeCase) {
			c.opts.Policy, c.opts.Preserve = policy.Always, metadata.PreserveTimes
		}},
		"a backup directory": {old: treetest.Dir{"B": treetest.File("old", treetest.Mtime(longAgo))}, change: func(c *mergeCase) {
			c.opts.BackupDir = "kept"
		}},
	} {
		for _, shards := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d shards", name, shards), func(t *testing.T) {
				tree := planTree()
				for path, node := range test.source {
					tree[path] = node
				}
				c := newMergeCase(t, tree)
				targets := test.targets
				if targets == nil {
					targets = []string{"one"}
				}
				for _, where := range []string{"single", "split"} {
					dst := filepath.Join(c.base, where, targets[0])
					if test.old != nil {
						treetest.Create(t, dst, test.old)
					}
					if test.earlier {
						o := options(filepath.Join(c.base, "earlier"), dst)
						if where == "single" {
							treetest.Create(t, o.Source, treetest.Dir{
								"a": treetest.File("replaced", treetest.Mtime(longAgo)), "B": treetest.File(string(treetest.Pattern(100, 2)), treetest.Mtime(before)),
								"other": treetest.File("stays", treetest.Mtime(longAgo)),
							})
						}
						runReported(t, o)
					}
				}
				if test.change != nil {
					test.change(c)
				}
				single := c.single(targets)
				events := c.events
				split := c.split(shards, targets)
				c.requireEqual(targets, single, events, &split.Summary)
			})
		}
	}
}

// A shard with failures runs again, after a first merge that writes a marker. The second merge has
// the result of one copy, also in directories to which the first merge has given another owner.
func TestAFailedShardRunsAgainAfterAMerge(t *testing.T) {
	targets := []string{"one", "two"}
	tree := planTree()
	if os.Geteuid() == 0 {
		his, at := treetest.Owner(1234, 4321), treetest.Mtime(before)
		tree["his"] = treetest.Directory(treetest.Dir{
			"17":    treetest.File("seventeen", his, at),
			"below": treetest.Directory(treetest.Dir{}, his, at),
		}, his, at)
	}
	c := newMergeCase(t, tree)
	single := c.single(targets)
	s := c.plan(4, targets)
	failing := 2
	if _, found := tree["his"]; found {
		failing++
	}
	unreadable := &fsys.FS{Fault: faultfs.OnOp(faultfs.When(func(call fsys.Call) bool {
		return call.Name == "big" || call.Name == "17"
	}, faultfs.Fail(syscall.EACCES)), fsys.OpOpen)}
	for i := range s.Plan.Shards {
		c.task(s, i, unreadable)
	}
	m := c.merge(s)
	require.True(t, m.Merged)
	require.EqualValues(t, failing, m.Summary.Errors)
	again := m.Shards.Failed()
	require.NotEmpty(t, again)
	require.Less(t, len(again), len(s.Plan.Shards))
	for _, target := range targets {
		dst := filepath.Join(c.base, "split", target)
		marker, err := os.ReadFile(filepath.Join(dst, "SEALIFT-INCOMPLETE-src.txt"))
		require.NoError(t, err)
		assert.Contains(t, string(marker), fmt.Sprintf("Missing: %d\n", failing))
		assert.Contains(t, string(marker), "run the failed shards of its plan again")
		lines, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
		require.NoError(t, err)
		assert.NotContains(t, string(lines), "d/big")
	}

	for _, i := range again {
		c.task(s, i, nil)
	}
	m = c.merge(s)
	require.True(t, m.Merged)
	require.Empty(t, badOf(c.events))
	for _, target := range targets {
		one, other := filepath.Join(c.base, "single", target), filepath.Join(c.base, "split", target)
		c.forgetNow(one)
		c.forgetNow(other)
		treetest.Compare(t, one, other, treetest.Options{Root: true})
	}
	assert.Equal(t, single.Total, m.Summary.Total)
}

// A shard that has finished with a failure and a conflict runs again. The conflict is left alone again, although the
// file at the destination has changed since the first attempt.
func TestAConflictStaysWhenTheShardRunsAgain(t *testing.T) {
	c := newMergeCase(t, planTree())
	kept := filepath.Join(c.base, "split", "one", "a")
	write(t, filepath.Dir(kept), "a", []byte("newer"), since)
	s := c.plan(1, []string{"one"})
	unreadable := &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("B", faultfs.Fail(syscall.EACCES)), fsys.OpOpen)}
	for _, sys := range []*fsys.FS{unreadable, unreadable, nil} {
		require.EqualValues(t, 1, c.task(s, 0, sys).Conflicts)
		require.NoError(t, os.Chmod(kept, 0o600))
	}
	m := c.merge(s)
	require.True(t, m.Merged)
	require.EqualValues(t, 1, m.Summary.Conflicts)
	content, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "newer", string(content))
}
