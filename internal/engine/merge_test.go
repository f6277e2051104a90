package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// tasked is a plan whose tasks have copied everything, and the result of one copy.
type tasked struct {
	t        testing.TB
	src      string
	dst      string // as the tasks have left it
	base     string // the directory of dst and plan
	single   string // the result of one copy
	plan     string
	manifest string // that one copy has written
	options  Options
}

// splitCopy copies littleTree once, and by the tasks of a plan.
func splitCopy(t testing.TB, shards int, sync dest.SyncMode) *tasked {
	c := planLittle(t, shards, sync)
	s := c.store(nil)
	for i := range s.Plan.Shards {
		c.run(nil, i)
	}
	return c
}

// planLittle copies littleTree once, and plans it.
func planLittle(t testing.TB, shards int, sync dest.SyncMode) *tasked {
	src, _ := littleTree(t)
	require.NoError(t, os.MkdirAll(filepath.Join(src, "empty", "below"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(src, "b/c"), 0o555))
	for _, dir := range []string{"empty/below", "empty", "b/c", "b", "d", "f", ""} {
		require.NoError(t, os.Chtimes(filepath.Join(src, dir), before, before))
	}
	dir := filepath.Dir(src)
	base := filepath.Join(dir, "shared")
	require.NoError(t, os.Mkdir(base, 0o755))
	c := &tasked{t: t, src: src, base: base, dst: filepath.Join(base, "dst"), single: filepath.Join(dir, "single"), plan: filepath.Join(base, "plan")}
	c.options = sweepOptions(src, []string{c.single}, sync)
	runReported(t, c.options)
	text, err := os.ReadFile(filepath.Join(c.single, "SHA256SUMS"))
	require.NoError(t, err)
	c.manifest = string(text)
	c.options.Targets = []string{c.dst}
	plan, err := Plan(t.Context(), &c.options, PlanOptions{Into: c.plan, Shards: shards}, &counters.Set{})
	require.NoError(t, err)
	require.NotNil(t, plan)
	return c
}

// run runs one shard through sys.
func (c *tasked) run(sys *fsys.FS, index int) {
	c.t.Helper()
	o := in(sys, c.options)
	_, err := RunShard(c.t.Context(), &o, c.store(sys), index, shard.AttemptOptions{}, &counters.Set{})
	require.NoError(c.t, err)
}

// store opens the plan through sys.
func (c *tasked) store(sys *fsys.FS) *shard.Store {
	dir, err := sys.OpenRoot(c.plan)
	require.NoError(c.t, err)
	c.t.Cleanup(dir.Close)
	s, err := shard.Open(dir)
	require.NoError(c.t, err)
	return s
}

// merge merges the plan.
func (c *tasked) merge(change func(*MergeOptions)) (*MergeSummary, []event.Event, error) {
	var events []event.Event
	copied := c.options
	copied.Report = func(e event.Event) { events = append(events, e) }
	o := &MergeOptions{Plan: c.store(copied.FS), Copy: &copied}
	if change != nil {
		change(o)
	}
	s, err := Merge(context.Background(), o, &counters.Set{})
	return s, events, err
}

// requireMerged demands that the destination is what one copy has made.
func (c *tasked) requireMerged() {
	for _, dst := range []string{c.single, c.dst} { // the time of the manifest is that of the copy
		require.NoError(c.t, os.Chtimes(filepath.Join(dst, "SHA256SUMS"), since, since))
	}
	treetest.Compare(c.t, c.single, c.dst, treetest.Options{Root: true})
	text, err := os.ReadFile(filepath.Join(c.dst, "SHA256SUMS"))
	require.NoError(c.t, err)
	assert.Equal(c.t, c.manifest, string(text))
	require.NoFileExists(c.t, filepath.Join(c.dst, ".sealift-journal"))
}

func TestAMergeMakesTheResultOfOneCopy(t *testing.T) {
	for _, shards := range []int{1, 3, 200} {
		c := splitCopy(t, shards, dest.SyncEnd)
		s, events, err := c.merge(nil)
		require.NoError(t, err)
		require.Empty(t, badOf(events))
		require.True(t, s.Merged)
		c.requireMerged()
		assert.EqualValues(t, 6, s.Summary.Files)
		assert.EqualValues(t, 1, s.Summary.HardLinks)
		assert.EqualValues(t, 7, s.Summary.Total)
		assert.EqualValues(t, 6, s.Summary.Directories, "all that the copy has made")

		s, _, err = c.merge(nil)
		require.NoError(t, err)
		require.True(t, s.Already, "a second merge does nothing")
		c.requireMerged()
	}
}

func badOf(events []event.Event) []event.Event { return (&runReport{events: events}).bad() }

func TestAMergeWaitsForAllShards(t *testing.T) {
	c := planLittle(t, 3, dest.SyncNone)
	c.run(nil, 0)
	c.run(nil, 2)
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, events)
	require.False(t, s.Merged)
	assert.Equal(t, []int{1}, s.Shards.Unfinished())
	require.NoFileExists(t, filepath.Join(c.dst, "SHA256SUMS"))

	waited := 0
	s, _, err = c.merge(func(o *MergeOptions) {
		o.Wait, o.Poll = true, 10*time.Millisecond
		o.Waiting = func(shard.Progress) {
			if waited++; waited == 1 {
				c.run(nil, 1)
			}
		}
	})
	require.NoError(t, err)
	require.True(t, s.Merged)
	assert.Equal(t, 2, waited)
	c.requireMerged()
}

