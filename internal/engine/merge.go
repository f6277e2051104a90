package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/resume"
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
	Attempts shard.AttemptOptions

	// Waiting receives the states of the shards when waiting begins, and when they have
	// changed. May be nil.
	Waiting func(shard.Progress)
}

// MergeSummary is the account of Merge.
type MergeSummary struct {
	Shards  shard.Progress
	Already bool // the plan was merged before, and nothing was done
	// Merged: all shards are finished, and Summary is that of the whole copy.
	Merged  bool
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
	err := o.readShards(ctx, s)
	if err != nil || o.DryRun || len(s.Shards.Unfinished()) > 0 {
		return s, err
	}
	return s, o.merge(ctx, s, c)
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

// merging is what the run of a merge knows beyond that of a copy.
type merging struct {
	store   *shard.Store
	targets []int            // index in the plan of each destination of the run
	root    *shard.Directory // in the plan
	drift   *shard.Drift
	merged  bool // the manifests are written

	seed maphash.Seed
	mu   struct {
		sync.Mutex
		seen map[uint64]struct{} // events that were reported
	}
}

// merge merges a plan whose shards are all finished.
func (o *MergeOptions) merge(ctx context.Context, s *MergeSummary, c *counters.Set) error {
	m := &merging{store: o.Plan, drift: o.Plan.NewDrift(), seed: maphash.MakeSeed()}
	m.mu.seen = map[uint64]struct{}{}
	defer m.drift.Close()
	opts := *o.Copy
	opts.Targets, opts.Only, opts.FailFast, opts.DryRun, opts.merging = nil, nil, false, false, m
	closing, err := o.Plan.IsMerged()
	if err != nil {
		return fmt.Errorf("the plan cannot be read: %w", err)
	}
	for i, given := range o.Copy.Targets {
		if closing {
			marked, err := hasMark(opts.FS, given, o.Plan.Plan.ID)
			if err != nil {
				return failure.Refuse("destination %s: %s", quoteName(given), err.Error())
			}
			if !marked {
				continue // an earlier merge has completed it
			}
		}
		m.targets, opts.Targets = append(m.targets, i), append(opts.Targets, given)
	}
	if len(opts.Targets) == 0 {
		s.Already = true
		return nil
	}
	if err := o.Plan.SetMerging(); err != nil {
		return failure.Refuse("the directory of the plan cannot be written: %s", err.Error())
	}
	summary, err := Run(ctx, &opts, c)
	if summary != nil {
		s.Summary, s.Merged = *summary, true
	}
	return err
}

// hasMark reports whether a destination has the mark of the plan.
func hasMark(sys *fsys.FS, path, id string) (bool, error) {
	root, err := sys.OpenRoot(path)
	if err != nil {
		return false, err
	}
	defer root.Close()
	mark, found, err := resume.ReadPlanMark(root)
	return found && mark.ID == id, err
}

// errPlan ends the run of a merge that cannot read the plan.
var errPlan = errors.New("the plan cannot be read")

// failPlan reports that the plan cannot be read, and ends the run.
func (m *merging) failPlan(r *run, err error) {
	if r.ctx.Err() != nil {
		return
	}
	r.report(fileEvent(EventFailed, "", "", failure.StageManifest, fmt.Errorf("%w: %w", errPlan, err)))
	r.cancel(errPlan)
}

// close closes the destinations whose manifests are written. If nothing has failed, the plan is
// merged: that is recorded before the first destination is opened to other copies. Otherwise
// the shards with failures can be run again.
func (m *merging) close(r *run, durable []*target) {
	r.sync()
	complete := r.summary.Errors == 0 && r.summary.Mismatches == 0
	for _, t := range r.targets {
		complete = complete && t.finished && !t.journalStays
	}
	if complete {
		if err := m.store.SetMerged(); err != nil {
			r.report(fileEvent(EventFailed, "", "", failure.StageManifest, fmt.Errorf("the plan cannot be marked as merged: %w", err)))
			complete = false
		}
	}
	for _, t := range durable {
		if t.finished {
			t.journalStays = !complete
			r.closeTarget(t)
		}
	}
}
