package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// PlanOptions describe how Plan splits a copy into shards.
type PlanOptions struct {
	Into      string // the directory of the plan
	Shards    int    // number of shards; 0 to choose by the source
	ShardSize int64  // mean bytes of a shard; 0 to choose by the source
	Sealift   string // the version of the program
}

// planning is one execution of Plan.
type planning struct {
	*run
	into    PlanOptions
	path    string       // absolute path of the plan
	dir     *fsys.Dir    // nil until it exists
	finder  *fsys.Finder // finds names in the source
	planner *shard.Planner
	late    map[string]bool // paths of files that the merge decides about, and no shard
	lists   [][]string      // paths of the manifests at each destination
}

// Plan splits the copy that o describes into shards and writes the plan. It makes all refusals
// of Run. It marks the destinations, so that only tasks of the plan write there. The error is
// a *failure.RefusedError if nothing was written, and the cause of the context if Plan was
// stopped. The plan is nil without an error if Plan has reported problems that have to be
// solved first.
func Plan(ctx context.Context, o *Options, into PlanOptions, c *counters.Set) (plan *shard.Plan, err error) {
	if o.MHL != nil || o.MediaList != nil || o.Bag != nil {
		return nil, failure.Refuse("--mhl and --bag need the whole tree at once, so they cannot be planned; copy without them, and add the history with sealift sum --mhl")
	}
	if o.Policy == policy.Never || o.Policy == policy.Protect {
		return nil, failure.Refuse("--overwrite-policy %s cannot be planned: where two tasks copy the same names, neither knows which files existed before; use sealift copy", o.Policy)
	}
	fsys.Umask()
	rt, err := route.Resolve(o.places())
	if err != nil {
		return nil, err
	}
	if rt.Name != "" {
		return nil, failure.Refuse("source %s is a file, and a file is one shard at most; copy it with sealift copy", quoteName(o.Source))
	}
	p := &planning{into: into, late: map[string]bool{}}
	if p.path, err = rt.PlanDir(into.Into); err != nil {
		return nil, err
	}
	opts := o.withDefaults()
	if err := opts.fitDescriptors(fsys.OpenLimit()); err != nil {
		return nil, err
	}
	defer p.closeInto()
	if err := p.openInto(o.FS); err != nil {
		return nil, err
	}
	if p.run, err = newRun(ctx, opts, planner{planning: p}, rt, c); err != nil {
		return nil, err
	}
	if p.recorders, _, err = opts.recorders(); err != nil {
		return nil, err
	}
	defer p.cancel(nil)
	defer p.source.Close()
	p.listedHashes = len(opts.Hashes)
	c.Phase.Store(int32(counters.PhaseScanning))
	var collector sync.WaitGroup
	collector.Go(p.collector.run)
	plan, err = p.make()
	if plan == nil {
		p.undoDestinations()
	}
	p.close()
	p.collector.end()
	collector.Wait()
	c.Phase.Store(int32(counters.End(plan == nil)))
	return plan, err
}

// planner is the mode of Plan, which opens destinations and reports like a copy.
type planner struct {
	treeCopy
	planning *planning
}

func (p planner) openJournal(root *fsys.Dir, _ string) (*resume.Journal, error) {
	return resume.OpenJournalToPlan(root, p.planning.path)
}

// openInto opens the directory of the plan, if it exists.
func (p *planning) openInto(system *fsys.FS) (err error) {
	p.dir, err = system.OpenTrustedRoot(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = shard.Inspect(p.dir)
	}
	if err != nil {
		return failure.Refuse("plan directory %s: %s", quoteName(p.into.Into), route.Reason(err))
	}
	return nil
}

// closeInto closes the planner and the directory of the plan.
func (p *planning) closeInto() {
	if p.planner != nil {
		p.planner.Close()
	}
	if p.dir != nil {
		p.dir.Close()
	}
	if p.finder != nil {
		p.finder.Close()
	}
}

