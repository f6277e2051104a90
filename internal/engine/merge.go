package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// MergeOptions say what Merge does with a plan.
type MergeOptions struct {
	Plan *shard.Store
	// Copy are the options of the plan, as OptionsOfPlan makes them, with the paths of the
	// source and of the destinations on this machine and the options of this process.
	Copy *Options

	Wait     bool // until all shards are finished
	DryRun   bool // report the state of the shards alone
	Abandon  bool // remove what the plan has left at the destinations, and merge nothing
	Results  bool // read MergeSummary.Results
	Attempts shard.AttemptOptions

	// Waiting receives the states of the shards when waiting begins, and when they have
	// changed. May be nil.
	Waiting func(shard.Progress)
}

// MergeSummary is the account of Merge.
type MergeSummary struct {
	Shards  shard.Progress
	Results []*ShardResult // of each shard, with MergeOptions.Results; nil for an unfinished one
	// Already: the plan was merged before, and nothing is done. Summary has only the conflicts of
	// that merge.
	Already bool
	// Merged: all shards were finished and merged, and Summary counts the whole copy.
	Merged bool
	// Summary counts what all tasks and the merge have done. Elapsed is the time from the start
	// of the first task to the end of the last one, plus the time of the merge.
	Summary Summary
	Removed int64 // with Abandon: temporaries and empty directories
}

// Merge completes a planned copy when all of its shards are finished: it copies the files that
// have names of manifests, completes the directories, and writes the manifests. The errors are
// those of Run. If shards are not finished, it does nothing, and Merged is false.
func Merge(ctx context.Context, o *MergeOptions, c *counters.Set) (*MergeSummary, error) {
	if o.Plan.Plan.Kind != shard.KindCopy {
		return nil, failure.Refuse("this is not the plan of a copy")
	}
	s := &MergeSummary{}
	if o.Abandon {
		return s, o.abandon(ctx, s)
	}
	err := o.Plan.CheckAbandoned()
	if errors.Is(err, shard.ErrAbandoned) {
		return nil, failure.Refuse("%s", err)
	}
	if err == nil {
		err = o.readShards(ctx, s)
	}
	if err == nil && o.Results {
		err = o.planError(ctx, o.readResults(ctx, s))
	}
	if err == nil && o.DryRun {
		if s.Already, err = o.Plan.IsClosed(); err == nil && s.Already {
			err = o.recall(s)
		}
		err = o.planError(ctx, err)
	}
	if err != nil || o.DryRun || len(s.Shards.Unfinished()) > 0 {
		return s, err
	}
	return s, o.merge(ctx, s, c)
}

// recall adds the result of the merge that has completed the plan.
func (o *MergeOptions) recall(s *MergeSummary) error {
	merged, err := o.Plan.ReadMerged()
	if merged != nil {
		s.Summary.Conflicts = merged.Conflicts
	}
	return err
}

// readShards reads the states of the shards. With Wait, it waits until all are finished.
func (o *MergeOptions) readShards(ctx context.Context, s *MergeSummary) (err error) {
	if s.Shards, err = o.Plan.Progress(ctx); err != nil {
		return o.planError(ctx, err)
	}
	if !o.Wait || o.DryRun || len(s.Shards.Unfinished()) == 0 {
		return nil
	}
	err = o.Plan.Wait(ctx, o.Attempts, func(p shard.Progress) {
		copy(s.Shards, p)
		if o.Waiting != nil {
			o.Waiting(s.Shards)
		}
	})
	return o.planError(ctx, err)
}

// planError says that an error is about the directory of the plan, unless the user has stopped
// the run.
func (o *MergeOptions) planError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("the plan cannot be read: %w", err)
}

// merging is the mode of Merge: a copy whose entries are the directories of a plan and the files
// that have names of manifests.
type merging struct {
	treeCopy
	store   *shard.Store
	targets []int            // index in the plan of each destination of the run
	root    *shard.Directory // in the plan
	drift   *shard.Drift
	// first and last are when the first task began and the last one ended, by the clocks of their
	// machines.
	first, last time.Time

	seed maphash.Seed
	seen map[uint64]struct{} // hashes of the reported events; only the collector uses it
}

// merge merges a plan whose shards are all finished.
func (o *MergeOptions) merge(ctx context.Context, s *MergeSummary, c *counters.Set) error {
	m := &merging{store: o.Plan, drift: o.Plan.NewDrift(), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	defer m.drift.Close()
	opts := *o.Copy
	opts.Targets, opts.Only, opts.FailFast, opts.DryRun = nil, nil, false, false
	var err error
	if m.root, err = rootOf(o.Plan); err != nil {
		return o.planError(ctx, err)
	}
	closed, err := o.Plan.IsClosed()
	if err != nil {
		return o.planError(ctx, err)
	}
	if !closed { // a merge of a closed plan does not read the source
		if err := o.checkSource(); err != nil {
			return err
		}
	}
	if m.targets, err = o.remaining(ctx, m.root, closed); err != nil {
		return err
	}
	for _, i := range m.targets {
		opts.Targets = append(opts.Targets, o.Copy.Targets[i])
	}
	if len(opts.Targets) == 0 {
		s.Already = true
		return o.planError(ctx, errors.Join(o.recall(s), o.Plan.SetClosed()))
	}
	if err := o.Plan.SetMerging(); err != nil {
		return failure.Refuse("the directory of the plan cannot be written: %s", err.Error())
	}
	summary, err := execute(ctx, &opts, m, c)
	if summary != nil {
		s.Summary, s.Merged = *summary, true
		s.Summary.LeftOut = o.Plan.Plan.Totals.LeftOut
		s.Summary.Elapsed += m.last.Sub(m.first)
		s.Summary.Shares, s.Summary.Limit = nil, Share{} // of the merge alone
	}
	return err
}

func (m *merging) rules(o *Options) rules {
	r := m.treeCopy.rules(o)
	r.planned, r.filesFrom = true, m.store.Plan.Options.FilesFrom
	return r
}

// openTargets opens the destinations of r.targets, which are those of m.targets.
func (m *merging) openTargets(r *run) error {
	for i, t := range r.targets {
		t.planIndex = m.targets[i]
		t.madeByPlan = m.root.Absent.Of(t.planIndex)
	}
	return m.treeCopy.openTargets(r)
}

// checkSource refuses a source that is not that of the plan, because the directories would get the
// wrong modes and times.
func (o *MergeOptions) checkSource() error {
	source, err := o.Copy.FS.OpenRoot(o.Copy.Source)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Copy.Source), route.Reason(err))
	}
	defer source.Close()
	return checkSource(o.Plan.Plan, source, o.Copy.Source)
}

