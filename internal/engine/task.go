package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// task is the mode of RunShard: a copy of the names in one list of a plan. It makes directories and
// leaves their metadata to the merge, and it writes a part in place of manifests and markers.
type task struct {
	treeCopy
	store *shard.Store
	index int // index of the shard
	opts  shard.AttemptOptions

	run       *run
	list      *shard.ListReader
	attempt   *shard.Attempt
	begun     time.Time
	earlier   []*fsys.Dir // directories of the attempts before
	part      *shard.PartWriter
	leftAlone []*nameSet // conflicts at each destination of the attempt after which this one runs the shard again
	absent    absentFiles
	mu        struct {
		sync.Mutex
		err error // why the shard cannot be finished
	}
}

// RunShard copies one shard of a plan. If every entry has an outcome, it records that the shard is
// finished. The options are those of OptionsOfPlan, together with the options of this task. In
// addition to the errors of Run:
//
//   - a *shard.FinishedError says that the shard was finished before, without a failure;
//   - shard.ErrSuperseded says that another attempt copies the shard;
//   - shard.ErrMerged says that the plan is merged.
func RunShard(ctx context.Context, o *Options, s *shard.Store, index int, a shard.AttemptOptions, c *counters.Set) (*Summary, error) {
	k := &task{store: s, index: index, opts: a, begun: time.Now()}
	summary, err := execute(ctx, o, k, c)
	if k.mu.err != nil && ctx.Err() == nil { // all goroutines have ended
		err = k.mu.err
	}
	return summary, errors.Join(err, k.end())
}

func (k *task) rules(o *Options) rules {
	return rules{planned: true, takesOver: o.Preserve&metadata.PreserveMode != 0} // the merge then sets the final modes
}

// begin checks that source and destinations are those of the plan, and begins an attempt. The error
// is a *failure.RefusedError if it cannot begin one for another reason than a failed or full device.
func (k *task) begin(ctx context.Context, r *run) (err error) {
	if len(r.route.Destinations) != len(k.store.Plan.Targets) {
		return failure.Refuse("the plan copies a directory to %d destinations", len(k.store.Plan.Targets))
	}
	switch err := k.store.Ended(); {
	case errors.Is(err, shard.ErrMerged):
		return err
	case err != nil:
		return failure.Refuse("%s", err)
	}
	if err := checkSource(k.store.Plan, r.source, r.opts.Source); err != nil {
		return err
	}
	for _, d := range r.route.Destinations {
		if err := k.checkDestination(d); err != nil {
			return err
		}
	}
	k.run = r
	if k.list, err = k.store.OpenList(k.index); err != nil {
		return failure.Refuse("%s", err)
	}
	k.opts.Warn = func(err error) { r.report(event.Event{Kind: event.Warning, Err: err}) }
	k.attempt, err = k.store.Begin(ctx, k.index, k.opts)
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.As(err, new(*shard.FinishedError)):
		return err
	case fsys.DestinationLost(err) || fsys.DeviceFailed(err): // another attempt may succeed, so this is no refusal
		return fmt.Errorf("the attempt cannot be recorded in the plan: %w", err)
	default:
		return failure.Refuse("shard %d: %s", k.index, err)
	}
	if k.part, err = k.attempt.NewPart(); err != nil {
		return fmt.Errorf("the part of the shard: %w", err)
	}
	return k.readLeftAlone(r)
}

// checkSource refuses a source whose root is not that of the plan.
func checkSource(plan *shard.Plan, source *fsys.Dir, given string) error {
	root, err := source.Stat()
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(given), route.Reason(err))
	}
	if root.ID.Ino != plan.Source.Ino {
		return failure.Refuse("source %s: it is not the source of the plan: it is not mounted on this machine, or it is another one", quoteName(given))
	}
	return nil
}

