package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Leave completes a directory at all destinations: everything in it is done,
// so its own metadata can be set and will stay.
func (r *run) Leave(d *walk.Dir) {
	meta := &metadata{info: d.Info}
	var metaErr error
	loaded := false
	for _, dd := range d.State.(destDirs) {
		if dd.untried() && (d.Implied() && !(d.Parent == nil && dd.target.rootOurs) || r.ctx.Err() != nil) {
			continue
		}
		dir, ok := dd.acquire(r)
		if dir == nil || !ok {
			dd.close()
			continue
		}
		if !loaded && r.ctx.Err() == nil {
			loaded = true
			metaErr = r.dirXattrs(d, meta)
			if metaErr != nil {
				r.reportSource(d.Path(), failure.StageMetadata, metaErr)
			}
		}
		if err := r.leaveDest(dd, dir, meta, metaErr == nil); err != nil {
			r.failTarget(dd.target, d.Path(), failure.StageMetadata, err)
		}
		if dd.system.syncEach && r.ctx.Err() == nil {
			if err := dd.target.sync(dir); err != nil {
				dd.target.dropUnwritten(r, d.Path(), err)
			}
		}
		dd.release(dir)
		dd.close()
	}
	r.settleDir(d)
}

// settleDir sends to the collector where a directory was made or its metadata updated.
func (r *run) settleDir(d *walk.Dir) {
	if d.Parent == nil {
		return
	}
	f := &result{path: d.Path(), kind: fsys.Directory}
	for _, dd := range d.State.(destDirs) {
		switch {
		case dd.wasMade():
			f.targets = append(f.targets, targetResult{target: dd.target, done: outCreated})
		case dd.refreshed:
			f.targets = append(f.targets, targetResult{target: dd.target, done: outRefreshed})
		}
	}
	if len(f.targets) > 0 || slices.ContainsFunc(r.targets, (*target).isDropped) { // r.undone counts what those miss
		r.notes <- note{result: f}
	}
}

// wasMade reports whether this run made the directory, or would have.
func (dd *destDir) wasMade() bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.fresh && (dd.state == destReady || dd.state == destAbsent)
}

func (r *run) dirXattrs(d *walk.Dir, m *metadata) error {
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return nil
	}
	src, err := d.Acquire()
	if err != nil {
		return err
	}
	defer d.Release()
	return r.readXattrs(&src.Object, d.Path(), m)
}

// leaveDest sets the metadata of one destination directory. The root is the
// user's own unless this run or one that it continues made it.
func (r *run) leaveDest(dd *destDir, dir *fsys.Dir, meta *metadata, known bool) error {
	if r.ctx.Err() == nil && !r.opts.DryRun {
		if err := dd.target.log.RemoveLeftovers(dir, dd.src.Path()); err != nil {
			return err
		}
	}
	if dd.parent == nil && dd.target.rootOurs && known && r.ctx.Err() == nil {
		dd.target.rootMeta = meta // set when manifest and journal need the directory no more
		return nil
	}
	ours := dd.fresh || dd.parent != nil && r.opts.Policy != PolicyNever
	before := dd.info
	if dd.tookOver {
		before.Mode = dd.originalMode
	}
	switch {
	case r.opts.DryRun:
		if ours && known && !dd.fresh && r.ctx.Err() == nil {
			var err error
			dd.refreshed, err = r.outdated(dd.system, &dir.Object, meta, before)
			return err
		}
	case ours && known && r.ctx.Err() == nil:
		have := dd.info
		if !dd.fresh {
			var err error
			if have, err = dir.Stat(); err != nil {
				return err
			}
		}
		if dd.tookOver && r.opts.Preserve&PreserveMode == 0 {
			if err := dir.Chmod(dd.originalMode); err != nil {
				return err
			}
			have.Mode = dd.originalMode
		}
		var outdated bool
		disturbed := have.Mtime != before.Mtime || have.Mode != before.Mode // by what this run did in it
		if !dd.fresh && disturbed {
			var err error
			if outdated, err = r.outdated(dd.system, &dir.Object, meta, before); err != nil {
				return err
			}
		}
		changed, err := r.apply(dd.system, &dir.Object, meta, have, dd.fresh, !dd.fresh)
		if err != nil {
			return err
		}
		dd.refreshed = !dd.fresh && (outdated || changed && !disturbed)
	case dd.tookOver:
		if err := dir.Chmod(dd.originalMode); err != nil {
			return err
		}
	}
	return nil
}