// openJournal opens the journal of a destination, which has the mark of the plan.
func (m *merging) openJournal(root *fsys.Dir, _ string) (*resume.Journal, error) {
	return resume.OpenPlannedJournal(root, m.store.Plan.ID)
}

// remaining returns the indexes of the destinations that no earlier merge has completed. closed
// means that the plan is closed.
func (o *MergeOptions) remaining(ctx context.Context, root *shard.Directory, closed bool) (targets []int, err error) {
	merged, err := o.Plan.ReadMerged()
	if err != nil {
		return nil, o.planError(ctx, err)
	}
	for i, given := range o.Copy.Targets {
		if merged == nil {
			targets = append(targets, i)
			continue
		}
		if closed {
			continue
		}
		marked, err := o.closeRoot(given, root.Absent.Of(i))
		if err != nil {
			return nil, failure.Refuse("destination %s: %s", quoteName(given), err.Error())
		}
		if marked {
			targets = append(targets, i)
		}
	}
	return targets, nil
}

// closeRoot completes a destination whose merge was killed after it had removed the mark of the
// plan, or reports that the destination has the mark. made means that the plan created
// the destination, which may not have the source's mode and times yet: see closeTarget.
func (o *MergeOptions) closeRoot(given string, made bool) (marked bool, err error) {
	root, err := o.Copy.FS.OpenTrustedRoot(given)
	if err != nil {
		return false, err
	}
	defer root.Close()
	mark, found, err := resume.ReadPlanMark(root)
	if err != nil || found {
		return found && mark.ID == o.Plan.Plan.ID, err
	}
	journal, err := resume.OpenJournal(root, resume.JournalName(""))
	if err != nil {
		return false, err
	}
	defer journal.Close()
	if journal.HoldsLogs() { // of a later copy
		return false, nil
	}
	if err := journal.Remove(); err != nil || !made {
		return false, err
	}
	source, err := o.Copy.FS.OpenRoot(o.Copy.Source)
	if err != nil {
		return false, err
	}
	defer source.Close()
	return false, o.setModeAndTimes(source, root)
}

func (o *MergeOptions) setModeAndTimes(source, root *fsys.Dir) error {
	from, err := source.Stat()
	if err != nil {
		return err
	}
	have, err := root.Stat()
	if err == nil && have.Mode != from.Mode && have.Mode == from.Mode|0o700 && o.Copy.Preserve&metadata.PreserveMode != 0 {
		err = root.Chmod(from.Mode)
	}
	if err == nil && o.Copy.Preserve&metadata.PreserveTimes != 0 {
		err = fsys.IgnoreRefusal(root.SetTimes(from.Atime, from.Mtime, from.Btime))
	}
	return err
}

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

// interrupted reports no changed files. The plan has moved the manifests aside, and the merge reads
// all changes from the parts.
func (m *merging) interrupted(*target) record.Interrupted { return untouched{} }

// startScan does nothing: a merge copies only a few files, so it needs no totals.
func (m *merging) startScan(*run) (stop func()) { return func() {} }

// finish closes the destinations whose manifests are written. If nothing has failed, the plan is
// merged: that is recorded before the first destination is opened to other copies. Otherwise
// the shards with failures can be run again.
func (m *merging) finish(r *run, durable []*target) {
	r.collector.await()
	complete := r.collector.summary.Errors == 0 && r.collector.summary.Mismatches == 0
	for _, t := range r.targets {
		complete = complete && t.finished && !t.journalStays
	}
	if complete {
		if err := m.setMerged(r); err != nil {
			r.report(event.OfFile(event.Failed, "", "", failure.StageManifest, fmt.Errorf("the plan cannot be marked as merged: %w", err)))
			complete = false
		}
	}
	for _, t := range durable {
		if t.finished {
			t.journalStays = !complete
			r.closeTarget(t)
		}
	}
	r.collector.await()
	if complete && r.collector.summary.Errors == 0 {
		if err := m.store.SetClosed(); err != nil {
			r.report(event.OfFile(event.Failed, "", "", failure.StageManifest, fmt.Errorf("the plan cannot be marked as closed: %w", err)))
		}
	}
}

// setMerged records that the plan is merged. If an earlier merge has completed some of the
// destinations, its conflicts stay, and this merge reports them, too.
func (m *merging) setMerged(r *run) error {
	before, err := m.store.ReadMerged()
	if err != nil {
		return err
	}
	if before != nil {
		r.collector.summary.Conflicts = max(r.collector.summary.Conflicts, before.Conflicts)
	}
	return m.store.SetMerged(shard.Merged{Conflicts: r.collector.summary.Conflicts})
}
