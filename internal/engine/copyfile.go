package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// copyRegular decides, compares where content decides, and moves the data once
// for all destinations that need it. changed says that the source's file is not as it
// was described; see tryEntry.
func (r *run) copyRegular(e *entry, group *linkGroup) (changed bool) {
	r.decideAll(e, group)
	e.clock.At(timing.Read, timing.Source)
	if !r.opts.DryRun {
		r.openCache(e)
		if err := r.readXattrs(&e.file.Object, e.path, e.meta); err != nil {
			r.failSource(e, failure.StageMetadata, err)
			return false
		}
	}
	if r.compareAll(e) {
		return true
	}
	for _, p := range e.transfers {
		if p.open() && p.act == actKeep {
			e.clock.At(timing.Create, p.target.place())
			r.unshare(e, p)
		}
	}
	if r.moveData(e) {
		return true
	}
	// What was read shows whether digests of earlier runs are still those of the source.
	if e.doubtKept() && r.compareAll(e) {
		return true
	}
	for _, p := range e.transfers {
		if p.open() && p.act == actKeep {
			r.keep(e, p)
		}
	}
	return false
}

// compareAll compares what is to be compared, and lets nothing stand for the source
// that does not match its manifest.
func (r *run) compareAll(e *entry) (changed bool) {
	compared, changed, err := r.compare(e)
	if err != nil {
		r.failSource(e, failure.StageRead, err)
	}
	if changed || err != nil {
		return changed
	}
	if len(compared) > 0 && e.digests != nil && !r.isExpected(e, e.digests) {
		for _, p := range e.transfers {
			if p.open() || p.digests != nil && slices.Contains(compared, p) {
				p.act, p.done, p.digests, p.failed = actNone, outNothing, nil, true
			}
		}
	}
	for _, p := range compared {
		if p.open() && p.equal && !r.accepts(e, p) {
			p.digests = nil
		}
	}
	return false
}

// accepts reports whether what was read matches a manifest at the destination that is
// not Sealift's to change. It reports a mismatch.
func (r *run) accepts(e *entry, p *transfer) bool {
	if p.target.catalog == nil { // in a dry run
		return true
	}
	err := p.target.catalog.Accepts(e.digests)
	if err != nil {
		p.act, p.failed = actNone, true
		r.mismatch(p.target, e.path, err)
	}
	return err == nil
}

// doubtKept lets the transfers be compared that would keep digests of an earlier run
// which are not those that were read of the source.
func (e *entry) doubtKept() (any bool) {
	for _, p := range e.transfers {
		if p.open() && p.act == actKeep && e.contradicts(p.digests) {
			p.act, p.digests, any = actCompare, nil, true
			p.decision = decision{different: actConflict, conflict: errSameTimes, line: p.decision.line, torn: p.decision.torn}
		}
	}
	return any
}

// contradicts reports whether digests are not those that were read of the source.
func (e *entry) contradicts(digests hash.Digests) bool {
	return digests != nil && e.digests != nil && !digests.Equal(e.digests)
}

// moveData reads the file once and writes it wherever it has to be. changed says that
// what was read is not one state of the file: nothing is committed then.
func (r *run) moveData(e *entry) (changed bool) {
	var movers []*transfer
	for _, p := range e.transfers {
		if p.open() && (p.act == actCreate || p.act == actReplace) {
			movers = append(movers, p)
		}
	}
	if len(movers) == 0 {
		return false
	}
	if r.opts.DryRun {
		for _, p := range movers {
			p.done = created(p.act)
		}
		return false
	}
	changed, err := r.tryMove(e, movers)
	for _, p := range movers {
		if err == nil && !changed && p.open() && r.mayCommit(e, p) {
			r.commit(e, p)
		}
		r.giveUp(e, p) // nothing after a commit
	}
	if err != nil {
		r.counters.Bytes.Add(-e.counted)
		e.counted = 0
		r.failSource(e, failure.StageRead, err)
	}
	return changed
}

// mayCommit reports whether what was read matches the manifests of the source, and one
// that is at the destination already.
func (r *run) mayCommit(e *entry, p *transfer) bool {
	if !r.isExpected(e, e.digests) {
		p.act, p.failed = actNone, true
		return false
	}
	return r.accepts(e, p)
}

// giveUp ends the transfer's temporary, unless it is committed or kept.
func (r *run) giveUp(e *entry, p *transfer) {
	if p.sink.File != nil {
		p.inFlight.Stop()
		if p.sink.Behind != nil {
			p.sink.Behind.Finish()
		}
		if p.sink.File.Abort() {
			p.target.keepLog.Store(true) // for a later run, which removes it
		}
		p.forget()
	}
	p.sink = pipe.Sink{}
}

// forget records that the transfer's temporary does not exist any more.
func (p *transfer) forget() {
	p.inFlight.Gone()
	p.inFlight = nil
}

func created(act action) outcome {
	if act == actReplace {
		return outReplaced
	}
	return outCreated
}

