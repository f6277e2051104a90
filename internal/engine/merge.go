package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"path"
	"slices"
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

// MergeOptions say what Merge does with a plan.
type MergeOptions struct {
	Plan *shard.Store
	// Copy are the options of the plan, as OptionsOfPlan makes them, with the paths of the
	// source and of the destinations on this machine and the options of this process.
	Copy *Options

	Wait    bool          // until all shards are finished
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
	Removed int64 // with Abandon: temporaries
}

// ShardResult is what the task that finished a shard has counted.
type ShardResult struct {
	Files, Bytes               int64 // copied, as in Summary
	ResumedFiles, ResumedBytes int64 // that earlier attempts had copied
	// Begun and Ended are the time of that task, by the clock of its machine.
	Begun, Ended time.Time
}

// Result returns the result of a shard, or nil if it is not finished.
func (s *MergeSummary) Result(index int) *ShardResult {
	c := taskCounts{}
	if f := s.Shards[index].Finished; f == nil || json.Unmarshal(f.Counts, &c) != nil {
		return nil
	}
	return &ShardResult{c.Files, c.Bytes, c.ResumedFiles, c.ResumedBytes, c.Begun, c.Begun.Add(c.Elapsed)}
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
		return s, failure.Refuse("%s", ErrAbandoned)
	}
	if o.Wait && !o.DryRun {
		poll := o.Poll
		if poll == 0 {
			poll = 15 * time.Second
		}
		if err := o.Plan.Wait(ctx, poll, o.Waiting); err != nil {
			return s, planError(ctx, err)
		}
		if s.Shards, err = o.Plan.Progress(ctx); err != nil {
			return s, planError(ctx, err)
		}
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
	records []*shard.Finished // of all shards
	changed int               // directories of the source that are not as they were planned
	// first and last are when the first task began and the last one ended, by the clocks of their
	// machines.
	first, last time.Time

	seed maphash.Seed
	seen map[uint64]struct{} // hashes of the reported events; only the collector uses it
}

