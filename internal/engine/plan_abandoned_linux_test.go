package engine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// After an abandoned plan, the next copy has the result of one that was never planned.
func TestAnAbandonedPlanDoesNotHinderACopy(t *testing.T) {
	earlier := treetest.Dir{"a": treetest.File("replaced", treetest.Mtime(longAgo)), "stays": treetest.File("stays", treetest.Mtime(longAgo))}
	for name, test := range map[string]struct {
		tasks  int  // that have run
		killed bool // one more was killed
		merge  bool // with failures
	}{"no task": {}, "two tasks": {tasks: 2}, "a killed task": {killed: true}, "a merge with failures": {tasks: 4, merge: true}} {
		t.Run(name, func(t *testing.T) {
			targets := []string{"one"}
			c := newMergeCase(t, planTree())
			for _, where := range []string{"single", "split"} {
				o := options(filepath.Join(c.base, "earlier"), filepath.Join(c.base, where, "one"))
				if where == "single" {
					treetest.Create(t, o.Source, earlier)
				}
				runReported(t, o)
			}
			dst := filepath.Join(c.base, "split", "one")
			before, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
			require.NoError(t, err)
			s := c.plan(4, targets)
			var broken *fsys.FS
			if test.merge {
				broken = &fsys.FS{Fault: faultfs.OnOp(faultfs.OnName("a", faultfs.Fail(syscall.EACCES)), fsys.OpOpen)}
			}
			for i := range test.tasks {
				c.task(s, i, broken)
			}
			if test.merge {
				require.True(t, c.merge(s).Merged)
			}
			if test.killed {
				a, err := s.Begin(t.Context(), 3, shard.AttemptOptions{})
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(filepath.Join(dst, "wide"), 0o700))
				write(t, dst, "wide/.sealift-"+a.TempID()+"-00000000000000000000000000000001.tmp", []byte("part"), since)
				write(t, dst, ".sealift-"+a.TempID()+"-00000000000000000000000000000002.tmp", []byte("part"), since)
				a.Close()
			}
			abandon := func() (*MergeSummary, error) {
				o, err := OptionsOfPlan(s.Plan)
				require.NoError(t, err)
				return Merge(t.Context(), &MergeOptions{Plan: s, Copy: o, Abandon: true}, &counters.Set{})
			}
			m, err := abandon()
			require.NoError(t, err)
			assert.Equal(t, test.killed, m.Removed > 0, "%d", m.Removed)
			require.NoFileExists(t, filepath.Join(dst, ".sealift-journal"))
			if !test.killed && test.tasks == 0 {
				text, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
				require.NoError(t, err)
				assert.Equal(t, before, text, "the previous manifest has its name again")
				names, err := os.ReadDir(dst)
				require.NoError(t, err)
				assert.Len(t, names, 3, "%v", names)
			}
			_, err = abandon()
			require.NoError(t, err, "it was abandoned before")

			single := c.single(targets)
			events := c.events
			after, err := Run(t.Context(), c.at("split", targets), &counters.Set{})
			require.NoError(t, err)
			assert.Equal(t, len(badOf(events)), len(badOf(c.events)), "%v", c.events)
			assert.Equal(t, single.Total, after.Total)
			one := filepath.Join(c.base, "single", "one")
			c.forgetNow(one)
			c.forgetNow(dst)
			treetest.Compare(t, one, dst, treetest.Options{Root: true})
		})
	}
}

