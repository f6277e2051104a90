package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// completer is the part of a run that completes directories and destinations. Only the goroutine that Run
// is called in completes destinations.
type completer struct {
	linker
	mode         mode
	activity     *timing.Activity  // activity of the goroutine that calls Run
	started      time.Time         // time when the run began
	begun        fsys.Time         // the same time, as file systems have it
	manifests    *catalog.Source   // manifests in the source
	recorders    []record.Recorder // recorders that the user has requested
	last         lastFile
	listedHashes int // how many of the hashes, counted from the first, have manifests at the destinations
}

// finish ends the run at every destination. It makes everything durable, reads it back if that was
// requested, and writes the manifests. The result is that of stopped.
func (r *run) finish() (stopped bool) {
	r.counters.Phase.Store(int32(counters.PhaseFlushing))
	r.collector.await() // no worker runs any more, so this goroutine may now use the collector's data
	r.collector.undone.end(r.ctx.Err() != nil)
	r.background.StopCheckpoints(func(d *dest.Destination) { r.activity.At(d.Place()) }) // a checkpoint may be running
	r.activity.At(timing.None)
	durable := r.flush()
	r.background.EndWriteback()
	if r.opts.Verify != VerifyOff && !r.stopped() {
		begun := time.Now()
		r.verify(durable)
		r.collector.summary.ReadBack = time.Since(begun)
	}
	r.counters.Phase.Store(int32(counters.PhaseFlushing)) // r.verify has set another one
	if !r.stopped() {
		r.mode.replay(r)
	}
	stopped = r.stopped()
	if !stopped {
		r.writeLast(durable)
	}
	r.collector.await()
	r.collector.summary.Total, r.collector.summary.LeftOut = r.collector.total(r.ctx.Err() != nil), r.leftOut.Load()
	for _, t := range r.targets {
		r.activity.At(t.Place())
		s := t.summarize(r.collector.at[t.Index].TargetSummary)
		switch {
		case stopped:
			if r.outer.Err() == nil { // the run has stopped itself, at a failure
				r.markIncomplete(t)
			}
			t.abandon(r)
		case !r.rules.completes:
		case slices.Contains(durable, t):
			s.Manifests = r.finishTarget(t)
			r.markIncomplete(t) // again, because finishTarget can add failures
		default:
			r.markIncomplete(t)
		}
		if t.Log != nil && !t.finished {
			s.PartialFiles, s.PartialBytes = t.Log.Partials()
		}
		r.collector.summary.Targets = append(r.collector.summary.Targets, s)
	}
	if !stopped {
		r.mode.finish(r, durable)
	}
	return stopped
}

// flush makes everything durable that was copied, and returns the destinations for which that worked. Those
// on different devices are flushed at the same time, so the time of one does not contain that of a slower one.
func (r *run) flush() (durable []*target) {
	var open []*target
	for _, t := range r.targets {
		if !r.opts.DryRun && t.Root != nil && t.Journal != nil {
			open = append(open, t)
		}
	}
	isDurable := make([]bool, len(open))
	var devices sync.WaitGroup
	for _, group := range jobs.ByDevice(len(open), func(i int) uint64 { return open[i].ID.Dev }) {
		devices.Go(func() {
			activity := r.sampler.Activity()
			defer activity.At(timing.None)
			for _, i := range group {
				if r.stopped() {
					return
				}
				t := open[i]
				activity.At(t.Place())
				isDurable[i] = t.FlushEnd(r.opts.Verify == VerifyOff, r.stopped) // reading back takes long, and may be interrupted
				if isDurable[i] {
					r.collector.at[t.Index].Flushed = time.Since(r.started)
				}
			}
		})
	}
	devices.Wait()
	for i, t := range open {
		if isDurable[i] {
			durable = append(durable, t)
		}
	}
	return durable
}