// make makes the plan. The plan is nil without an error if a problem was reported.
func (p *planning) make() (*shard.Plan, error) {
	if err := p.warnBag(); err != nil {
		return nil, err
	}
	p.openManifests()
	if err := p.openDestinations(); err != nil {
		return nil, err
	}
	p.targets.measureSpace()
	p.reportUnfinished()
	if p.hasFailed() {
		return nil, nil
	}
	steps := []func() error{p.begin, p.addExpected, p.addPrevious, p.scanSource}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, p.explain(err)
		}
	}
	if p.hasFailed() {
		return nil, nil
	}
	p.checkSpace(p.ctx, walkers(p.opts.Workers), p.counters.TotalBytes.Load())
	plan, err := p.planner.Write(p.ctx)
	if errors.Is(err, errCollision) { // p has reported each collision
		return nil, nil
	}
	if err != nil {
		return nil, p.explain(err)
	}
	return plan, nil
}

// hasFailed reports whether a failure or a mismatch was reported, so the plan would lack
// entries.
func (p *planning) hasFailed() bool {
	p.collector.await()
	return p.collector.summary.Errors > 0 || p.collector.summary.Mismatches > 0
}

// explain reports the error of make and returns nil. If Plan was stopped, it returns the cause
// instead.
func (p *planning) explain(err error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	var bad *catalog.ListError
	if errors.As(err, &bad) {
		p.report(event.OfFile(event.Failed, bad.Name, "", failure.StageManifest, bad.Err))
	} else if known := (*failure.FileError)(nil); errors.As(err, &known) {
		p.report(event.Event{Kind: event.Failed, Path: known.Path, Target: known.Target, Err: known})
	} else {
		p.report(event.OfFile(event.Failed, "", p.into.Into, failure.StageWrite, err))
	}
	return nil
}

// openDestinations creates, locks and inspects the destinations. It refuses what Run refuses.
func (p *planning) openDestinations() error {
	p.targetsLeft.Store(int64(len(p.targets)) + 1) // 1 is added so that the context is not canceled when all destinations are dropped
	p.lists = make([][]string, len(p.targets))
	for i, t := range p.targets {
		err := p.openDestination(i, t)
		if refused := (*failure.RefusedError)(nil); errors.As(err, &refused) {
			return err
		}
		if err != nil {
			t.Drop("", err)
		}
	}
	return nil
}

func (p *planning) openDestination(i int, t *target) error {
	if err := t.OpenRoot(&p.opening); err != nil {
		return err
	}
	if _, found, err := resume.ReadPlanMark(t.Root); err != nil {
		return err
	} else if !found && t.Journal.HoldsLogs() {
		return failure.Refuse("destination %s: an interrupted copy has left its journal there; run that copy again to its end, or remove %s if it is not wanted",
			quoteName(t.Given), quoteName(resume.JournalName("")))
	}
	if err := t.openRecords(p.run); err != nil {
		return err
	}
	lines := record.Of[catalog.Planned](&t.records)
	p.lists[i] = lines.Names()
	for _, file := range lines.Special() {
		p.late[file] = true
	}
	return t.openBackup(p.run)
}

// begin creates the directory of the plan and the planner.
func (p *planning) begin() error {
	if p.dir == nil {
		if err := p.makeInto(); err != nil {
			return err
		}
	}
	source, err := fsys.AbsolutePath(p.opts.Source)
	if err != nil {
		return err
	}
	o := shard.PlanOptions{
		Copy: planned(p.opts), Sealift: p.into.Sealift,
		Source: shard.RootOf(source, p.sourceInfo), Shards: p.into.Shards, ShardSize: p.into.ShardSize,
		Links: p.opts.Preserve&metadata.PreserveLinks != 0, BeforeCommit: p.prepareDestinations,
	}
	for _, l := range p.manifests.Lists() {
		o.Lists = append(o.Lists, shard.List{Name: shard.Text(l.Name), Hash: l.Hash})
	}
	for _, t := range p.targets {
		info, err := t.Root.Stat()
		if err != nil {
			return err
		}
		path, err := fsys.AbsolutePath(t.Given)
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, shard.RootOf(path, info))
	}
	if target := p.folding(); target != nil {
		o.Collides = func(dir, other string) {
			err := fmt.Errorf("%s is the same name to the destination, so two tasks could write to one directory", quoteName(other))
			p.report(event.OfFile(event.Failed, dir, target.Given, failure.StageCheck, err))
		}
	}
	p.finder = fsys.NewFinder(p.source, fsys.FinderLimit())
	o.Missing = func(path string) bool { return p.opts.wanted(path) && p.absent(p.finder, path) }
	p.planner, err = shard.NewPlanner(p.dir, o)
	return err
}