// A destination that is lost does not keep the others closed to other copies when the plan is
// abandoned.
func TestALostDestinationDoesNotKeepAPlan(t *testing.T) {
	targets := []string{"one", "two", "three"}
	c := newMergeCase(t, planTree())
	s := c.plan(2, targets)
	abandon := func() error {
		o, err := OptionsOfPlan(s.Plan)
		require.NoError(t, err)
		_, err = Merge(t.Context(), &MergeOptions{Plan: s, Copy: o, Abandon: true}, &counters.Set{})
		return err
	}
	at := func(name string) string { return filepath.Join(c.base, "split", name) }
	for _, name := range targets {
		require.NoError(t, os.Rename(at(name), at(name+" away")))
	}
	require.Error(t, abandon())
	for _, name := range targets[1:] {
		require.NoError(t, os.Rename(at(name+" away"), at(name)))
	}
	lost := at("one")
	for range 2 {
		err := abandon()
		require.ErrorContains(t, err, lost)
		for _, open := range []string{"two", "three"} {
			require.NoDirExists(t, filepath.Join(at(open), ".sealift-journal"))
		}
	}
	_, err := Run(t.Context(), c.at("split", targets[1:]), &counters.Set{})
	require.NoError(t, err)
}

// No task and no merge of an abandoned plan begins: other copies may use the destination then.
func TestNothingBeginsInAnAbandonedPlan(t *testing.T) {
	c := newMergeCase(t, planTree())
	s := c.plan(1, []string{"one"})
	o, err := OptionsOfPlan(s.Plan)
	require.NoError(t, err)
	_, err = Merge(t.Context(), &MergeOptions{Plan: c.store(), Copy: o, Abandon: true}, &counters.Set{})
	require.NoError(t, err)
	_, err = RunShard(t.Context(), o, s, 0, shard.AttemptOptions{}, &counters.Set{})
	require.ErrorContains(t, err, "the plan was abandoned")
	entries, err := os.ReadDir(filepath.Join(c.base, "split", "one"))
	require.NoError(t, err)
	assert.Empty(t, entries)
	_, err = Merge(t.Context(), &MergeOptions{Plan: s, Copy: o}, &counters.Set{})
	require.ErrorContains(t, err, "the plan was abandoned")
}

// A task at work stops at the next directory when its plan is abandoned, whether it makes the directory or
// finds it.
func TestATaskStopsWhenItsPlanIsAbandoned(t *testing.T) {
	for name, exists := range map[string]bool{"new directories": false, "existing directories": true} {
		t.Run(name, func(t *testing.T) {
			c := newMergeCase(t, planTree())
			dst := filepath.Join(c.base, "split", "one")
			require.NoError(t, filepath.WalkDir(c.source, func(path string, d os.DirEntry, err error) error {
				if err != nil || !exists || !d.IsDir() {
					return err
				}
				rel, err := filepath.Rel(c.source, path)
				require.NoError(t, err)
				return os.MkdirAll(filepath.Join(dst, rel), 0o755)
			}))
			s := c.plan(1, []string{"one"})
			o, err := OptionsOfPlan(s.Plan)
			require.NoError(t, err)
			o.Workers = 1
			var once sync.Once
			var mu sync.Mutex
			abandoned := false
			var later []string // what was made later
			o.FS = &fsys.FS{Fault: func(call fsys.Call) error {
				if call.Op == fsys.OpOpen && call.Name == "big" {
					once.Do(func() {
						_, err := Merge(t.Context(), &MergeOptions{Plan: c.store(), Copy: &Options{Targets: o.Targets}, Abandon: true}, &counters.Set{})
						assert.NoError(t, err)
						mu.Lock()
						defer mu.Unlock()
						abandoned = true
					})
				}
				mu.Lock()
				defer mu.Unlock()
				if abandoned && (call.Op == fsys.OpMkdir || call.Op == fsys.OpLink && call.Name != "big") && strings.HasPrefix(call.Path, dst) {
					later = append(later, filepath.Join(call.Path, call.Name))
				}
				return nil
			}}
			_, err = RunShard(t.Context(), o, s, 0, shard.AttemptOptions{}, &counters.Set{})
			require.ErrorContains(t, err, "the plan was abandoned")
			state, err := s.Status(0)
			require.NoError(t, err)
			require.Nil(t, state.Finished)
			assert.True(t, abandoned)
			assert.LessOrEqual(t, len(later), 1, "a directory whose mark was checked before: %q", later)
		})
	}
}