// finishTarget writes the manifests of a destination on which everything is
// durable. It reports what goes wrong.
func (r *completer) finishTarget(t *target) (written []record.Written) {
	err := t.CheckName()
	if err != nil {
		if t.Dropped() { // the failure was reported
			return nil
		}
		t.FailEnd(failure.StageCheck, fmt.Errorf("the copy is no longer under this name: %w", err))
		return nil
	}
	written, err = t.records.Finish(r.endOf(t))
	if err != nil {
		t.FailEnd(failure.StageManifest, err)
		return written
	}
	r.markIncomplete(t)
	t.records.Close() // FUSE cannot remove an open file's directory
	stays := r.needsJournal(t)
	if err = t.RemoveLeftovers(); err != nil {
		t.FailEnd(failure.StageJournal, err)
		return written
	}
	t.finished, t.journalStays = true, stays
	if !r.rules.planned { // a merge calls closeTarget later, for all destinations together
		r.closeTarget(t)
	}
	return written
}

// closeTarget removes the journal of a destination whose manifests are written, and sets the
// metadata of its root.
func (r *completer) closeTarget(t *target) {
	t.CloseLogs()
	if !t.journalStays {
		if r.rules.planned { // set everything now: once the journal is removed, a later merge sets only mode and times, see closeRoot
			r.completeRoot(t, 0o700)
		}
		if err := t.Journal.Remove(); err != nil {
			t.FailEnd(failure.StageJournal, err)
			return
		}
	}
	t.GiveBack()
	r.completeRoot(t, 0)
	if r.opts.Sync != dest.SyncNone {
		if err := t.Root.Sync(); err != nil {
			t.FailEnd(failure.StageSync, err)
		}
	}
}

// completeRoot sets the metadata of the root if rootOurs is set. It adds permissions to the mode.
func (r *completer) completeRoot(t *target, permissions uint32) {
	if t.rootMeta == nil {
		return
	}
	have, err := t.Root.Stat()
	if err == nil {
		meta := *t.rootMeta
		// Windows hides the root of a drive, which must not hide its copy.
		meta.Info.Mode = meta.Info.Mode&^fsys.ModeAttributes | have.Mode&fsys.ModeAttributes | permissions
		isNew := t.Created
		_, err = t.FileSystems.Root().Apply(&t.Root.Object, &meta, have, isNew || have.IsUnfinished(), !isNew)
	}
	if err != nil {
		t.FailEnd(failure.StageMetadata, err)
	}
}

// needsJournal reports whether a later run needs the journal of a destination whose manifests are
// written.
func (r *completer) needsJournal(t *target) bool {
	switch {
	case t.unmarked: // only the journal shows that the copy is incomplete
	case t.records.NeedsJournal():
	case t.Journals.Keep.Load(), t.FileSystems.TemporaryLeft.Load(), t.Log.Failed(): // not every file is known to be on the device, or a temporary is left
	case t.RootOurs && t.rootMeta == nil: // the next run would not know that Sealift made the root, whose metadata is not set
	case t.Earlier.Interrupted && r.leavesOut(t):
	default:
		return false
	}
	return true
}

// leavesOut reports whether an interrupted run may have left files at the destination that this
// run did not check. These have failed, were left alone, or are excluded by the filters.
func (r *completer) leavesOut(t *target) bool {
	r.collector.await()
	return r.collector.summary.Errors > 0 || r.collector.summary.Mismatches > 0 || t.HasWarned(kindSuspect) || t.Earlier.SetAside && r.opts.part()
}

// abandon ends a stopped run at one destination. It writes no manifest. If the next run can continue
// with some of the data, abandon flushes that data and keeps the journal.
func (t *target) abandon(r *run) {
	if t.Journal == nil {
		return
	}
	if !t.Dropped() && !t.FileSystems.Failed.Load() && r.opts.Sync != dest.SyncNone && t.WorthKeeping() {
		t.Log.RecordKept()
		if err := t.Checkpoint(false); err != nil {
			t.DropUnflushed("", err)
		}
	}
	switch {
	case r.rules.planned: // the merge removes the journal
	case t.unmarked: // only the journal shows that the copy is incomplete
	case t.RootOurs: // the next run would not know that Sealift made the root
	case t.WorthKeeping():
	case t.records.NeedsJournal():
	default:
		t.CloseLogs()
		_ = t.Journal.Remove() // it is empty, so the next run does not need it
	}
}

var (
	errFailFast   = errors.New("stopped at the first failure")
	errSourceGone = errors.New("the source cannot be read any more")
)