// One warning has the number of directories that have changed since the plan.
func TestDirectoriesChangedAfterThePlanAreCounted(t *testing.T) {
	c := splitCopy(t, 3, dest.SyncNone)
	write(t, c.src, "b/c2/new", []byte("1"), since)
	write(t, c.src, "d/new file", []byte("2"), since)
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Len(t, badOf(events), 1)
	assert.Equal(t, event.Warning, badOf(events)[0].Kind)
	require.ErrorContains(t, badOf(events)[0].Err, "2 directories that changed after the plan was made")
	assert.Zero(t, s.Summary.Errors)
}

// A directory of the destination that is lost between the tasks and the merge, or replaced, is a
// failure that names its shards. The merge makes none.
func TestALostDirectoryIsAFailure(t *testing.T) {
	for name, remake := range map[string]bool{"lost": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			if remake {
				linuxOnly(t, "elsewhere a directory may get the number of a removed one")
			}
			c := splitCopy(t, 3, dest.SyncNone)
			require.NoError(t, os.Rename(filepath.Join(c.dst, "d"), filepath.Join(c.base, "moved")))
			want := "is missing at the destination"
			if remake {
				require.NoError(t, os.Mkdir(filepath.Join(c.dst, "d"), 0o700))
				want = "is not the directory that was filled"
			}
			s, events, err := c.merge(nil)
			require.NoError(t, err)
			require.Len(t, badOf(events), 1)
			require.ErrorContains(t, badOf(events)[0].Err, want)
			require.ErrorContains(t, badOf(events)[0].Err, "shard")
			assert.Equal(t, "d", badOf(events)[0].Path)
			assert.EqualValues(t, 1, s.Summary.Errors)
			require.FileExists(t, filepath.Join(c.dst, "SEALIFT-INCOMPLETE-src.txt"))
			end, err := c.store(nil).End()
			require.NoError(t, err)
			require.Nil(t, end, "the plan is not merged")
		})
	}
}

// The merge removes temporaries of attempts that were killed, whatever their number.
func TestAMergeRemovesTemporariesOfAttempts(t *testing.T) {
	c := planLittle(t, 2, dest.SyncNone)
	require.NoError(t, os.Mkdir(filepath.Join(c.plan, "work/00001/000001"), 0o700)) // of a killed attempt
	for i := range 2 {
		c.run(nil, i)
	}
	temp := fmt.Sprintf("d/.sealift-%s%05x%05x-0000000a.tmp", c.store(nil).Plan.ID[:6], 1, 1)
	other := "d/.sealift-0123456789abcdef-0000000a.tmp"
	write(t, c.dst, temp, []byte("part"), since)
	write(t, c.dst, other, []byte("part"), since)
	_, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, badOf(events))
	require.NoFileExists(t, filepath.Join(c.dst, temp))
	require.FileExists(t, filepath.Join(c.dst, other), "it belongs to another run")
}