// tryMove is one reading of the file into new temporaries, or, at the first attempt,
// into those that an interrupted run has left. changed says that what was read
// is not one state of the file.
func (r *run) tryMove(e *entry, movers []*transfer) (changed bool, err error) {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	var start int64
	if e.attempt == 1 && e.meta.info.Size > resume.LeastPartial && r.opts.Reflink != ReflinkAlways {
		if start, err = r.continuePartial(e, movers, set); err != nil {
			return false, err
		}
		if start == 0 {
			set.Reset() // what was tried has left its traces
		}
		if start%fsys.DirectAlignment != 0 && e.direct {
			if _, err := e.file.SetDirect(false); err != nil {
				return false, err
			}
		}
	}
	if e.evict != nil {
		e.evict.Restart()
	}
	var sinks []*pipe.Sink
	for _, p := range movers {
		if !p.open() {
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		err := p.sink.Err
		if start == 0 {
			err = r.create(e, p)
		}
		if err != nil {
			r.failTransfer(e, p, failure.StageCreate, err)
			continue
		}
		if p.bypass = p.sink.Clone || r.createCache(p.target, p.sink.File, e.meta.info.Size); !p.bypass {
			r.writeBehind(e, p)
		}
		if err := p.track(e, start); err != nil {
			r.failTransfer(e, p, failure.StageCreate, err)
			continue
		}
		e.clock.Count(timing.Create, p.target.place(), 0)
		sinks = append(sinks, &p.sink)
	}
	if len(sinks) == 0 {
		return false, nil
	}
	course := pipe.Course{Start: start}
	if e.meta.info.Size > resume.LeastPartial {
		course.MarkEvery = resume.MarkEvery
	}
	if e.evict != nil {
		course.Read = e.evict.Read
	}
	e.resumed = start
	r.countMoved(e, start)
	total, err := r.moveBytes(e, movers, sinks, set, course)
	e.counted += max(total-start, 0)
	if e.evict != nil {
		e.evict.End(total)
	}
	if err != nil {
		if r.ctx.Err() != nil {
			r.leavePartial(e, movers, total, set)
		}
		return false, err
	}
	for _, p := range movers {
		if p.open() && p.sink.Err != nil {
			r.failTransfer(e, p, failure.StageWrite, p.sink.Err)
		}
	}
	if changed, err := e.changed(); changed || err != nil {
		return changed, err
	}
	if !anyOpen(movers) { // reading stopped when the last destination failed
		return false, nil
	}
	if size := e.meta.info.Size; total != size && size != 0 && !(total < size && e.file.SizeSaysNothing()) {
		return false, fmt.Errorf("it ended after %d of %d bytes", total, size)
	}
	if !e.agree(set.Digests()) {
		return true, nil
	}
	if total != e.meta.info.Size { // more than 0 for what says 0, as in /proc, less than a page in sysfs
		meta := *e.meta
		meta.info.Size = total
		e.meta = &meta
	}
	return false, nil
}

// countMoved counts bytes that need not be moved any more.
func (r *run) countMoved(e *entry, n int64) {
	counters.Grow(&r.counters.Bytes, n)
	e.counted += n
}

func anyOpen(transfers []*transfer) bool {
	for _, p := range transfers {
		if p.open() {
			return true
		}
	}
	return false
}

// commit completes the temporary and gives it the final name.
func (r *run) commit(e *entry, p *transfer) {
	s, place := &p.sink, p.target.place()
	e.clock.At(timing.Commit, place)
	if s.Finish(e.meta.info.Size); s.Err != nil {
		r.failTransfer(e, p, failure.StageWrite, s.Err)
		return
	}
	p.inFlight.Stop()
	if s.Behind != nil {
		s.Behind.Finish()
		s.Behind = nil
		p.bypass = true // it is accounted for
	}
	fresh, err := p.dd.freshInfo(s.File)
	if err == nil {
		_, err = r.apply(p.dd.system, &s.File.Object, e.meta, fresh, true, p.dd.inherits)
	}
	if err != nil {
		r.failTransfer(e, p, failure.StageMetadata, err)
		return
	}
	if p.dd.system.syncEach {
		if err := p.target.sync(s.File); err != nil {
			p.target.keepLog.Store(true)
			r.failTransfer(e, p, failure.StageSync, err)
			return
		}
	}
	if err = p.target.catalog.BeforeChange(e.manifestPath(p)); err != nil {
		r.failTransfer(e, p, failure.StageJournal, err)
		return
	}
	if p.act == actReplace {
		err = s.File.CommitReplacing(p.name)
	} else {
		err = s.File.Commit(p.name)
		if errors.Is(err, fs.ErrExist) {
			r.nameTaken(e, p)
			return
		}
	}
	if err != nil {
		r.failTransfer(e, p, failure.StageCommit, err)
		return
	}
	p.digests, p.done = e.digests, created(p.act)
	e.clock.Count(timing.Commit, place, 0)
	p.forget()
	r.wrote(e, p)
}

// nameTaken finds out why a name that was free is taken: the transfer is decided
// anew, or fails because names fall together.
func (r *run) nameTaken(e *entry, p *transfer) {
	if err := p.dd.collision(p.dir, p.name, e.dir, e.meta.info); err != nil {
		var collision *collisionError
		if errors.As(err, &collision) {
			r.notes <- note{folded: p.target, file: e.manifestPath(p)}
		}
		r.failTransfer(e, p, failure.StageCheck, err)
		return
	}
	p.again = true
}

// freshInfo is what a new file in the directory has before anything is set. The
// first one is asked for its owner and group; the others get the same.
func (dd *destDir) freshInfo(f *fsys.Pending) (fsys.Info, error) {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if !dd.ownerSet {
		info, err := f.Stat()
		if err != nil {
			return info, err
		}
		dd.owner = fsys.Info{Kind: fsys.Regular, UID: info.UID, GID: info.GID, Mode: info.Mode}
		dd.ownerSet = true
	}
	return dd.owner, nil
}
