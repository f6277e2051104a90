package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// task is the mode of RunShard, which copies one shard of a plan.
//
// A task does not list the source: the shard lists the entries, the digests that manifests of the
// source have for them, and the lines of previous manifests. A task writes parts. From
// these, Merge writes the manifests and markers, and it sets the metadata of the directories.
type task struct {
	treeCopy
	store *shard.Store
	index int // of the shard
	opts  shard.AttemptOptions

	attempt  *shard.Attempt
	begun    time.Time
	earlier  []*fsys.Dir         // directories of the attempts before
	parts    []*shard.LineWriter // for each destination
	outcomes *shard.OutcomeWriter
	files    int64 // regular files of the shard
	bytes    int64 // of them
	mu       struct {
		sync.Mutex
		err error // why the shard cannot be finished
	}
}

// RunShard copies one shard of a plan. If every entry has an outcome, it records that the shard is
// finished. While another attempt at the shard is alive, RunShard waits. The options are those of
// OptionsOfPlan, together with the options of this task. In addition to the errors of Run:
//
//   - a *shard.FinishedError says that the shard was finished before, without a failure;
//   - shard.ErrRightLost and shard.ErrSuperseded say that another attempt copies the shard.
func RunShard(ctx context.Context, o *Options, s *shard.Store, index int, a shard.AttemptOptions, c *counters.Set) (*Summary, error) {
	k := &task{store: s, index: index, opts: a, begun: time.Now()}
	summary, err := execute(ctx, o, k, c)
	if k.mu.err != nil && ctx.Err() == nil { // all goroutines have ended
		err = k.mu.err
	}
	return summary, errors.Join(err, k.end())
}

func (k *task) rules(o *Options) rules {
	return rules{
		planned: true, repeated: true,
		takesOver: o.Policy != policy.Never && o.Preserve&metadata.PreserveMode != 0, // only if merge sets the final modes
	}
}

// begin begins an attempt, and renews its claim of the shard until stop is called.
func (k *task) begin(ctx context.Context, r *run) (stop func(), err error) {
	if err := k.beginAttempt(ctx, r); err != nil {
		return nil, err
	}
	return k.keepClaim(r), nil
}

// beginAttempt checks that source and destinations are those of the plan, and begins an attempt.
// The error is a *failure.RefusedError if it cannot begin one for another reason than a failed or full
// device.
func (k *task) beginAttempt(ctx context.Context, r *run) error {
	if r.route.Name != "" || len(r.route.Destinations) != len(k.store.Plan.Targets) {
		return failure.Refuse("the plan copies a directory to %d destinations", len(k.store.Plan.Targets))
	}
	switch err := k.store.CheckAbandoned(); {
	case errors.Is(err, shard.ErrAbandoned):
		return failure.Refuse("%s", err)
	case err != nil:
		return failure.Refuse("the plan cannot be read: %s", err)
	}
	if err := checkSource(k.store.Plan, r.source, r.opts.Source); err != nil {
		return err
	}
	for i := range r.route.Destinations {
		if err := k.checkDestination(&r.route.Destinations[i]); err != nil {
			return err
		}
	}
	if err := k.checkShard(); err != nil {
		return failure.Refuse("%s", err)
	}
	var err error
	k.attempt, err = k.store.Begin(ctx, k.index, k.opts)
	if done, ok := errors.AsType[*shard.FinishedError](err); ok && done.Record.Failures+done.Record.Mismatches+done.Record.Conflicts > 0 {
		k.opts.Again = true
		k.attempt, err = k.store.Begin(ctx, k.index, k.opts)
	}
	if err == nil {
		err = k.store.CheckAbandoned() // again: the plan may have been abandoned while the task waited, see keepTasksOut
	}
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.As(err, new(*shard.FinishedError)):
		return err
	case fsys.DestinationLost(err) || fsys.DeviceFailed(err): // another attempt may succeed, so this is no refusal
		return fmt.Errorf("the attempt cannot be recorded in the plan: %w", err)
	default:
		return failure.Refuse("shard %d: %s", k.index, err)
	}
	for i := range k.store.Plan.Targets {
		k.parts = append(k.parts, k.attempt.NewLines(i))
	}
	if k.outcomes, err = k.attempt.NewOutcomes(); err != nil {
		return fmt.Errorf("the list of outcomes: %w", err)
	}
	return nil
}

// checkSource compares the source with the root of the plan and its sample. Many entries may have
// changed since, so a quarter of the sample is enough.
func checkSource(plan *shard.Plan, source *fsys.Dir, given string) error {
	root, err := source.Stat()
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(given), route.Reason(err))
	}
	finder := fsys.NewFinder(source, fsys.FinderLimit())
	defer finder.Close()
	found := 0
	for _, s := range plan.Sample {
		if 4*found >= len(plan.Sample) { // stop here, because each look-up is a round trip to the server
			break
		}
		if info, err := finder.Lstat(string(s.Path)); err == nil && info.ID.Ino == s.Ino {
			found++
		}
	}
	if root.ID.Ino != plan.Source.Ino || 4*found < len(plan.Sample) {
		return failure.Refuse("source %s: it is not the source of the plan: it is not mounted on this machine, or it is another one", quoteName(given))
	}
	return nil
}

func (k *task) checkDestination(d *route.Destination) error {
	refuse := func(why error) error { return failure.Refuse("destination %s: %s", quoteName(d.Given), why) }
	if !d.Exists {
		return refuse(resume.ErrNotPlanned)
	}
	root, err := d.Open()
	if err != nil {
		return refuse(errors.New(route.Reason(err)))
	}
	defer root.Close()
	mark, found, err := resume.ReadPlanMark(root)
	switch {
	case err != nil:
		return refuse(err)
	case !found || mark.ID != k.store.Plan.ID:
		if merged, err := k.store.ReadMerged(); err == nil && merged != nil {
			return refuse(errMerged)
		}
		return refuse(resume.ErrNotPlanned)
	}
	return nil
}