// The merge lists directories of a destination only if an attempt may have left temporaries there. On a
// network file system, the listings are half of its work.
func TestAMergeListsOnlyWhereTemporariesMayBe(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*tasked)
		lists  bool
	}{
		"finished at once":      {func(*tasked) {}, false},
		"after another attempt": {func(c *tasked) { require.NoError(t, os.Mkdir(filepath.Join(c.plan, "work/00001/000001"), 0o700)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := planLittle(t, 2, dest.SyncNone)
			test.before(c)
			for i := range 2 {
				c.run(nil, i)
			}
			var lists atomic.Int64
			c.options.FS = &fsys.FS{Fault: func(call fsys.Call) error {
				if call.Op == fsys.OpList && filepath.FromSlash(call.Path) == filepath.Join(c.dst, "d") {
					lists.Add(1)
				}
				return nil
			}}
			_, events, err := c.merge(nil)
			require.NoError(t, err)
			require.Empty(t, badOf(events))
			c.requireMerged()
			assert.Equal(t, test.lists, lists.Load() > 0)
		})
	}
}

// A failed file is in the marker and in no manifest. Its shard runs again, and the next merge
// completes the copy.
func TestAShardWithFailuresRunsAgain(t *testing.T) {
	c := planLittle(t, 2, dest.SyncNone)
	unreadable := &fsys.FS{Fault: faultfs.OnOp(faultfs.When(func(call fsys.Call) bool { return call.Name == "big" }, faultfs.Fail(syscall.EACCES)), fsys.OpOpen)}
	for i := range 2 {
		c.run(unreadable, i)
	}
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.True(t, s.Merged)
	require.Len(t, badOf(events), 2)
	assert.EqualValues(t, 2, s.Summary.Errors)
	marker, err := os.ReadFile(filepath.Join(c.dst, "SEALIFT-INCOMPLETE-src.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(marker), "'d/big'")
	lines, err := os.ReadFile(filepath.Join(c.dst, "SHA256SUMS"))
	require.NoError(t, err)
	assert.NotContains(t, string(lines), "d/big")
	o := c.options
	_, err = Run(t.Context(), &o, &counters.Set{})
	require.ErrorContains(t, err, "at work there", "other copies stay out")

	failed := s.Shards.Failed()
	require.NotEmpty(t, failed)
	for _, i := range failed {
		c.run(nil, i)
	}
	_, events, err = c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, badOf(events))
	c.requireMerged()
	require.NoFileExists(t, filepath.Join(c.dst, "SEALIFT-INCOMPLETE-src.txt"))
}

// A part that another process has changed is not merged.
func TestADamagedPartIsNotMerged(t *testing.T) {
	c := splitCopy(t, 2, dest.SyncNone)
	parts, err := filepath.Glob(filepath.Join(c.plan, "work", "*", "000001", "part"))
	require.NoError(t, err)
	require.Len(t, parts, 2)
	spoil(t, parts[1])
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Len(t, badOf(events), 1)
	require.ErrorContains(t, badOf(events)[0].Err, "shard 1")
	assert.EqualValues(t, 1, s.Summary.Errors)
	require.NoFileExists(t, filepath.Join(c.dst, "SHA256SUMS"))
	require.FileExists(t, filepath.Join(c.dst, ".sealift-journal", "plan"))
}

func TestAnotherDestinationIsNotMerged(t *testing.T) {
	c := splitCopy(t, 2, dest.SyncNone)
	for _, other := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		_, _, err := c.merge(func(o *MergeOptions) { o.Copy.Targets = []string{other} })
		require.ErrorContains(t, err, "not the destination of the plan")
		require.NoFileExists(t, filepath.Join(other, ".sealift-journal"))
	}
}

// A merge where the source is not mounted does not take modes and times from what is there.
func TestAnotherSourceIsNotMerged(t *testing.T) {
	c := splitCopy(t, 2, dest.SyncNone)
	absent := filepath.Join(t.TempDir(), "absent")
	for _, other := range []string{t.TempDir(), absent} {
		_, _, err := c.merge(func(o *MergeOptions) { o.Copy.Source = other })
		require.ErrorAs(t, err, new(*failure.RefusedError))
		require.ErrorContains(t, err, other)
		require.NoFileExists(t, filepath.Join(c.dst, "SHA256SUMS"))
	}
	_, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, badOf(events))
	c.requireMerged()
	s, _, err := c.merge(func(o *MergeOptions) { o.Copy.Source = absent })
	require.NoError(t, err)
	require.True(t, s.Already, "a plan that is merged needs no source")
}