// checkDestination refuses a destination without the mark of the plan.
func (k *task) checkDestination(d route.Destination) error {
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
	if err == nil && (!found || mark.ID != k.store.Plan.ID) {
		err = resume.ErrNotPlanned
	}
	if err != nil {
		return refuse(err)
	}
	return nil
}

// readLeftAlone reads the conflicts of the attempt after which this one runs the shard again. That
// attempt has not written these files, so they are not incomplete.
func (k *task) readLeftAlone(r *run) error {
	for range k.store.Plan.Targets {
		k.leftAlone = append(k.leftAlone, &nameSet{seed: r.names})
	}
	if k.attempt.Former == nil {
		return nil
	}
	err := k.store.Part(k.attempt.Former, shard.PartReader{Outcome: func(o *shard.Outcome) error {
		if o.Kind == recordedKinds[event.Conflict] && o.Target >= 0 {
			k.leftAlone[o.Target].add([]byte(o.Path))
		}
		return nil
	}})
	for _, names := range k.leftAlone {
		names.sort()
	}
	return err
}

func (k *task) wasLeftAlone(t *target, path string) bool { return k.leftAlone[t.Index].has(path) }

// openTargets opens the destinations of a task. None is locked: many tasks copy to it.
func (k *task) openTargets(r *run) error {
	for _, t := range r.targets {
		r.activity.At(t.Place())
		err := k.openTarget(r, t)
		if errors.As(err, new(*failure.RefusedError)) {
			return err
		}
		if err != nil {
			t.Drop("", err)
			t.leaveAsFound(r)
		}
	}
	return nil
}

// openTarget opens a destination, and the log of what the task copies to it.
func (k *task) openTarget(r *run, t *target) (err error) {
	if t.Root, err = t.Open(); err != nil {
		return err
	}
	t.Handle = r.newHandles().Root(t.Root)
	earlier, err := k.openEarlier()
	if err == nil {
		t.Journal, t.Earlier, t.Log, err = resume.OpenAttempt(t.Root, resume.Attempt{
			Dir: k.attempt.Dir, Name: fmt.Sprintf("log-%d", t.Index), TempID: k.attempt.TempID(), Earlier: earlier, Fenced: k.attempt.Precedes,
		}, resume.Options{
			Source:     fmt.Sprintf("shard %d of plan %s", k.index, k.store.Plan.ID),
			Terms:      r.opts.logTerms(),
			Hashes:     r.opts.Hashes,
			KeepTimes:  r.opts.Preserve&metadata.PreserveTimes != 0,
			Durable:    r.opts.Sync != dest.SyncNone,
			TimeStamps: t.FileSystems.TimeStamps,
		})
	}
	if err != nil {
		return fmt.Errorf("the log of the task: %w", err)
	}
	if err := t.Probe(&r.opening); err != nil {
		return err
	}
	if t.records, err = record.Open(&record.Destination{Hashes: r.opts.Hashes, ReadsBack: r.opts.Verify != VerifyOff, Spill: t.NewSpill}, partRecorder{part: k.part, target: t.Index}); err != nil {
		return err
	}
	return t.openBackup(r)
}

// openEarlier opens the directories of earlier attempts.
func (k *task) openEarlier() (earlier []resume.EarlierAttempt, err error) {
	for _, a := range k.attempt.Earlier {
		dir, err := k.attempt.OpenEarlier(a.Number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			k.earlier = append(k.earlier, dir)
		}
		earlier = append(earlier, resume.EarlierAttempt{Dir: dir, TempID: a.TempID, Ended: a.Ended})
	}
	return earlier, nil
}

// startScan shows the totals of the shard.
func (k *task) startScan(r *run) (stop func()) {
	about := k.store.Plan.Shards[k.index]
	r.counters.TotalFiles.Add(about.Files) // one command may copy several shards
	r.counters.TotalBytes.Add(about.Bytes)
	r.counters.ScanDone.Store(true)
	return func() {}
}

