package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// run is one execution of Run.
type run struct {
	opts       *Options
	counters   *counters.Set
	route      *route.Route
	source     *fsys.Dir
	sourceGone atomic.Bool // its root cannot be read any more, which was reported
	sourceInfo fsys.Info   // of the directory, as it was at the start
	targets    []*target
	privileged bool
	mode       mode
	rules      rules // of the mode

	outer       context.Context // Run's own: ends when the user stops the run
	ctx         context.Context // also ends at the first failure with FailFast, without the source, and without any destination
	cancel      context.CancelCauseFunc
	targetsLeft atomic.Int64

	sheet     *timing.Sheet
	clock     *timing.Clock // of the goroutine that Run is called in
	pipe      *pipe.Pipe
	sets      sync.Pool // of *hash.Set
	entries   sync.Pool // of *entry, to be used again
	results   sync.Pool // of *result, the same
	pairs     sync.Map  // pairKey → *pair
	noXattrs  sync.Map  // devices of the source without extended attributes
	begun     fsys.Time // when the run began
	toVerify  amount    // of the source, if verifying reads it again; the collector's
	seen      int64     // regular files that were processed; the collector's
	memory    int64     // bytes that the machine has for us, 0 if that is not known
	devices   []*device
	gauge     *pipe.Gauge
	largest   atomic.Int64 // bytes of the largest file met
	noDirect  sync.Once    // the warning that the page cache cannot be bypassed
	links     linkGroups
	names     maphash.Seed    // of all name sets
	manifests *catalog.Source // that the source holds
	histories *histories      // nil without Options.MHL
	unlisted  sync.Map        // *walk.Dir of the source whose files no manifest lists
	jobs      chan job
	messages  chan message
	summary   *Summary
	undone    undone // the collector's, until it is synced with

	bagMode      bagMode
	listedHashes int              // how many of opts.Hashes, from the first, have manifests at the destinations
	validates    bool             // the source is a bag, and is validated
	payload      bag.Oxum         // of a source that is a bag, as it was read; the collector's
	held         *heldDeclaration // nil if the source has none that is valid
	emptyDirs    emptyDirs

	late struct { // files of the source that have a name of this run's manifests: they are copied last
		sync.Mutex
		jobs []job
	}
	reserved     sync.Once
	warnedUnread sync.Once // that extended attributes must not be read

	warnedNotKept sync.Map // kinds of metadata of the source that no copy keeps, once warned about
}

// job is one entry of the source for a worker. Its directory is held.
type job struct {
	dir     *walk.Dir
	name    string
	kind    fsys.Kind
	planned *shard.Entry // what the shard says of it; nil without one
}

// Run copies as o says and reports through o.Report and c. The error is a
// *failure.RefusedError if the run was refused before anything was written, and the cause
// of ctx's end if the run was stopped. The summary, which is nil only if the run was
// refused, counts everything else that went wrong. When Run returns, all its goroutines
// have ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	return execute(ctx, o, treeCopy{}, c)
}

// execute is Run for any mode.
func execute(ctx context.Context, o *Options, m mode, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	fsys.Umask() // read now: reading it later would change it for an instant, for all goroutines
	opts := o.withDefaults()
	bagMode := o.bagModeOf()
	if err := o.refuseBagOptions(bagMode); err != nil {
		return nil, err
	}
	places := route.Options{
		Source: o.Source, Targets: o.Targets, Hashes: o.Hashes[:o.lines()], Manifest: o.Manifest,
		Backup: o.BackupDir, Filtered: o.Filter != nil || o.Only != nil, FS: o.FS,
	}
	if bagMode == bagMake {
		places.Payload = bag.PayloadName
	}
	answers := m.rules(o)
	if bagMode != bagNone || !answers.completes { // its manifests are in no place that has to be checked
		places.Hashes, places.Manifest = nil, ""
	}
	rt, err := route.Resolve(places)
	if err != nil {
		return nil, err
	}
	if err := opts.fitDescriptors(fsys.OpenLimit()); err != nil {
		return nil, err
	}
	r := &run{opts: opts, counters: c, route: rt, privileged: fsys.Privileged(), names: maphash.MakeSeed(), bagMode: bagMode, mode: m, rules: answers}
	if r.source, r.sourceInfo, err = rt.OpenSource(); err != nil {
		return nil, failure.Refuse("source %s: %s", quoteName(o.Source), route.Reason(err))
	}
	r.outer = ctx
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	stop, err := m.begin(ctx, r)
	if err == nil {
		defer stop()
		defer r.closeHistories()
		err = r.examineSource()
	}
	if err != nil {
		r.source.Close()
		return nil, err
	}
	r.memory = fsys.Memory()
	r.sheet = timing.NewSheet(len(rt.Destinations))
	r.clock = r.sheet.Clock()
	r.pipe = &pipe.Pipe{
		Pool:      pipe.NewPool(opts.BlockSize, opts.Memory),
		QueueSize: opts.QueueSize,
		KeepHoles: opts.Sparse == SparseAuto,
		Bytes:     &c.Bytes,
	}
	r.sets.New = func() any { return hash.NewSet(opts.Hashes) }
	if opts.BytesPerSecond > 0 {
		r.pipe.Limiter = pipe.NewLimiter(opts.BytesPerSecond, opts.BlockSize)
	}
	r.begun = fsys.Time{Sec: begun.Unix(), Nsec: int64(begun.Nanosecond())}
	r.links.groups, r.links.pendingLinks = map[fsys.ID]*linkGroup{}, newPendingLinks(len(rt.Destinations), opts.pendingLinksMemory, r.newPendingLinksFile)
	r.jobs = make(chan job, jobsAhead)
	r.messages = make(chan message, jobsAhead)
	r.summary = &Summary{DryRun: opts.DryRun}
	r.undone = r.newUndone()

	var collector sync.WaitGroup
	collector.Go(r.collect)
	var stopped bool
	r.clock.At(timing.List, timing.Source)
	r.openManifests()
	r.holdDeclaration()
	r.warnHistories()
	err = r.openTargets()
	if err == nil {
		r.chargeMemory()
		r.measureSpace()
		r.showDestinations()
		r.startBackground()
		r.clock.At(timing.Read, timing.Source)
		r.work() // closes the source
		stopped = r.finish()
	} else {
		r.source.Close()
	}
	r.close()
	close(r.messages)
	collector.Wait()
	c.Phase.Store(int32(counters.End(stopped || err != nil)))
	if err != nil {
		return nil, err
	}
	r.summary.Elapsed = time.Since(begun)
	r.clock.Stop()
	r.summarizeTimes()
	if stopped {
		return r.summary, context.Cause(ctx) // nil if the run stopped itself
	}
	return r.summary, nil
}