// merge merges a plan whose shards are all finished.
func (o *MergeOptions) merge(ctx context.Context, s *MergeSummary, c *counters.Set) error {
	m := &merging{store: o.Plan, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	for _, state := range s.Shards {
		m.records = append(m.records, state.Finished)
	}
	opts := *o.Copy
	opts.Only, opts.FailFast, opts.DryRun = nil, false, false
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

// begin refuses a source that is not that of the plan, because the directories would get the wrong
// modes and times.
func (m *merging) begin(_ context.Context, r *run) (stop func(), err error) {
	return func() {}, checkSource(m.store.Plan, r.source, r.opts.Source)
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
		if t.earlier != nil {
			t.earlier.Fence(func(name string) bool { return shard.OwnsTemp(m.store.Plan.ID, name) })
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

// plannedDir is the note of a directory that a merge completes.
type plannedDir struct {
	*shard.Directory
	made []shard.Made
}

// feed visits the directories below root. The files of the source that have names of manifests come
// first: the catalogs decide about them.
func (m *merging) feed(r *run, root *walk.Dir) {
	next, stop := iter.Pull2(func(yield func(walk.Step, error) bool) {
		late := map[string][]string{}
		for _, t := range r.targets {
			lines := record.Of[catalog.Planned](&t.records)
			if lines == nil {
				continue
			}
			for _, file := range lines.Special() {
				dir, name := shard.Split(file)
				if !slices.Contains(late[dir], name) {
					late[dir] = append(late[dir], name)
				}
			}
		}
		err := m.store.EachDir(m.records, func(d *shard.Directory, made []shard.Made) error {
			more := d.Path == "" || yield(walk.Step{Dir: d.Path, Note: plannedDir{d, made}}, nil)
			if d.Path == "" {
				m.compareTimes(d, root.Info)
			}
			for _, name := range late[d.Path] {
				more = more && yield(walk.Step{Dir: d.Path, Name: name, Kind: fsys.Regular}, nil)
			}
			if !more {
				return io.EOF
			}
			return r.ctx.Err()
		})
		if err != nil {
			yield(walk.Step{}, err)
		}
	})
	defer stop()
	err := walk.Feed(r.ctx, root, func() (walk.Step, error) {
		step, err, more := next()
		if !more {
			err = io.EOF
		}
		return step, err
	})
	if err != nil {
		m.failPlan(r, err)
	}
	if m.changed > 0 {
		err := fmt.Errorf("the source has %s that changed after the plan was made; what is new in them was not copied: plan again", countOf(m.changed, "directory", "directories"))
		r.report(event.Event{Kind: event.Warning, Err: err})
	}
}

func countOf(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// compareTimes counts a directory of the source that was changed since the plan was made.
func (m *merging) compareTimes(planned *shard.Directory, now fsys.Info) {
	if planned.Mtime != (fsys.Time{}) && (planned.Mtime != now.Mtime || planned.Ctime != now.Ctime) {
		m.changed++
	}
}

// enter passes the directory to a worker, which completes it.
func (m *merging) enter(r *run, d *walk.Dir) bool {
	if p, ok := d.Note.(plannedDir); ok {
		m.compareTimes(p.Directory, d.Info)
	}
	if d.Parent != nil {
		r.send(job{Dir: d, Kind: fsys.Directory})
	}
	return true
}

// findAbsent does nothing: the tasks have reported absent files.
func (m *merging) findAbsent(*run) {}

// mayMake returns an error: a merge makes no directories. It names the shards whose tasks have
// found the directory. If there are none, they have reported why.
func (m *merging) mayMake(dd *destDir) error {
	if shards := shardsOf(dd, func(*shard.Made) bool { return true }); shards != "" {
		return fmt.Errorf("this directory is missing at the destination, with everything that was copied into it (%s); %s", shards, lostAdvice)
	}
	return dest.ErrReported
}

// recognize checks that a directory is the one that the tasks have filled, and reports whether a task
// has made it.
func (m *merging) recognize(dd *destDir, info fsys.Info) (made bool, err error) {
	p, _ := dd.src.Note.(plannedDir)
	for _, at := range p.made {
		made = made || at.New && at.Target == dd.target.Index
	}
	if shards := shardsOf(dd, func(at *shard.Made) bool { return at.Ino != 0 && at.Ino != info.ID.Ino }); shards != "" {
		err = fmt.Errorf("this is not the directory that was filled (%s); %s", shards, lostAdvice)
	}
	return made, err
}

const lostAdvice = "end this plan with sealift merge --abandon, and copy or plan again"

// shardsOf names the shards whose records of a directory satisfy is: "shards 3,7-9". It is empty if
// there are none.
func shardsOf(dd *destDir, is func(*shard.Made) bool) string {
	p, _ := dd.src.Note.(plannedDir)
	var shards []int
	for i := range p.made {
		if at := &p.made[i]; at.Target == dd.target.Index && is(at) {
			shards = append(shards, at.Shard)
		}
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	switch len(shards) {
	case 0:
		return ""
	case 1:
		return "shard " + shard.FormatIndexes(shards)
	}
	return "shards " + shard.FormatIndexes(shards)
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

// replay replays what the tasks have recorded, so that manifests, markers and the summary are those
// of one copy. The catalogs sort the lines.
func (m *merging) replay(r *run) {
	for _, finished := range m.records {
		if r.ctx.Err() != nil {
			return
		}
		if err := m.replayShard(r, finished); err != nil {
			m.failPlan(r, err)
			return
		}
	}
}

func (m *merging) replayShard(r *run, f *shard.Finished) error {
	counts := &taskCounts{}
	if err := json.Unmarshal(f.Counts, counts); err != nil {
		return fmt.Errorf("record of shard %d: %w", f.Shard, err)
	}
	if m.first.IsZero() || counts.Begun.Before(m.first) {
		m.first = counts.Begun
	}
	if ended := counts.Begun.Add(counts.Elapsed); ended.After(m.last) {
		m.last = ended
	}
	r.collector.await() // no other goroutine sends messages, so this one may use the collector's data
	counts.addTo(r)
	lost := make([]bool, len(r.targets))
	err := m.store.Part(f, shard.PartReader{
		Outcome: func(o *shard.Outcome) error {
			e := r.eventOf(o)
			if e.Kind == event.DestinationLost && o.Target >= 0 {
				lost[o.Target] = true
			}
			r.report(e)
			return r.ctx.Err()
		},
		Line: func(target int, l *shard.Line) error {
			r.targets[target].records.Account(record.Outcome{
				Path: l.Path, Digests: l.Digests, Size: l.Size, Mtime: l.Mtime, Dropped: l.Dropped, Below: l.Below,
				Created: l.Created, Replaced: l.Replaced, Failed: l.Failed, Resumed: l.Resumed,
			})
			return r.ctx.Err()
		},
	})
	if err != nil || !slices.Contains(lost, true) {
		return err
	}
	r.collector.await()
	return m.addLost(r, f.Shard, lost)
}

// addLost records that all entries of a shard may be missing at destinations that its task has
// dropped.
func (m *merging) addLost(r *run, index int, lost []bool) error {
	list, err := m.store.OpenList(index)
	if err != nil {
		return err
	}
	defer list.Close()
	for r.ctx.Err() == nil {
		e, err := list.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range lost {
			if lost[i] && e.Kind != fsys.Directory && !e.Missing {
				r.collector.undone[i].Add(e.Path, "not copied: the destination was dropped")
			}
		}
	}
	return nil
}

// record reports whether an event is the first of its kind about its path and destination. Several
// tasks and the merge may work in one directory, and each of them reports the same events about it.
func (m *merging) record(_ *run, e event.Event) bool {
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	fmt.Fprintf(&h, "%d\x00%s\x00%s\x00%s", e.Kind, e.Path, e.Target, text)
	sum := h.Sum64()
	_, found := m.seen[sum]
	m.seen[sum] = struct{}{}
	return !found
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
		end.Made = append(end.Made, t.rootOurs)
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

// close opens the destinations of a merged plan to other copies, if the merge was killed before it
// has done so.
func (o *MergeOptions) close(end *shard.End) error {
	closed, err := o.Plan.Closed()
	if err != nil || closed || o.DryRun {
		return err
	}
	for i, given := range o.Copy.Targets {
		if err := o.closeDestination(given, i < len(end.Made) && end.Made[i]); err != nil {
			return failure.Refuse("destination %s: %s", quoteName(given), route.Reason(err))
		}
	}
	return o.Plan.SetClosed()
}

// closeDestination removes the journal with the mark of the plan. If the plan made the destination, it
// sets the mode and times of its root, which are the last metadata that a merge sets: see closeTarget.
func (o *MergeOptions) closeDestination(given string, made bool) error {
	root, err := o.Copy.FS.OpenTrustedRoot(given)
	if err != nil {
		return err
	}
	defer root.Close()
	journal, err := resume.OpenPlannedJournal(root, o.Plan.Plan.ID)
	if errors.Is(err, resume.ErrNotPlanned) { // the mark is removed, and perhaps a later copy is at work
		if journal, err = resume.OpenJournal(root, resume.JournalName("")); err == nil && journal.HoldsLogs() {
			journal.Close()
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	if err := journal.Remove(); err != nil || !made {
		return err
	}
	source, err := o.Copy.FS.OpenRoot(o.Copy.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	from, err := source.Stat()
	if err == nil && o.Copy.Preserve&metadata.PreserveMode != 0 {
		err = root.Chmod(from.Mode)
	}
	if err == nil && o.Copy.Preserve&metadata.PreserveTimes != 0 {
		err = fsys.IgnoreRefusal(root.SetTimes(from.Atime, from.Mtime, from.Btime))
	}
	return err
}

// abandon ends a plan without a merge, at all destinations. One that cannot be reached does not keep
// the others closed to other copies.
func (o *MergeOptions) abandon(ctx context.Context, s *MergeSummary) error {
	if err := o.Plan.SetEnd(shard.End{Abandoned: true}); err != nil {
		return failure.Refuse("the directory of the plan cannot be written: %s", err)
	}
	var failed []error
	untouched := s.Shards.Count(shard.NotBegun) == len(s.Shards)
	for _, given := range o.Copy.Targets {
		removed, err := Abandon(ctx, o.Copy.FS, given, o.Plan.Plan.ID, untouched)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("destination %s: %w", quoteName(given), err)
		}
		failed = append(failed, err)
		s.Removed += removed
	}
	return errors.Join(failed...)
}

// Abandon ends a plan at one destination: it removes the temporaries of the plan's attempts, and then
// the mark and the journal, so that a copy can go on alone. Tasks stop at the next directory. Copied
// files stay. Previous manifests get their names back if no task has begun. Otherwise they stay aside,
// because files that they list may be replaced: the next copy compares what they list. id is that of
// the plan, or "" for any plan.
func Abandon(ctx context.Context, system *fsys.FS, given, id string, untouched bool) (removed int64, err error) {
	root, err := system.OpenTrustedRoot(given)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	mark, found, err := resume.ReadPlanMark(root)
	if err == nil && id == "" && !found {
		err = resume.ErrNotPlanned
	}
	if err != nil || !found || id != "" && mark.ID != id {
		return 0, err // it was abandoned before
	}
	journal, err := resume.OpenPlannedJournal(root, mark.ID)
	if errors.Is(err, fsys.ErrLocked) {
		err = errors.New("another sealift is at work there")
	}
	if err != nil {
		return 0, err
	}
	defer journal.Close()
	if removed, err = removeTemporaries(ctx, root, mark.ID); err != nil {
		return removed, err
	}
	if untouched {
		asides, err := resume.ReadAsides(root, resume.JournalName(""))
		if err == nil {
			err = catalog.MoveBack(root, asides, journal)
		}
		if err != nil {
			return removed, fmt.Errorf("the previous manifest cannot get its name back: %w", err)
		}
	}
	made, err := journal.RootMarked()
	if err == nil {
		err = journal.Remove()
	}
	if err == nil && made { // the plan created it with mode 0700: set the usual mode of a directory
		err = fsys.IgnoreRefusal(root.Chmod(0o777 &^ fsys.Umask()))
	}
	return removed, errors.Join(err, root.Sync())
}

// removeTemporaries removes what the attempts of a plan have left at a destination.
func removeTemporaries(ctx context.Context, root *fsys.Dir, id string) (removed int64, err error) {
	info, err := root.Stat()
	if err != nil {
		return 0, err
	}
	again, err := root.OpenDir(".")
	if err != nil {
		return 0, err
	}
	v := &leftTemporaries{id: id}
	walk.Walk(ctx, walk.NewRoot(fsys.NewHandles(fsys.FinderLimit()).Root(again), info, v), walk.Options{Workers: 1})
	if ctx.Err() != nil {
		v.err = context.Cause(ctx)
	}
	return v.removed, v.err
}

// leftTemporaries is the visitor of a walk that removes the temporaries of a plan.
type leftTemporaries struct {
	id      string
	removed int64
	err     error
}

func (v *leftTemporaries) Enter(*walk.Dir) bool { return true }

func (v *leftTemporaries) Entry(d *walk.Dir, name string, _ fsys.Kind) {
	if !shard.OwnsTemp(v.id, name) {
		return
	}
	dir, err := d.Acquire()
	if err == nil {
		err = dir.Remove(name)
		d.Release()
		v.removed++
	}
	if err != nil && !fsys.NoSuchFile(err) {
		v.Failed(d, name, err)
	}
}

func (v *leftTemporaries) Leave(*walk.Dir) {}

func (v *leftTemporaries) Failed(d *walk.Dir, name string, err error) {
	v.err = errors.Join(v.err, fmt.Errorf("%s: %w", quoteName(path.Join(d.Path(), name)), err))
}
