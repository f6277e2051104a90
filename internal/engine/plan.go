package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// PlanOptions say how a copy is split into shards.
type PlanOptions struct {
	Into      string // the directory of the plan
	Shards    int    // how many; 0 for a number that suits the source
	ShardSize int64  // mean bytes of a shard; 0 for a number that suits the source
	Sealift   string // the version of the program
}

// planning is one execution of Plan.
type planning struct {
	*run
	into    PlanOptions
	path    string       // of the plan, absolute
	dir     *fsys.Dir    // nil until it exists
	lock    *fsys.Lock   // of dir; nil where there are no locks
	finder  *fsys.Finder // of the source
	id      string       // of the plan; of an interrupted planner until planner is set, "" for none
	planner *shard.Planner
	late    map[string]bool // paths of files that merge copies
	levels  []int           // of the manifests of each destination
	// trusted: an interrupted planner of this plan has moved the manifests of the destination
	// aside, and no task has begun, so their lines are right.
	trusted []bool
}

// Plan splits the copy that o describes into shards and writes the plan. It makes all refusals
// of Run, and leaves the destinations marked, so that only tasks of the plan write there. The
// error is a *failure.RefusedError if nothing was written, and the cause of ctx's end if Plan
// was stopped. Without an error, the plan is nil if something was reported that has to be mended
// first.
func Plan(ctx context.Context, o *Options, into PlanOptions, c *counters.Set) (plan *shard.Plan, err error) {
	if o.MHL != nil || o.MediaList != nil || o.Bag != nil {
		return nil, failure.Refuse("--mhl and --bag need the whole tree at once, so they cannot be planned; copy without them, and add the history with sealift sum --mhl")
	}
	fsys.Umask()
	rt, err := route.Resolve(route.Options{
		Source: o.Source, Targets: o.Targets, Hashes: o.Hashes, Manifest: o.Manifest,
		Backup: o.BackupDir, Filtered: o.Filter != nil || o.Only != nil, FS: o.FS,
	})
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
	p.run = &run{
		opts: opts, counters: c, route: rt, privileged: fsys.Privileged(), names: maphash.MakeSeed(),
		outer: ctx, listed: len(opts.Hashes), memory: fsys.Memory(), sheet: timing.NewSheet(len(rt.Destinations)),
		messages: make(chan message, jobsAhead), summary: &Summary{},
	}
	p.openJournal = func(root *fsys.Dir, _ string) (*resume.Journal, error) {
		return resume.OpenJournalToPlan(root, p.id)
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	p.clock = p.sheet.Clock()
	if p.source, p.sourceInfo, err = rt.OpenSource(); err != nil {
		return nil, failure.Refuse("source %s: %s", quoteName(o.Source), route.Reason(err))
	}
	defer p.source.Close()
	c.Phase.Store(int32(counters.PhaseScanning))
	var collector sync.WaitGroup
	collector.Go(p.collect)
	plan, err = p.make()
	if plan == nil {
		p.takeBack()
	}
	p.close()
	close(p.messages)
	collector.Wait()
	c.Phase.Store(int32(counters.End(plan == nil)))
	return plan, err
}

// openInto opens and locks the directory of the plan, if it exists.
func (p *planning) openInto(system *fsys.FS) (err error) {
	p.dir, err = system.OpenRoot(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		p.id, err = shard.Inspect(p.dir)
	}
	if err == nil {
		p.lock, err = shard.Lock(p.dir)
	}
	if err != nil {
		return failure.Refuse("plan directory %s: %s", quoteName(p.into.Into), route.Reason(err))
	}
	return nil
}

func (p *planning) closeInto() {
	if p.planner != nil {
		p.planner.Close()
	}
	if p.lock != nil {
		p.lock.Unlock()
	}
	if p.dir != nil {
		p.dir.Close()
	}
	if p.finder != nil {
		p.finder.Close()
	}
}

// make makes the plan. It returns nil without an error if something was reported.
func (p *planning) make() (*shard.Plan, error) {
	p.openManifests()
	if err := p.openDestinations(); err != nil {
		return nil, err
	}
	p.measureSpace()
	p.warnBag()
	if p.hasFailed() {
		return nil, nil
	}
	steps := []func() error{p.begin, p.stateExpected, p.statePrevious, p.scanSource}
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
	if errors.Is(err, errCollision) { // it was reported
		return nil, nil
	}
	if err != nil {
		return nil, p.explain(err)
	}
	return plan, nil
}

// hasFailed reports whether a plan would lack something.
func (p *planning) hasFailed() bool {
	p.sync()
	return p.summary.Errors > 0 || p.summary.Mismatches > 0
}

// explain reports an error of the plan itself, and returns the cause if Plan was stopped.
func (p *planning) explain(err error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	var bad *catalog.ListError
	if errors.As(err, &bad) {
		p.report(fileEvent(EventFailed, bad.Name, "", failure.StageManifest, bad.Err))
	} else if known := (*failure.FileError)(nil); errors.As(err, &known) {
		p.report(Event{Kind: EventFailed, Path: known.Path, Target: known.Target, Err: known})
	} else {
		p.report(fileEvent(EventFailed, "", p.into.Into, failure.StageWrite, err))
	}
	return nil
}

// openDestinations makes, locks and examines the destinations. It refuses what Run refuses.
func (p *planning) openDestinations() error {
	for i, d := range p.route.Destinations {
		p.targets = append(p.targets, &target{Destination: d, index: i})
	}
	p.targetsLeft.Store(int64(len(p.targets)) + 1) // to lose all of them is reported, and ends nothing
	p.levels, p.trusted = make([]int, len(p.targets)), make([]bool, len(p.targets))
	for i, t := range p.targets {
		err := p.openDestination(i, t)
		if refused := (*failure.RefusedError)(nil); errors.As(err, &refused) {
			return err
		}
		if err != nil {
			t.drop(p.run, "", err)
		}
	}
	return nil
}

func (p *planning) openDestination(i int, t *target) error {
	if err := t.open(p.run); err != nil {
		return err
	}
	if _, found, err := resume.ReadPlanMark(t.root); err != nil {
		return err
	} else if p.trusted[i] = found; !found && t.journal.HoldsLogs() {
		return failure.Refuse("destination %s: an interrupted copy has left its journal there; run that copy again to its end, or remove %s if it is not wanted",
			quote.Name(t.Given), quoteName(resume.JournalName("")))
	}
	if err := t.openCatalog(p.run); err != nil {
		return err
	}
	p.levels[i] = t.catalog.Level()
	for _, file := range t.catalog.LateFiles() {
		p.late[file] = true
	}
	return t.openBackup(p.run)
}

// begin makes the directory of the plan and the planner.
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
		Kind: shard.KindCopy, Copy: planned(p.opts), Sealift: p.into.Sealift,
		Source: shard.RootOf(source, p.sourceInfo), Shards: p.into.Shards, ShardSize: p.into.ShardSize,
		Links: p.opts.Preserve&PreserveLinks != 0, BeforeCommit: p.settle,
	}
	for _, l := range p.manifests.Lists() {
		o.Lists = append(o.Lists, shard.List{Name: shard.Text(l.Name), Hash: l.Hash})
	}
	for i, t := range p.targets {
		info, err := t.root.Stat()
		if err != nil {
			return err
		}
		path, err := fsys.AbsolutePath(t.Given)
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, shard.Target{Root: shard.RootOf(path, info), Level: p.levels[i]})
	}
	if target := p.folding(); target != nil {
		o.Collides = func(dir, other string) {
			err := fmt.Errorf("%s is the same name to the destination, so two tasks could write to one directory", quoteName(other))
			p.report(fileEvent(EventFailed, dir, target.Given, failure.StageCheck, err))
		}
	}
	p.finder = newFinder(p.source)
	o.Missing = func(path string) bool { return p.wanted(path) && p.absent(p.finder, path) }
	p.planner, err = shard.NewPlanner(p.dir, o)
	if err == nil {
		p.id = p.planner.ID()
	}
	return err
}