// examineSource finds out whether the source is a bag or has a history, and makes the refusals
// that follow from its names.
func (r *run) examineSource() error {
	if r.opts.MHL != nil {
		if err := r.openHistories(); err != nil {
			return err
		}
	}
	r.listedHashes = len(r.opts.Hashes)
	if err := r.recognizeBag(); err != nil {
		return err
	}
	return r.refuseNames()
}

// jobsAhead is how many entries the walk may be ahead of the workers, and these of the
// collector: enough to even out their speeds, few enough to hold in memory.
const jobsAhead = 256

// chargeMemory counts the time of file systems in memory as CPU time, because no device
// is waited for there.
func (r *run) chargeMemory() {
	if r.opts.inMemory(r.source) {
		r.sheet.Charge(timing.Source, timing.CPU)
	}
	for _, t := range r.targets {
		if t.root != nil && r.opts.inMemory(t.root) {
			r.sheet.Charge(t.place(), timing.CPU)
		}
	}
}

// work walks the source and copies.
func (r *run) work() {
	root := walk.NewRoot(r.newHandles().Root(r.source), r.sourceInfo, r)
	root.Hold() // until copyLate has copied the source's own manifests, which come last
	r.counters.Phase.Store(int32(counters.PhaseCopying))
	stopScan := r.mode.startScan(r)
	r.clock.At(timing.Idle, timing.None)
	var workers sync.WaitGroup
	for range r.opts.Workers {
		workers.Go(r.worker)
	}
	r.mode.feed(r, root)
	close(r.jobs)
	workers.Wait()
	r.clock.At(timing.Read, timing.Source)
	r.copyLate()
	r.mode.findAbsent(r)
	r.checkOxum()
	r.warnEmptyDirs()
	r.clock.At(timing.Commit, r.targets[0].place()) // only directories are left to complete
	r.links.release()
	for _, t := range r.targets {
		r.learnOwner(t)
	}
	root.Done()
	stopScan()
}

// worker copies the entries that the walk has found, until there are no more.
func (r *run) worker() {
	clock := r.sheet.Clock()
	defer clock.Stop()
	shown := r.counters.NewWorker()
	for {
		var j job
		var more bool
		select {
		case j, more = <-r.jobs:
		default:
			clock.At(timing.List, timing.Source)
			j, more = <-r.jobs
		}
		if !more {
			return
		}
		if r.ctx.Err() == nil && j.kind != fsys.Directory { // which is only completed
			e := r.newEntry(j, clock)
			if j.kind == fsys.Regular {
				shown.Begin(e.path)
			}
			r.process(e)
			shown.End()
		}
		j.dir.Done()
	}
}

func (r *run) close() {
	if r.manifests != nil {
		r.manifests.Close()
	}
	for _, d := range r.devices {
		d.Close()
	}
	for _, t := range r.targets {
		if t.catalog != nil {
			t.catalog.Close()
		}
		if t.log != nil {
			t.log.Close()
		}
		if t.journal != nil {
			t.journal.Close()
		}
		if t.bag.root != nil {
			t.bag.root.Close()
		}
		t.fileSystems.close()
		t.closeBackup()
		t.giveBack(r)
		if t.handle != nil {
			t.handle.Close()
		}
	}
}