var errMerged = errors.New("the plan was merged; to copy what is new, make another plan or use sealift copy")

// checkShard reads the whole shard, because the reader checks every line, and adds up its files
// and bytes.
func (k *task) checkShard() error {
	reader, err := k.store.OpenShard(k.index)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shard %d of the plan: %w", k.index, err)
		}
		if e.Kind == fsys.Regular {
			k.files++
			k.bytes = counters.Plus(k.bytes, e.Size)
		}
	}
}

// startScan shows the totals of the shard.
func (k *task) startScan(r *run) (stop func()) {
	r.counters.TotalFiles.Add(k.files) // one command may copy several shards
	r.counters.TotalBytes.Add(k.bytes)
	r.counters.ScanDone.Store(true)
	return func() {}
}

// keepClaim renews the claim of the shard until stop is called. If no renewal succeeds in time,
// the run ends.
func (k *task) keepClaim(r *run) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		if err := k.attempt.KeepRenewed(ctx); err != nil {
			k.fail(r, err)
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// fail ends the run, because it cannot finish the shard.
func (k *task) fail(r *run, err error) {
	k.mu.Lock()
	k.mu.err = cmp.Or(k.mu.err, err)
	k.mu.Unlock()
	r.cancel(err)
}

func (k *task) mayCommit() error { return k.attempt.MayCommit() }

// feed passes the entries of the shard on to the workers.
func (k *task) feed(r *run, root *walk.Dir) {
	next := func() (walk.Step, error) { return walk.Step{}, io.EOF }
	reader, err := k.store.OpenShard(k.index)
	if err == nil {
		defer reader.Close()
		next = steps(reader)
	}
	if feedErr := walk.Feed(r.ctx, root, next); feedErr != nil {
		err = fmt.Errorf("shard %d of the plan: %w", k.index, feedErr)
	}
	if err != nil {
		k.fail(r, err)
	}
}

// steps returns the function that walk.Feed calls for the entries of a shard, and for each
// directory before its first entry.
func steps(reader *shard.Reader) func() (walk.Step, error) {
	var waiting *shard.Entry // for its directory
	dir, entered := "", false
	return func() (walk.Step, error) {
		e := waiting
		waiting = nil
		if e == nil {
			var err error
			if e, err = reader.Next(); err != nil {
				return walk.Step{}, err
			}
			if in := reader.Dir(); in.Path != dir || !entered {
				dir, entered, waiting = in.Path, true, e
				return walk.Step{Dir: dir, Note: in.Absent}, nil
			}
		}
		name := e.Path
		if dir != "" {
			name = e.Path[len(dir)+1:]
		}
		return walk.Step{Dir: dir, Name: name, Kind: e.Kind, Note: e}, nil
	}
}

// finish records that the shard is finished, when all that was copied to the given destinations
// is durable.
func (k *task) finish(r *run, durable []*target) {
	if r.targetsLeft.Load() == 0 { // all destinations were dropped, so some entries have no outcome
		return
	}
	if err := k.writeRecord(r, durable); err != nil {
		k.fail(r, err)
	}
}

func (k *task) writeRecord(r *run, durable []*target) error {
	record := shard.Finished{}
	lost := int64(0)
	for i, t := range r.targets {
		arrived := slices.Contains(durable, t)
		if arrived {
			if err := t.CheckName(); err != nil && !t.Dropped() {
				t.Drop("", fmt.Errorf("the copy is no longer under this name: %w", err))
			}
		}
		if !arrived || t.Dropped() {
			lost++
			k.parts[i].Close() // nothing is known about the files at a dropped destination
			k.parts[i] = k.attempt.NewLines(i)
		}
		r.collector.await() // it writes to the same outcomes, if the destination was dropped here
		if !arrived && !t.Dropped() {
			if err := k.outcomes.Put(shard.Outcome{Kind: shard.OutcomeLost, Target: i, Cause: "what was copied to it was not flushed"}); err != nil {
				return err
			}
		}
		if err := t.records.Err(); err != nil && !t.Dropped() {
			return fmt.Errorf("the list of what was copied: %w", err)
		}
		part, err := k.parts[i].Finish()
		if err != nil {
			return fmt.Errorf("the list of what was copied: %w", err)
		}
		record.Parts = append(record.Parts, part)
	}
	part, err := k.outcomes.Finish(k.counts(r.collector.summary))
	if err != nil {
		return fmt.Errorf("the list of outcomes: %w", err)
	}
	record.Parts = append(record.Parts, part)
	entries := k.store.Plan.Shards[k.index].Entries
	record.Failures = min(max(r.collector.summary.Errors, lost), entries)
	record.Mismatches = min(r.collector.summary.Mismatches, entries)
	record.Conflicts = min(r.collector.summary.Conflicts, entries)
	return k.attempt.Finish(record)
}

// end ends the attempt, when nothing more is written for it.
func (k *task) end() error {
	if k.attempt == nil {
		return nil
	}
	for _, p := range k.parts {
		p.Close()
	}
	if k.outcomes != nil {
		k.outcomes.Close()
	}
	for _, dir := range k.earlier {
		dir.Close()
	}
	if err := k.attempt.End(); err != nil {
		return fmt.Errorf("the end of the attempt cannot be recorded, so the next one waits: %w", err)
	}
	return nil
}