// makeInto makes the directory of the plan, which no other user may read, and locks it.
func (p *planning) makeInto() error {
	if _, err := makeDirs(parentOf(p.path)); err != nil {
		return err
	}
	parent, err := p.opts.FS.OpenRoot(parentOf(p.path))
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
	if p.lock, err = shard.Lock(p.dir); err != nil {
		return err
	}
	return parent.SyncToDrive()
}

// stateExpected gives the planner what the manifests of the source list.
func (p *planning) stateExpected() error {
	defer p.manifests.Close()
	lists := p.manifests.Lists()
	absent := absentFiles{run: p.run}
	err := p.manifests.EachListed(func(list int, file string, digest []byte) error {
		if !shard.IsPath(file) { // nothing in the source has it
			p.reportOutside(&absent, lists[list].Name, file)
			return p.ctx.Err()
		}
		return errors.Join(p.planner.Expect(file, shard.ListDigest{List: list, Digest: digest}), p.ctx.Err())
	})
	absent.warn()
	return err
}

// reportOutside reports a path that leads out of the source.
func (p *planning) reportOutside(absent *absentFiles, list, file string) {
	if p.opts.SourceManifest == SourceManifestStrict {
		err := fmt.Errorf("%s lists it, and it is absent", quoteName(list))
		p.report(fileEvent(EventMismatch, file, "", failure.StageVerify, err))
		return
	}
	absent.add(list, file)
}