func (dd *destDir) untried() bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.state == destUntried
}

// close gives the descriptor back. The root's is needed to the end.
func (dd *destDir) close() {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if dd.handle != nil && dd.parent != nil {
		dd.handle.Close()
	}
	dd.existing = nil
}

// stopped reports whether the run ends before everything has its turn.
func (r *run) stopped() bool {
	return r.outer.Err() != nil || r.ctx.Err() != nil && !errors.Is(context.Cause(r.ctx), errNoTarget)
}

// finish ends the run at every destination: everything is made durable, read
// back if that is asked for, and listed. It reports whether the run was stopped
// before everything had its turn.
func (r *run) finish() (stopped bool) {
	r.counters.Phase.Store(int32(counters.PhaseFlushing))
	r.sync()
	r.undone.end(r.ctx.Err() != nil)
	r.stopTending()
	r.clock.At(timing.Idle, timing.None)
	var durable []*target
	for _, t := range r.targets {
		if !r.stopped() && !r.opts.DryRun && t.root != nil && t.journal != nil && r.flushTarget(t) {
			durable = append(durable, t)
		}
	}
	r.clock.At(timing.Idle, timing.None)
	r.stopGauge()
	for _, d := range r.devices {
		d.Close() // from now on it is known what could not be written
	}
	if r.opts.Verify != VerifyOff && !r.stopped() {
		r.verify(durable)
	}
	r.counters.Phase.Store(int32(counters.PhaseFlushing))
	stopped = r.stopped()
	for _, t := range r.targets {
		r.clock.At(timing.Flush, t.place())
		s := TargetSummary{Path: t.Given, Counts: t.counts, Verified: t.verified, Cached: t.cached}
		if lost := t.lost.Load(); lost != nil {
			s.Lost = lost.err
		}
		switch {
		case stopped:
			if r.outer.Err() == nil { // the run has stopped itself, at a failure
				r.mark(t)
			}
			t.abandon(r)
		case slices.Contains(durable, t):
			s.Manifests = r.finishTarget(t)
			r.mark(t) // if something has failed since
		default:
			r.mark(t)
		}
		r.summary.Targets = append(r.summary.Targets, s)
	}
	return stopped
}

// failEnd reports what goes wrong with a destination as a whole.
func (r *run) failEnd(t *target, stage failure.Stage, err error) {
	r.report(fileEvent(EventFailed, "", t.Given, stage, err))
}

// flushTarget makes what was copied to one destination durable. If that fails,
// nothing is known to be, and there will be no manifest.
func (r *run) flushTarget(t *target) bool {
	r.clock.At(timing.Flush, t.place())
	r.clock.Count(timing.Flush, t.place(), 0)
	if t.behind != nil {
		t.behind.Drain()
	}
	if t.unwritten.Load() { // which was told
		return false
	}
	if r.stopped() {
		return false
	}
	err := t.flush(r)
	if err != nil {
		t.unwritten.Store(true)
		r.failEnd(t, failure.StageSync, err)
		r.reportUnwritten(t, err)
		return false
	}
	if t.group != nil {
		t.group.Flushed(t.group.Mark())
	}
	if r.opts.Verify == VerifyOff {
		err = t.log.LastCheckpoint(t.forceNames)
	} else { // reading back takes long, and may be interrupted
		err = t.log.Checkpoint(t.forceNames)
	}
	if err != nil {
		t.unwritten.Store(true)
		r.failEnd(t, failure.StageSync, err)
		return false
	}
	r.reportLog(t)
	return !t.unwritten.Load()
}