// fail ends the run, because it cannot finish the shard.
func (k *task) fail(r *run, err error) {
	k.mu.Lock()
	k.mu.err = cmp.Or(k.mu.err, err)
	k.mu.Unlock()
	r.cancel(err)
}

// mayCommit returns an error if the plan has ended or a higher attempt has begun. The temporary
// that gets the name exists already, so that the higher attempt, or the merge, removes it first.
func (k *task) mayCommit(t *target) error {
	if err := k.checkMark(t); err != nil {
		return err
	}
	return k.attempt.Current()
}

// checkMark returns an error if a destination does not have the mark of the plan any more.
func (k *task) checkMark(t *target) error {
	if t.Log == nil || t.Log.CheckMark() == nil {
		return nil
	}
	return cmp.Or(k.store.Ended(), shard.ErrAbandoned) // it may be abandoned at this destination only
}

// feed passes the entries of the list on to the workers.
func (k *task) feed(r *run, root *walk.Dir) {
	k.absent.run = r
	if err := walk.Feed(r.ctx, root, k.step, r.send); err != nil {
		k.fail(r, fmt.Errorf("shard %d of the plan: %w", k.index, err))
	}
}

// step returns the next step of the walk over a list.
func (k *task) step() (walk.Step, error) {
	for {
		e, err := k.list.Next()
		if err != nil {
			return walk.Step{}, err
		}
		if e.Missing {
			k.absent.add(string(k.store.Plan.Lists[e.Expected[0].List].Name), e.Path, false)
			continue
		}
		if e.Kind == fsys.Directory {
			return walk.Step{Dir: e.Path, Note: e}, nil
		}
		dir, name := shard.Split(e.Path)
		return walk.Step{Dir: dir, Name: name, Kind: e.Kind, Note: e}, nil
	}
}

func (k *task) findAbsent(*run) { k.absent.warn() }

// mayMake returns an error if the plan has ended.
func (k *task) mayMake(dd *destDir) error {
	if err := k.checkMark(dd.target); err != nil {
		k.fail(k.run, err)
		return dest.ErrReported
	}
	return nil
}

// recognize returns an error if the plan has ended.
func (k *task) recognize(dd *destDir, _ fsys.Info) (made bool, err error) {
	if dd.empty { // the task has just made it
		return false, nil
	}
	return false, k.mayMake(dd)
}

// leave ends the work of the task in a directory. The task makes each directory that its list names,
// and records it. The merge sets the metadata when all tasks are finished.
func (k *task) leave(r *run, d *walk.Dir) {
	_, listed := d.Note.(*shard.Entry)
	listed = listed || d.Parent == nil
	for _, dd := range d.State.(destDirs) {
		if dd.untried() && (!listed || r.ctx.Err() != nil) {
			continue
		}
		dir, ok := dd.acquire(&r.placer)
		if !ok {
			dd.close()
			continue
		}
		t := dd.target
		t.SyncList.AddDir(d.Path())
		if r.ctx.Err() == nil {
			if err := t.Earlier.RemoveLeftovers(dir, d.Path()); err != nil {
				t.Fail(d.Path(), failure.StageJournal, err)
			}
		}
		if listed {
			k.recordDir(r, dd)
		}
		dd.syncLeft(r, dir)
		dd.release(dir)
		dd.close()
	}
}

// recordDir records a directory of a destination, which the merge has to find.
func (k *task) recordDir(r *run, dd *destDir) {
	made := shard.Made{Target: dd.target.Index, New: dd.empty, Replaced: dd.empty && dd.replaced, Path: dd.src.Path()}
	if dd.system.ChangeTimes && !r.opts.numbersChange { // other file systems may show another number later
		made.Ino = dd.info.ID.Ino
	}
	r.collector.do(func() {
		if err := k.part.PutDir(made); err != nil {
			k.fail(r, err)
		}
	})
}

// inShard returns the entry of the list that e is.
func inShard(e *entry) *shard.Entry { return e.Note.(*shard.Entry) }

