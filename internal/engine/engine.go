package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/links"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// run is one execution of Run.
type run struct {
	completer
	found   atomic.Bool  // true if the source has an entry
	leftOut atomic.Int64 // number for Summary.LeftOut
	jobs    chan job

	opening    dest.Opening
	background dest.Background
}

// job is one entry of the source for a worker. Its directory is held. The note is the entry in the
// shard, a *shard.Entry; it is nil if the run has no shard.
type job = walk.Item

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
	recorders, payload, err := o.recorders()
	if err != nil {
		return nil, err
	}
	places, lines := o.places(), linesOf(recorders)
	places.Payload, places.Hashes, places.Manifest = payload, lines.Hashes, lines.Manifest
	if !m.rules(o).completes { // a task writes no manifests
		places.Hashes, places.Manifest = nil, ""
	}
	rt, err := route.Resolve(places)
	if err != nil {
		return nil, err
	}
	if err := opts.fitDescriptors(fsys.OpenLimit()); err != nil {
		return nil, err
	}
	r, err := newRun(ctx, opts, m, rt, c)
	if err != nil {
		return nil, err
	}
	defer r.cancel(nil)
	r.recorders, r.started, r.begun = recorders, begun, fsys.Time{Sec: begun.Unix(), Nsec: int64(begun.Nanosecond())}
	if err = m.begin(ctx, r); err == nil {
		defer r.closeRecorders()
		err = r.examineSource()
	}
	if err != nil {
		r.source.Close()
		return nil, err
	}
	r.prepare()

	var collector sync.WaitGroup
	collector.Go(r.collector.run)
	stopped, err := r.copy()
	r.close()
	r.collector.end()
	collector.Wait()
	r.sampler.Stop()
	c.Phase.Store(int32(counters.End(stopped || err != nil)))
	if err != nil {
		return nil, err
	}
	r.collector.summary.Elapsed = time.Since(begun)
	r.summarizeShares()
	if stopped {
		return r.collector.summary, context.Cause(ctx) // nil if the run stopped itself
	}
	return r.collector.summary, nil
}

// places returns the options of package route.
func (o *Options) places() route.Options {
	return route.Options{
		Source: o.Source, Targets: o.Targets, Hashes: o.Hashes[:o.lines()], Manifest: o.Manifest,
		Backup: o.BackupDir, Filtered: o.Filter != nil || o.Only != nil, AllowUnmounted: o.AllowUnmounted, FS: o.FS,
	}
}

