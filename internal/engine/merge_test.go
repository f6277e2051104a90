package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// tasked is a plan whose tasks have copied everything.
type tasked struct {
	t        testing.TB
	src      string
	base     string // the directory of dst and plan
	dst      string // as the tasks have left it
	single   string // the result of one copy
	plan     string
	manifest string // that one copy has written
	options  Options
}

// splitCopy copies littleTree once, and then as the tasks of a plan would: directories have mode
// 0700 and the times of the last change, and there is no manifest.
func splitCopy(t testing.TB, shards int, sync dest.SyncMode) *tasked {
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
	c.options = sweepOptions(src, []string{c.dst}, sync)
	for _, to := range []string{c.single, c.dst} {
		o := c.options
		o.Targets = []string{to}
		runReported(t, o)
	}
	text, err := os.ReadFile(filepath.Join(c.dst, "SHA256SUMS"))
	require.NoError(t, err)
	c.manifest = string(text)
	require.NoError(t, os.Remove(filepath.Join(c.dst, "SHA256SUMS")))
	require.NoError(t, os.RemoveAll(filepath.Join(c.dst, "empty"))) // no task has an entry in it
	require.NoError(t, filepath.WalkDir(c.dst, func(path string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			return nil
		}
		return errors.Join(os.Chmod(path, 0o700), os.Chtimes(path, since, since))
	}))
	c.makePlan(shards)
	return c
}

func (c *tasked) open(path string) *fsys.Dir {
	dir, err := fsys.OpenRoot(path)
	require.NoError(c.t, err)
	c.t.Cleanup(dir.Close)
	return dir
}

// makePlan plans the copy, and records every entry as created by the task of its shard.
func (c *tasked) makePlan(shards int) {
	require.NoError(c.t, os.Mkdir(c.plan, 0o700))
	source, target := c.open(c.src), c.open(c.dst)
	from, err := source.Stat()
	require.NoError(c.t, err)
	to, err := target.Stat()
	require.NoError(c.t, err)
	p, err := shard.NewPlanner(c.open(c.plan), shard.PlanOptions{
		Kind: shard.KindCopy, Copy: planned(&c.options), Source: shard.RootOf(c.src, from),
		Targets: []shard.Target{{Root: shard.RootOf(c.dst, to)}}, Shards: shards, Links: true,
	})
	require.NoError(c.t, err)
	defer p.Close()
	c.addTree(p, c.src, "")
	_, err = p.Write(c.t.Context())
	require.NoError(c.t, err)
	c.mark(target)
	s := c.store(nil)
	for i := range s.Plan.Shards {
		c.finish(s, i, shard.AttemptOptions{}, nil)
	}
}

// mark leaves the mark of the plan at a destination that the plan has made.
func (c *tasked) mark(target *fsys.Dir) {
	j, err := resume.OpenJournal(target, resume.JournalName(""))
	require.NoError(c.t, err)
	defer j.Close()
	require.NoError(c.t, j.MarkPlan(resume.PlanMark{ID: c.store(nil).Plan.ID, Path: c.plan}))
	require.NoError(c.t, resume.MarkRoot(target, resume.JournalName(""), false))
}