// finishTarget writes the manifests of a destination on which everything is
// durable. It reports what goes wrong.
func (r *run) finishTarget(t *target) (written []catalog.Written) {
	if err := t.stands(); err != nil {
		if t.isDropped() { // which was told
			return nil
		}
		r.failEnd(t, failure.StageCheck, fmt.Errorf("what was copied is not there under this name any more: %w", err))
		return nil
	}
	written, err := t.catalog.Write()
	r.warnStale(t)
	if err != nil {
		r.failEnd(t, failure.StageManifest, err)
		return written
	}
	r.mark(t)
	t.catalog.Close() // FUSE cannot remove an open file's directory
	// Without the journal, nobody would know whose the directory is.
	stays := t.unmarked || t.keepLog.Load() || t.log.Failed() || t.rootOurs && t.rootMeta == nil ||
		t.log.Interrupted && r.leavesOut(t)
	err = t.removeLeftovers()
	if err == nil && !stays {
		err = t.certify(written)
	}
	t.log.Close()
	if err == nil && !stays {
		err = t.journal.Remove()
	}
	if err != nil {
		r.failEnd(t, failure.StageJournal, err)
		return written
	}
	t.giveBack(r)
	if t.rootMeta != nil {
		have, err := t.root.Stat()
		if err == nil {
			// Windows hides the root of a drive, which must not hide its copy.
			t.rootMeta.info.Mode = t.rootMeta.info.Mode&^fsys.ModeAttributes | have.Mode&fsys.ModeAttributes
			_, err = r.apply(t.system, &t.root.Object, t.rootMeta, have, t.created, !t.created)
		}
		if err != nil {
			r.failEnd(t, failure.StageMetadata, err)
		}
	}
	if r.opts.Sync != SyncNone {
		if err := t.root.Sync(); err != nil {
			r.failEnd(t, failure.StageSync, err)
		}
	}
	return written
}

// removeLeftovers removes the temporaries of interrupted runs that this one has not
// continued.
func (t *target) removeLeftovers() error {
	find := newFinder(t.root)
	defer find.Close()
	return t.log.RemoveAllLeftovers(find)
}

// certify records which manifests the run has written while unfinished copies from other
// sources keep their logs.
func (t *target) certify(written []catalog.Written) error {
	digests := make([]string, len(written))
	for i, w := range written {
		digests[i] = w.SHA256
	}
	return t.log.Certify(digests)
}

// leavesOut reports whether there may be files at the destination which an
// interrupted run has left, and this one has not looked at: they failed, were left
// alone, or the filters leave them out that were not those of that run.
func (r *run) leavesOut(t *target) bool {
	r.sync()
	return r.summary.Errors > 0 || r.summary.Mismatches > 0 || t.warnedTorn || t.log.SetAside && r.opts.part()
}

// abandon leaves the destination of a run that was stopped: without a new
// manifest, and with the journal if that holds something to continue with, all
// of which is on the device then.
func (t *target) abandon(r *run) {
	if t.journal == nil {
		return
	}
	if !t.isDropped() && !t.unwritten.Load() && r.opts.Sync != SyncNone && t.log.WorthKeeping() {
		t.log.RecordKept()
		if err := t.checkpoint(r, false); err != nil {
			t.dropUnwritten(r, "", err)
		}
	}
	if t.unmarked || t.rootOurs || t.log.WorthKeeping() || t.catalog != nil && t.catalog.Unsettled() {
		return
	}
	t.log.Close()
	_ = t.journal.Remove() // an empty one is as good as none
}

var (
	errFailFast   = errors.New("stopped at the first failure")
	errSourceGone = errors.New("nothing of the source can be read any more")
)