// makeInto creates the directory of the plan. No other user may read it.
func (p *planning) makeInto() error {
	if _, err := fsys.MakeDirs(filepath.Dir(p.path)); err != nil {
		return err
	}
	parent, err := p.opts.FS.OpenTrustedRoot(filepath.Dir(p.path))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(p.path)
	if err := parent.Mkdir(name); err != nil {
		return err
	}
	if p.dir, err = parent.OpenDir(name); err != nil {
		return err
	}
	return parent.SyncToDrive()
}

// addExpected adds the lines of the source's manifests to the planner.
func (p *planning) addExpected() error {
	defer p.manifests.Close()
	lists := p.manifests.Lists()
	absent := absentFiles{run: p.run}
	err := p.manifests.EachListed(func(list int, file string, digest []byte) error {
		if !shard.IsPath(file) { // the path leads out of the source
			absent.add(lists[list].Name, file, false)
			return p.ctx.Err()
		}
		return errors.Join(p.planner.Expect(file, shard.ListDigest{List: list, Digest: digest}), p.ctx.Err())
	})
	absent.warn()
	return err
}

// addPrevious adds the lines of the destinations' earlier manifests to the planner. Then it
// closes these manifests, because their indexes use memory.
func (p *planning) addPrevious() error {
	for i, t := range p.targets {
		t.records.Resume(nil)
		err := record.Of[catalog.Planned](&t.records).EachKept(func(slot int, file string, digest []byte) error {
			return errors.Join(p.planner.Previous(file, shard.LineDigest{Target: i, Hash: slot, Digest: digest}), p.ctx.Err())
		})
		t.records.Close()
		t.records = record.Books{}
		if err != nil && p.ctx.Err() == nil {
			return &failure.FileError{Target: t.Given, Stage: failure.StageManifest, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareDestinations is the last step before plan.json gets its name. It marks the
// destinations, and moves aside the manifests that the copy will replace.
func (p *planning) prepareDestinations() error {
	if p.hasFailed() {
		return errCollision
	}
	for i, t := range p.targets {
		if err := p.prepareDestination(i, t); err != nil {
			return &failure.FileError{Target: t.Given, Stage: failure.StageManifest, Err: err}
		}
	}
	return nil
}

var errCollision = errors.New("a destination treats two names of directories as equal")

// folding returns a destination at which names that differ only in case are one name, or nil.
// It checks whether the journal is found under its name in upper case. The inode numbers are
// not compared, because FUSE may show two for one file.
func (p *planning) folding() *target {
	for _, t := range p.targets {
		if _, err := t.Root.Lstat(strings.ToUpper(resume.JournalName(""))); err == nil {
			return t
		}
	}
	return nil
}

func (p *planning) prepareDestination(i int, t *target) error {
	if err := t.CheckName(); err != nil {
		return err
	}
	if err := t.Journal.MarkPlan(resume.PlanMark{ID: p.planner.ID(), Path: p.path}); err != nil {
		return err
	}
	if err := t.SyncMade(); err != nil {
		return err
	}
	if err := t.openRecords(p.run); err != nil {
		return err
	}
	defer func() {
		t.records.Close()
		t.records = record.Books{}
	}()
	if !slices.Equal(record.Of[catalog.Planned](&t.records).Names(), p.lists[i]) {
		return errors.New("another process has written a manifest meanwhile; plan again")
	}
	t.records.Resume(nil)
	if err := t.records.BeforeChanges(); err != nil {
		return err
	}
	return record.Of[catalog.Planned](&t.records).MoveSidecars()
}

// undoDestinations removes the directories that this planner has created at the destinations,
// because there is no plan. A destination with a mark keeps it: the next planner takes it
// over.
func (p *planning) undoDestinations() {
	for _, t := range p.targets {
		if t.Root == nil {
			continue
		}
		if _, found, err := resume.ReadPlanMark(t.Root); err == nil && !found {
			t.undo(p.run)
		}
	}
}

// warnBag warns that a planned copy of a bag does not check that the bag is complete, as Run
// does.
func (p *planning) warnBag() error {
	_, isBag, err := p.findBag()
	if isBag && !p.opts.part() {
		err := errors.New("the source is a bag, and a planned copy does not check that it is complete; check a destination with sealift verify when it is merged")
		p.report(event.Event{Kind: event.Warning, Err: err})
	}
	return err
}