// newRun returns a run with an open source, which the caller closes. The caller also calls cancel.
func newRun(ctx context.Context, o *Options, m mode, rt *route.Route, c *counters.Set) (r *run, err error) {
	r = &run{}
	r.mode = m
	r.opts, r.counters, r.route, r.rules, r.outer = o, c, rt, m.rules(o), ctx
	r.shared, r.mayCommit, r.recorded, r.names = m, r.checkCommit, m.previous, maphash.MakeSeed()
	r.listed = func(e *entry) (catalog.Expectation, error) {
		if e.Kind != fsys.Regular {
			return r.manifests.Irregular(e.Path), nil
		}
		return m.expected(r, e)
	}
	if r.source, r.sourceInfo, err = rt.OpenSource(); err != nil {
		return nil, failure.Refuse("source %s: %s", quoteName(o.Source), route.Reason(err))
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	for i, d := range rt.Destinations {
		r.targets = append(r.targets, &target{Destination: dest.New(d, i, r.report, r.loseTarget, c)})
	}
	r.collector = newCollector(r)
	r.cache = source.Cache{
		Mode: o.Cache, BlockSize: o.BlockSize, Memory: fsys.Memory(), Counters: c, Untouched: o.DryRun,
		Warn: func(err error) { r.report(event.Event{Kind: event.Warning, Err: err}) },
	}
	r.metadata = metadata.Reader{
		Rules: metadata.Rules{Preserve: o.Preserve, Privileged: fsys.Privileged()},
		Warn:  func(path string, err error) { r.report(event.Event{Kind: event.Warning, Path: path, Err: err}) },
	}
	r.opening = dest.Opening{
		Settings: dest.Settings{Rules: &r.metadata.Rules, Sync: o.Sync, DryRun: o.DryRun, SharesSyncErrors: o.sharesSyncErrors},
		Planned:  r.rules.planned, Handles: r.newHandles, Journal: m.openJournal,
	}
	return r, nil
}

// examineSource makes the refusals that follow from the names in the source. If the source is a bag, the
// hashes of its manifests are added to those of the run, so that the copy validates the bag. A copy with
// filters, without hashes, with --source-manifest=ignore or with --mhl does not.
func (r *run) examineSource() error {
	if err := r.refuseSource(); err != nil {
		return err
	}
	r.listedHashes = len(r.opts.Hashes)
	hashes, isBag, err := r.findBag()
	if err != nil || !isBag || r.opts.MHL != nil || r.opts.part() {
		return err
	}
	r.validates = true // all manifests of the bag have to be right, and to list every file of the payload
	for _, a := range hashes {
		if !slices.Contains(r.opts.Hashes, a) {
			r.opts.Hashes = append(slices.Clip(r.opts.Hashes), a)
		}
	}
	return nil
}

// jobsAhead is the length of the queue between the walk and the workers, and of the queue between
// the workers and the collector. It evens out their speeds and bounds their memory.
const jobsAhead = 256

// prepare makes what the goroutines of the run share.
func (r *run) prepare() {
	o := r.opts
	r.sampler = timing.Start(len(r.route.Destinations))
	r.activity = r.sampler.Activity()
	r.pipe = &pipe.Pipe{
		Pool:      pipe.NewPool(o.BlockSize, o.Memory),
		QueueSize: o.QueueSize,
		KeepHoles: o.Sparse == SparseAuto,
		Bytes:     &r.counters.Bytes,
	}
	r.sets.New = func() any { return hash.NewSet(o.Hashes) }
	if o.BytesPerSecond > 0 {
		r.pipe.Limiter = pipe.NewLimiter(o.BytesPerSecond, o.BlockSize)
	}
	r.linked = links.New(r.newSpill, o.linkedMemory)
	r.jobs = make(chan job, jobsAhead)
	r.collector.undone = r.newUndone()
}

// copy opens the destinations, copies to them and completes them. It closes the source. The error
// is a refusal: then nothing was copied.
func (r *run) copy() (stopped bool, err error) {
	r.activity.At(timing.Source)
	r.openManifests()
	r.readLast()
	r.reportUnfinished()
	if err := r.openTargets(); err != nil {
		r.source.Close()
		return false, err
	}
	r.chargeMemory()
	r.targets.measureSpace()
	r.targets.show(r.counters)
	r.startBackground()
	r.activity.At(timing.Source)
	r.work() // closes the source
	return r.finish(), nil
}

// startBackground starts the goroutines that run beside the workers.
func (r *run) startBackground() {
	b := &r.background
	b.CheckEvery, b.Unlimited, b.Window, b.Drop = r.opts.checkEvery, r.opts.DirtyWindow == DirtyWindowOff, max(r.opts.DirtyWindow, 0), r.cache.Drops
	var used []*dest.Destination
	for _, t := range r.targets {
		if !r.opts.DryRun && !t.Dropped() {
			used = append(used, t.Destination)
		}
	}
	b.Start(r.ctx, used, r.counters)
}

// chargeMemory counts the time of file systems in memory as CPU time, because no device
// is waited for there.
func (r *run) chargeMemory() {
	if r.opts.inMemory(r.source) {
		r.sampler.Charge(timing.Source, timing.CPU)
	}
	for _, t := range r.targets {
		if t.Root != nil && r.opts.inMemory(t.Root) {
			r.sampler.Charge(t.Place(), timing.CPU)
		}
	}
}

// work walks the source and copies.
func (r *run) work() {
	root := walk.NewRoot(r.newHandles().Root(r.source), r.sourceInfo, r)
	root.Hold() // until the groups of hard links, and what is absent, are known
	r.counters.Phase.Store(int32(counters.PhaseCopying))
	r.counters.Verifies.Store(r.opts.Verify != VerifyOff && !r.opts.DryRun)
	stopScan := r.mode.startScan(r)
	r.activity.At(timing.None)
	var workers sync.WaitGroup
	for range r.opts.Workers {
		workers.Go(r.worker)
	}
	r.mode.feed(r, root)
	close(r.jobs)
	workers.Wait()
	r.copyLinked()
	r.activity.At(timing.Source)
	r.mode.findAbsent(r)
	r.checkCount()
	r.warnWalked()
	r.activity.At(r.targets[0].Place()) // the rest of the work is to complete directories
	root.Done()
	stopScan()
}

// worker copies the entries that the walk has found, until there are no more.
func (r *run) worker() {
	activity := r.sampler.Activity()
	defer activity.At(timing.None)
	shown := r.counters.NewWorker()
	for {
		var j job
		var more bool
		select {
		case j, more = <-r.jobs:
		default:
			activity.At(timing.Source)
			j, more = <-r.jobs
		}
		if !more {
			return
		}
		if r.ctx.Err() == nil && j.Kind != fsys.Directory { // a directory needs only the Done below
			e := r.newEntry(j, activity, shown)
			if j.Kind == fsys.Regular {
				shown.Begin(e.Path)
			}
			r.process(e)
			shown.End()
		}
		j.Dir.Done()
	}
}

// close closes the manifests and destinations, and ends the goroutines of the devices.
func (r *run) close() {
	if r.manifests != nil {
		r.manifests.Close()
	}
	r.background.Close()
	for _, t := range r.targets {
		t.records.Close()
		t.CloseLogs()
		if t.Journal != nil {
			t.Journal.Close()
		}
		if t.outer != nil {
			t.outer.Close()
		}
		t.FileSystems.Close()
		if t.Backups != nil {
			t.Backups.Close()
		}
		t.GiveBack()
		if t.Handle != nil {
			t.Handle.Close()
		}
	}
}