// statePrevious gives the planner the lines of the destinations' earlier manifests, and closes
// these: their indexes use memory.
func (p *planning) statePrevious() error {
	for i, t := range p.targets {
		p.resumeCatalog(i)
		err := t.catalog.EachKept(func(slot int, file string, digest []byte) error {
			return errors.Join(p.planner.Previous(file, shard.LineDigest{Target: i, Hash: slot, Digest: digest}), p.ctx.Err())
		})
		t.catalog.Close()
		t.catalog = nil
		if err != nil && p.ctx.Err() == nil {
			return &failure.FileError{Target: t.Given, Stage: failure.StageManifest, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resumeCatalog says to a catalog whether manifests that were moved aside are right.
func (p *planning) resumeCatalog(i int) {
	if p.trusted[i] {
		p.targets[i].catalog.Resume(untouched{})
	} else {
		p.targets[i].catalog.Resume(nil)
	}
}

// untouched are interrupted runs that have changed nothing.
type untouched struct{}

// settle is the last step before plan.json gets its name: it marks the destinations, and moves
// the manifests aside that the copy will replace.
func (p *planning) settle() error {
	if p.hasFailed() {
		return errCollision
	}
	for i, t := range p.targets {
		if err := p.settleAt(i, t); err != nil {
			return &failure.FileError{Target: t.Given, Stage: failure.StageManifest, Err: err}
		}
	}
	return nil
}

var errCollision = errors.New("names of directories are one to a destination")

// folding returns a destination that takes names for the same which differ in case; nil for none.
// The journal shows it. FUSE may describe it by two inode numbers.
func (p *planning) folding() *target {
	for _, t := range p.targets {
		if _, err := t.root.Lstat(strings.ToUpper(resume.JournalName(""))); err == nil {
			return t
		}
	}
	return nil
}

func (p *planning) settleAt(i int, t *target) error {
	if err := t.checkName(); err != nil {
		return err
	}
	if err := t.journal.MarkPlan(resume.PlanMark{ID: p.id, Path: p.path}, true); err != nil {
		return err
	}
	if err := t.syncWay(); err != nil {
		return err
	}
	if err := t.openCatalog(p.run); err != nil {
		return err
	}
	defer func() {
		t.catalog.Close()
		t.catalog = nil
	}()
	if t.catalog.Level() != p.levels[i] {
		return errors.New("another process has written a manifest meanwhile; plan again")
	}
	p.resumeCatalog(i)
	if err := t.catalog.Start(); err != nil {
		return err
	}
	return t.catalog.MoveAside()
}

// takeBack removes what was made, because there is no plan. A destination with a mark keeps it: the
// next planner takes it over.
func (p *planning) takeBack() {
	for _, t := range p.targets {
		if t.root == nil {
			continue
		}
		if _, found, err := resume.ReadPlanMark(t.root); err == nil && !found {
			t.undo()
		}
	}
}

// warnBag warns that a plan checks less of a bag than a copy does.
func (p *planning) warnBag() {
	if p.listed == 0 || p.opts.part() || p.opts.SourceManifest == SourceManifestIgnore {
		return
	}
	if _, isBag, err := catalog.IsBag(p.source); err == nil && isBag {
		err := errors.New("the source is a bag, and a planned copy does not check that it is complete; check a destination with sealift verify when it is merged")
		p.report(Event{Kind: EventWarning, Err: err})
	}
}