// addTree adds what is below a directory to the plan: all directories were absent.
func (c *tasked) addTree(p *shard.Planner, root, rel string) {
	dir := c.open(filepath.Join(root, rel))
	info, err := dir.Stat()
	require.NoError(c.t, err)
	require.NoError(c.t, p.AddDirectory(shard.Directory{
		Path: filepath.ToSlash(rel), ID: info.ID, Mtime: info.Mtime, Ctime: info.Ctime, Absent: shard.NewAbsence([]bool{true}),
	}))
	listing, err := dir.List()
	require.NoError(c.t, err)
	for i := range listing.Len() {
		path := filepath.Join(rel, listing.Name(i))
		info, err := dir.Lstat(listing.Name(i))
		require.NoError(c.t, err)
		if info.Kind == fsys.Directory {
			c.addTree(p, root, path)
			continue
		}
		require.NoError(c.t, p.Add(shard.Entry{Path: filepath.ToSlash(path), Kind: info.Kind, Size: info.Size, Mtime: info.Mtime}, info.ID, info.Nlink))
	}
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

// finish finishes a shard. The file that failed is in none of the lines as copied.
func (c *tasked) finish(s *shard.Store, index int, o shard.AttemptOptions, failed *shard.Outcome) {
	a, err := s.Begin(c.t.Context(), index, o)
	require.NoError(c.t, err)
	digests := map[string][]byte{}
	for line := range strings.Lines(c.manifest) {
		text, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		digests[name], err = hex.DecodeString(text)
		require.NoError(c.t, err)
	}
	part := a.NewLines(0)
	defer part.Close()
	outcomes, err := a.NewOutcomes()
	require.NoError(c.t, err)
	defer outcomes.Close()
	r, err := s.OpenShard(index)
	require.NoError(c.t, err)
	defer r.Close()
	counts, record := shardCounts{Targets: make([]targetCounts, 1)}, shard.Finished{}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(c.t, err)
		l := shard.Line{Path: e.Path, Size: e.Size, Mtime: e.Mtime.Sec, Created: true}
		if failed != nil && string(failed.Path) == e.Path {
			l.Created, l.Failed = false, true
			record.Failures++
			require.NoError(c.t, outcomes.Put(*failed))
		} else if digests[e.Path] != nil {
			l.Digests = hash.Digests{digests[e.Path]}
			counts.Files++
			counts.Targets[0].Present++
		}
		if e.Kind == fsys.Regular {
			counts.Total++
		}
		require.NoError(c.t, part.Put(l))
	}
	for _, finish := range []func() (shard.Part, error){part.Finish, func() (shard.Part, error) { return outcomes.Finish(counts) }} {
		p, err := finish()
		require.NoError(c.t, err)
		record.Parts = append(record.Parts, p)
	}
	require.NoError(c.t, a.Finish(record))
	require.NoError(c.t, a.End())
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
		assert.EqualValues(t, 7, s.Summary.Files)
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
	c := splitCopy(t, 3, dest.SyncNone)
	require.NoError(t, os.Remove(filepath.Join(c.plan, "work", "00001", "finished")))
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, events)
	require.False(t, s.Merged)
	assert.Equal(t, []int{1}, s.Shards.Unfinished())
	require.NoFileExists(t, filepath.Join(c.dst, "SHA256SUMS"))

	waited := 0
	s, _, err = c.merge(func(o *MergeOptions) {
		o.Wait, o.Attempts.Dead = true, 80*time.Millisecond
		o.Waiting = func(shard.Progress) {
			if waited++; waited == 1 {
				c.finish(c.store(nil), 1, shard.AttemptOptions{Dead: 80 * time.Millisecond}, nil)
			}
		}
	})
	require.NoError(t, err)
	require.True(t, s.Merged)
	assert.Positive(t, waited)
	c.requireMerged()
}

// A file that came after the plan is reported. One that was replaced, and a directory whose mode
// was changed, are not new.
func TestEntriesMadeAfterThePlanAreReported(t *testing.T) {
	c, newFile := splitCopy(t, 3, dest.SyncNone), "d/new\nfile"
	if runtime.GOOS == "windows" { // has no such names
		newFile = "d/new file"
	}
	write(t, c.src, "b/c2/new", []byte("1"), since)
	write(t, c.src, newFile, []byte("2"), since)
	require.NoError(t, os.Rename(filepath.Join(c.src, "d/big"), filepath.Join(c.src, "d/x")))
	require.NoError(t, os.Rename(filepath.Join(c.src, "d/x"), filepath.Join(c.src, "d/big")))
	require.NoError(t, os.Chmod(filepath.Join(c.src, "f"), 0o711))
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	var paths []string
	for _, e := range badOf(events) {
		require.ErrorIs(t, e.Err, errNewer)
		paths = append(paths, e.Path)
	}
	assert.Equal(t, []string{"b/c2", newFile}, paths)
	assert.EqualValues(t, 2, s.Summary.Errors)
	require.DirExists(t, filepath.Join(c.dst, ".sealift-journal"), "another merge may follow")
	marker, err := os.ReadFile(filepath.Join(c.dst, "SEALIFT-INCOMPLETE-src.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(marker), "b/c2")
}

// A failed file is in the marker and in no manifest. Its shard runs again, and the next merge
// completes the copy.
func TestAShardWithFailuresRunsAgain(t *testing.T) {
	c := splitCopy(t, 2, dest.SyncNone)
	store := c.store(nil)
	for i := range store.Plan.Shards {
		failure := shard.Outcome{Kind: shard.OutcomeFailed, Path: "b/big", Target: 0, Stage: "write", Cause: "no space"}
		c.finish(store, i, shard.AttemptOptions{Again: true}, &failure)
	}
	require.NoError(t, os.Rename(filepath.Join(c.dst, "b/big"), filepath.Join(c.dst, "..", "big")))
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.True(t, s.Merged)
	require.Len(t, badOf(events), 1)
	assert.Equal(t, "b/big", badOf(events)[0].Path)
	assert.EqualValues(t, 1, s.Summary.Errors)
	marker, err := os.ReadFile(filepath.Join(c.dst, "SEALIFT-INCOMPLETE-src.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(marker), "'b/big': write: no space")
	lines, err := os.ReadFile(filepath.Join(c.dst, "SHA256SUMS"))
	require.NoError(t, err)
	assert.NotContains(t, string(lines), "b/big")
	o := c.options
	_, err = Run(t.Context(), &o, &counters.Set{})
	require.ErrorContains(t, err, "at work there", "other copies stay out")

	require.NoError(t, os.Rename(filepath.Join(c.dst, "..", "big"), filepath.Join(c.dst, "b/big")))
	for i := range store.Plan.Shards {
		c.finish(store, i, shard.AttemptOptions{Again: true}, nil)
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
	parts, err := filepath.Glob(filepath.Join(c.plan, "work", "*", "000001", "lines-0"))
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