// expected returns what the source's manifests list for an entry of the shard.
func (k *task) expected(_ *run, e *entry) (catalog.Expectation, error) {
	var lines []catalog.Listed
	plan := k.store.Plan
	for i, x := range inShard(e).Expected {
		slot := slices.Index(plan.Options.Hashes, plan.Lists[x.List].Hash)
		switch {
		case slot < 0:
		case i > 0 && x.List == inShard(e).Expected[i-1].List:
			l := &lines[len(lines)-1]
			l.Digests = append(l.Digests, x.Digest)
		default:
			lines = append(lines, catalog.Listed{Manifest: string(plan.Lists[x.List].Name), Slot: slot, Digests: [][]byte{x.Digest}})
		}
	}
	return catalog.NewExpectation(lines), nil
}

// previous returns what the previous manifests of a destination list for an entry of the shard.
func (k *task) previous(e *entry, p *transfer) record.Kept {
	digests := make(hash.Digests, len(k.store.Plan.Options.Hashes))
	for _, l := range inShard(e).Previous {
		if l.Target == p.target.Index {
			digests[l.Hash] = l.Digest
		}
	}
	return record.Kept{Digests: digests, Complete: record.IsComplete(digests)}
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

func (k *task) writeRecord(r *run, durable []*target) (err error) {
	lost := int64(0)
	for _, t := range r.targets {
		arrived := slices.Contains(durable, t)
		if arrived {
			if err := t.CheckName(); err != nil && !t.Dropped() {
				t.Drop("", fmt.Errorf("the copy is no longer under this name: %w", err))
			}
		}
		r.collector.await() // it writes to the same part
		if !arrived && !t.Dropped() {
			if err := k.part.PutOutcome(shard.Outcome{Kind: recordedKinds[event.DestinationLost], Target: t.Index, Cause: "what was copied to it was not flushed"}); err != nil {
				return err
			}
		}
		if !arrived || t.Dropped() {
			lost++
			k.part.Forget(t.Index)
		} else if err := t.records.Err(); err != nil {
			return fmt.Errorf("the list of what was copied: %w", err)
		}
	}
	s := r.collector.summary
	finished := shard.Finished{Failures: max(s.Errors, lost), Mismatches: s.Mismatches, Conflicts: s.Conflicts}
	if finished.Counts, err = k.counts(s); err != nil {
		return err
	}
	if err := k.part.Finish(&finished); err != nil {
		return fmt.Errorf("the part of the shard: %w", err)
	}
	return k.attempt.Finish(finished)
}

// end ends the attempt, when nothing more is written for it.
func (k *task) end() error {
	if k.list != nil {
		k.list.Close()
	}
	if k.part != nil {
		k.part.Close()
	}
	for _, dir := range k.earlier {
		dir.Close()
	}
	if k.attempt == nil {
		return nil
	}
	if err := k.attempt.End(); err != nil {
		return fmt.Errorf("the end of the attempt cannot be recorded, so the next one begins partial files again: %w", err)
	}
	return nil
}

// partRecorder is the record.Recorder of a task: the merge writes the manifests.
type partRecorder struct {
	record.NoRecorder
	part   *shard.PartWriter
	target int
}

// Open implements record.Recorder.
func (p partRecorder) Open(d *record.Destination) (record.Book, error) {
	if !d.ReadsBack { // the part has the files
		d.Files = nil
	}
	return partBook{part: p.part, target: p.target}, nil
}

// partBook records in the part.
type partBook struct {
	record.NoBook
	part   *shard.PartWriter
	target int
}

// Account implements record.Book.
func (b partBook) Account(o record.Outcome) error {
	if o.Path == "" {
		return nil
	}
	return b.part.PutLine(b.target, o)
}

// Finish implements record.Book.
func (partBook) Finish(record.End) ([]record.Written, error) { return nil, nil }
