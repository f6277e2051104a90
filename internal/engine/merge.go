package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// MergeOptions say what Merge does with a plan.
type MergeOptions struct {
	Plan *shard.Store
	// Copy are the options of the plan, as OptionsOfPlan makes them, with the paths of the
	// source and of the destinations on this machine and the options of this process.
	Copy *Options

	Wait    bool          // wait until all shards are finished
	Poll    time.Duration // how often Wait reads their states; 0 for 15 s
	DryRun  bool          // report the state of the shards alone
	Abandon bool          // end the plan without a merge

	// Waiting receives the states of the shards when waiting begins, and when they have changed.
	Waiting func(shard.Progress)
}

// MergeSummary is the account of Merge.
type MergeSummary struct {
	Shards shard.Progress
	// Already: the plan was merged before, and nothing is done. Summary has only the conflicts of
	// that merge.
	Already bool
	// Merged: all shards were finished and merged, and Summary counts the whole copy.
	Merged bool
	// Summary counts what all tasks and the merge have done. Elapsed is the time from the start
	// of the first task to the end of the last one, plus the time of the merge.
	Summary Summary
	Removed int64 // temporaries that Abandon has removed
}

// Result returns the result of the task that has finished a shard, or nil if it is not finished.
func (s *MergeSummary) Result(index int) *ShardResult {
	r := &ShardResult{}
	if f := s.Shards[index].Finished; f == nil || json.Unmarshal(f.Counts, r) != nil {
		return nil
	}
	return r
}

// Merge completes a planned copy when all of its shards are finished: it completes the directories
// and writes the manifests. The errors are those of Run. If shards are not finished, it does
// nothing, and Merged is false.
func Merge(ctx context.Context, o *MergeOptions, c *counters.Set) (*MergeSummary, error) {
	s := &MergeSummary{}
	end, err := o.Plan.End()
	if err == nil {
		s.Shards, err = o.Plan.Progress(ctx)
	}
	switch {
	case err != nil:
		return s, planError(ctx, err)
	case end != nil && !end.Abandoned:
		s.Already, s.Summary.Conflicts = true, end.Conflicts
		return s, o.close(end)
	case o.Abandon:
		return s, o.abandon(ctx, s)
	case end != nil:
		return s, failure.Refuse("%s", shard.ErrAbandoned)
	}
	if o.Wait && !o.DryRun {
		p, err := o.Plan.Wait(ctx, cmp.Or(o.Poll, 15*time.Second), o.Waiting)
		if err != nil {
			return s, planError(ctx, err)
		}
		s.Shards = p
	}
	if o.DryRun || len(s.Shards.Unfinished()) > 0 {
		return s, nil
	}
	return s, o.merge(ctx, s, c)
}

// planError says that an error is about the directory of the plan, unless the user has stopped
// the run.
func planError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("the plan cannot be read: %w", err)
}

// merging is the mode of Merge: a copy whose entries are the directories of a plan. It makes none.
type merging struct {
	treeCopy
	store   *shard.Store
	records []*shard.Finished // one for each shard
	clean   bool              // no attempt has left temporaries
	changed int               // number of directories of the source that differ from the plan
	// first and last are when the first task began and the last one ended, by the clocks of their
	// machines.
	first, last time.Time
	times       taskTimes

	seed maphash.Seed
	seen map[uint64]struct{} // hashes of the reported events; only the collector uses it
}

// merge merges a plan whose shards are all finished.
func (o *MergeOptions) merge(ctx context.Context, s *MergeSummary, c *counters.Set) error {
	m := &merging{store: o.Plan, clean: true, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	for _, state := range s.Shards {
		m.records = append(m.records, state.Finished)
		m.clean = m.clean && state.Clean()
	}
	opts := *o.Copy
	opts.Only, opts.FailFast, opts.DryRun = nil, false, false
	summary, err := execute(ctx, &opts, m, c)
	if summary != nil {
		s.Summary, s.Merged = *summary, true
		s.Summary.LeftOut = o.Plan.Plan.Totals.LeftOut
		s.Summary.Elapsed += m.last.Sub(m.first)
		s.Summary.Shares, s.Summary.Limit = nil, Share{} // these are those of the merge alone
	}
	return err
}

func (m *merging) rules(o *Options) rules {
	r := m.treeCopy.rules(o)
	r.planned, r.clean, r.filesFrom = true, m.clean, m.store.Plan.Options.FilesFrom
	return r
}

// begin refuses a source that is not that of the plan, because the directories would get the wrong
// modes and times.
func (m *merging) begin(_ context.Context, r *run) error {
	return checkSource(m.store.Plan, r.source, r.opts.Source)
}

// openJournal opens the journal of a destination, which has the mark of the plan.
func (m *merging) openJournal(root *fsys.Dir, _ string) (*resume.Journal, error) {
	return resume.OpenPlannedJournal(root, m.store.Plan.ID)
}

// openTargets is that of a copy. The merge removes the temporaries of all attempts, so that a process
// that goes on late finds nothing to rename.
func (m *merging) openTargets(r *run) error {
	err := m.treeCopy.openTargets(r)
	for _, t := range r.targets {
		if t.Earlier != nil {
			t.Earlier.Fence(func(name string) bool { return shard.OwnsTemp(m.store.Plan.ID, name) })
		}
	}
	return err
}

// interrupted reports no changed files. The plan has moved the manifests aside, and the merge reads
// all changes from the parts.
func (m *merging) interrupted(*target) record.Interrupted { return untouched{} }

// untouched implements record.Interrupted for interrupted runs that have changed no file.
type untouched struct{}

// Touched implements record.Interrupted.
func (untouched) Touched(string, fsys.Info) (digests hash.Digests, touched bool) { return nil, false }

// startScan does nothing: a merge copies no files, so it needs no totals.
func (m *merging) startScan(*run) (stop func()) { return func() {} }

// findAbsent does nothing: the tasks have reported absent files.
func (m *merging) findAbsent(*run) {}

// errPlan ends the run of a merge that cannot read the plan.
var errPlan = errors.New("the plan cannot be read")

// failPlan reports that the plan cannot be read, and ends the run.
func (m *merging) failPlan(r *run, err error) {
	if r.ctx.Err() != nil {
		return
	}
	r.report(event.OfFile(event.Failed, "", "", failure.StageManifest, fmt.Errorf("%w: %w", errPlan, err)))
	r.cancel(errPlan)
}

// finish closes the destinations whose manifests are written. If nothing has failed, the plan is
// merged: that is recorded before the first destination is opened to other copies. Otherwise
// the shards with failures can be run again.
func (m *merging) finish(r *run, durable []*target) {
	r.collector.await()
	complete := r.collector.summary.Errors == 0 && r.collector.summary.Mismatches == 0
	for _, t := range r.targets {
		complete = complete && t.finished && !t.journalStays
	}
	put := func(set func() error) bool {
		err := set()
		if err != nil {
			r.report(event.OfFile(event.Failed, "", "", failure.StageManifest, fmt.Errorf("the end of the plan cannot be recorded: %w", err)))
		}
		return err == nil
	}
	end := shard.End{Conflicts: r.collector.summary.Conflicts}
	for _, t := range r.targets {
		end.Made = append(end.Made, t.RootOurs)
	}
	complete = complete && put(func() error { return m.store.SetEnd(end) })
	for _, t := range durable {
		if t.finished {
			t.journalStays = !complete
			r.closeTarget(t)
		}
	}
	r.collector.await()
	if complete && r.collector.summary.Errors == 0 {
		put(m.store.SetClosed)
	}
}
