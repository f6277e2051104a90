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

// This file has the steps of copying one entry, from top to bottom. Each step takes the
// transfers that are in one state, for all destinations together, because the source is
// read once for all of them:
//
//	decideAll    undecided → comparing, moving, keeping, or finished at once
//	compare      comparing → moving, keeping, or finished
//	unshareKept  keeping → moving, where the metadata of other names would change,
//	             or comparing, before policy "protect" does that
//	move         moving → finished; undecided if another process took the name
//	doubtKept    keeping → comparing, where what was read contradicts an earlier run
//	keepAll      keeping → finished
//
// In each step a transfer can fail. The source's errors end the attempt.

// copyOnce takes the open transfers through the steps.
func (r *run) copyOnce(e *entry, group *linkGroup) error {
	r.decideAll(e, group)
	if !anyOpen(e.transfers) {
		return nil
	}
	if err := r.prepareSource(e); err != nil {
		return inStage(failure.StageMetadata, err)
	}
	if err := r.compare(e); err != nil {
		return err
	}
	if r.unshareKept(e) {
		if err := r.compare(e); err != nil {
			return err
		}
		r.unshareKept(e)
	}
	if err := r.move(e); err != nil {
		return err
	}
	if e.doubtKept() {
		if err := r.compare(e); err != nil {
			return err
		}
	}
	r.keepAll(e, group)
	return nil
}

// decideAll decides about the transfers that are undecided, and links what can be linked.
func (r *run) decideAll(e *entry, group *linkGroup) {
	for p := range e.in(stateUndecided) {
		e.clock.At(timing.Create, p.target.place())
		r.endStep(e, p, r.decideOne(e, p, group))
	}
}

func (r *run) decideOne(e *entry, p *transfer, group *linkGroup) error {
	o, err := r.observe(e, p)
	if err != nil {
		return inStage(failure.StageCreate, err)
	}
	if group.linkable(e, p) {
		o.linkable = true
		linked, err := r.linkTo(e, p, group, decide(o).act)
		if err != nil {
			return err
		}
		if linked.done != outNothing {
			p.finish(linked)
			return nil
		}
		o.linkable = false
	}
	p.observed, p.decision = o, decide(o)
	p.content = p.decision.content
	r.follow(e, p, p.decision.act)
	if e.kind == fsys.Irregular && p.open() {
		return inStage(failure.StageCreate, errors.New("a special file of an unknown kind cannot be copied"))
	}
	return nil
}

// follow changes the transfer's state to the one in which the action is carried out, or
// finishes the transfer if the action is to do nothing.
func (r *run) follow(e *entry, p *transfer, act action) {
	switch act {
	case actCreate, actReplace:
		p.become(stateMoving)
	case actKeep:
		p.become(stateKeeping)
	case actCompare:
		p.become(stateComparing)
	case actConflict:
		p.finish(targetResult{done: outConflict, conflict: p.decision.conflict})
	case actLeave:
		if p.decision.suspect && !p.content.fresh {
			p.target.warnSuspect(r, e.path)
		}
		p.finish(targetResult{done: outLeft, content: p.content})
	}
}

var (
	// errNameTaken ends a step: another process has given the name to a file.
	errNameTaken = errors.New("the name is taken")
	// errReported ends a step or a checkpoint because of an error that was reported.
	errReported = errors.New("reported")
)

// endStep deals with the error of a step of one transfer, if it is not nil.
func (r *run) endStep(e *entry, p *transfer, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errNameTaken):
		p.become(stateUndecided)
	case errors.Is(err, errReported):
		p.become(stateFailed)
	default:
		stage, err := splitStage(err)
		r.failTransfer(e, p, stage, err)
	}
}

// prepareSource reads the metadata that a description lacks, and prepares a regular file
// for the way in which it is read.
func (r *run) prepareSource(e *entry) error {
	if e.kind != fsys.Regular {
		return r.readSpecialXattrs(e)
	}
	e.clock.At(timing.Read, timing.Source)
	if e.file == nil {
		if may, err := r.mayHaveXattrs(e); err != nil || !may {
			return err
		}
		if err := r.openContent(e); err != nil {
			return err
		}
	} else if !r.opts.DryRun {
		r.openCache(e)
	}
	return r.readXattrs(&e.file.Object, e.path, &e.meta)
}

// unshareKept gives the transfers a file of their own where bringing the metadata up to
// date would change other names too. Policy "protect" has those compared first that were
// not: nothing that differs is replaced.
func (r *run) unshareKept(e *entry) (anyUnread bool) {
	for p := range e.in(stateKeeping) {
		e.clock.At(timing.Create, p.target.place())
		shares, err := r.sharesInode(e, p)
		switch {
		case shares && r.mayDiffer(e, p):
			p.decision = p.decision.doubted()
			p.become(stateComparing)
			anyUnread = true
		case shares:
			p.become(stateMoving)
		}
		r.endStep(e, p, inStage(failure.StageMetadata, err))
	}
	return anyUnread
}

// mayDiffer reports whether replacing what has the transfer's name, which is up to date by
// size and time, may change content against policy "protect".
func (r *run) mayDiffer(e *entry, p *transfer) bool {
	return r.opts.Policy == PolicyProtect && e.kind == fsys.Regular && !p.content.fresh
}

// move gives the transfers' names to the source's content.
func (r *run) move(e *entry) error {
	movers := slices.Collect(e.in(stateMoving))
	if e.kind == fsys.Regular && !r.opts.DryRun && len(movers) > 0 {
		return r.moveData(e, movers)
	}
	if r.opts.DryRun && e.kind == fsys.Regular {
		e.resumed = r.wouldContinue(e, movers)
	}
	for _, p := range movers {
		if r.opts.DryRun {
			if other, err := r.contradicts(e, p, e.digests); err != nil {
				return err
			} else if other {
				p.finish(targetResult{done: outConflict, conflict: errListed})
				continue
			}
			_ = r.keepOld(p) // counts it
			p.finish(targetResult{done: p.created()})
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		r.endStep(e, p, r.makeSpecial(e, p))
	}
	return nil
}

// moveData reads the file once and writes it to all movers. Nothing is committed if what
// was read is not one state of the file.
func (r *run) moveData(e *entry, movers []*transfer) error {
	err := r.openContent(e)
	if err == nil {
		err = r.fill(e, movers)
	}
	for _, p := range movers {
		if err == nil && p.open() {
			r.endStep(e, p, r.commit(e, p))
		}
		r.abort(p) // does nothing after a commit
	}
	if err != nil && !errors.Is(err, errSourceChanged) {
		r.uncount(e)
	}
	return err
}

// fill reads the file once and writes it into new temporaries or, at the first attempt,
// into those that an interrupted run has left. An error is the source's.
func (r *run) fill(e *entry, movers []*transfer) error {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	start, err := r.continueLeft(e, movers, set)
	if err != nil {
		return err
	}
	if e.evict != nil {
		e.evict.Restart()
	}
	sinks := r.openSinks(e, movers, start)
	if len(sinks) == 0 {
		return nil
	}
	opts := pipe.MoveOptions{Start: start}
	if e.meta.info.Size > resume.LeastPartial {
		opts.MarkEvery = resume.MarkEvery
	}
	if e.evict != nil {
		opts.Read = e.evict.Read
	}
	r.uncount(e) // what was compared before
	e.resumed, e.counted, e.unread = start, start, start
	counters.Grow(&r.counters.Unread, start)
	counters.Grow(&r.counters.Bytes, start)
	total, err := r.moveBytes(e, movers, sinks, set, opts)
	e.counted += max(total-start, 0)
	if e.evict != nil {
		e.evict.End(total)
	}
	if err != nil {
		if r.ctx.Err() != nil {
			r.leavePartial(e, movers, total, set)
		}
		return err
	}
	for _, p := range movers {
		if p.open() && p.sink.Err != nil {
			r.failTransfer(e, p, failure.StageWrite, p.sink.Err)
		}
	}
	if err := e.unchanged(); err != nil {
		return err
	}
	if !anyOpen(movers) { // reading stopped when the last destination failed
		return nil
	}
	if size := e.meta.info.Size; total != size && size != 0 && !(total < size && e.file.SizeSaysNothing()) {
		return fmt.Errorf("it ended after %d of %d bytes", total, size)
	}
	if err := e.agree(set.Digests()); err != nil {
		return err
	}
	e.meta.info.Size = total // files in /proc have the size 0, those in sysfs a page
	return nil
}

// continueLeft continues the temporaries that an interrupted run has left, if it can. It
// returns the offset from which the source is to be read.
func (r *run) continueLeft(e *entry, movers []*transfer, set *hash.Set) (start int64, err error) {
	if e.attempts > 1 || e.meta.info.Size <= resume.LeastPartial || r.opts.Reflink == ReflinkAlways {
		return 0, nil
	}
	start, err = r.continuePartial(e, movers, set)
	if err != nil {
		return 0, err
	}
	if start == 0 {
		set.Reset() // the attempt to continue has fed some of the digests
	}
	if start%fsys.DirectAlignment != 0 && e.direct {
		_, err = e.file.SetDirect(false)
	}
	return start, err
}

// openSinks makes the temporaries, unless they are continued at start, and returns those
// that can be written.
func (r *run) openSinks(e *entry, movers []*transfer, start int64) (sinks []*pipe.Sink) {
	for _, p := range movers {
		if !p.open() {
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		err := p.sink.Err
		if start == 0 {
			err = r.create(e, p)
		}
		if err == nil {
			if p.bypass = p.sink.Clone || r.createCache(p.target, p.sink.File, e.meta.info.Size); !p.bypass {
				r.writeBehind(e, p)
			}
			err = p.track(e, start)
		}
		if err != nil {
			r.failTransfer(e, p, failure.StageCreate, err)
			continue
		}
		e.clock.Did(0)
		sinks = append(sinks, &p.sink)
	}
	return sinks
}

// accepts returns errReported if what was read does not match a manifest at the
// destination that is not Sealift's to change.
func (r *run) accepts(e *entry, p *transfer) error {
	if p.target.catalog == nil { // in a dry run
		return nil
	}
	if err := p.target.catalog.Accepts(e.digests); err != nil {
		r.mismatch(p.target, e.path, err)
		return errReported
	}
	return nil
}

// commit completes the temporary and gives it the final name.
func (r *run) commit(e *entry, p *transfer) error {
	if !r.isExpected(e, e.digests) {
		return errReported
	}
	if err := r.accepts(e, p); err != nil {
		return err
	}
	if p.target.catalog.Contradicts(e.manifestPath(p), e.digests) {
		r.abort(p)
		p.finish(targetResult{done: outConflict, conflict: errListed})
		return nil
	}
	s := &p.sink
	e.clock.At(timing.Commit, p.target.place())
	if s.Finish(e.meta.info.Size); s.Err != nil {
		return inStage(failure.StageWrite, s.Err)
	}
	p.inFlight.Stop()
	if s.Behind != nil {
		s.Behind.Finish()
		s.Behind = nil
		p.bypass = true // it is accounted for
	}
	fresh, err := p.dd.freshInfo(s.File)
	if err == nil {
		_, err = r.apply(p.dd.system, &s.File.Object, &e.meta, fresh, true, p.dd.inherits)
	}
	if err != nil {
		return inStage(failure.StageMetadata, err)
	}
	if p.dd.system.syncEach {
		if err := p.target.sync(s.File); err != nil {
			p.target.keepLog.Store(true)
			return inStage(failure.StageSync, err)
		}
	}
	if err = p.target.catalog.BeforeChange(e.manifestPath(p)); err != nil {
		return inStage(failure.StageJournal, err)
	}
	if err = r.mayCommit(); err != nil {
		return err
	}
	if p.exists {
		if err = r.replacing(p); err == nil {
			err = s.File.CommitReplacing(p.name)
		}
	} else if err = s.File.Commit(p.name); errors.Is(err, fs.ErrExist) {
		return r.nameTaken(e, p)
	}
	if err != nil {
		return inStage(failure.StageCommit, err)
	}
	p.finish(targetResult{done: p.created(), content: content{digests: e.digests, fresh: true}})
	e.clock.Did(0)
	p.forget()
	r.wrote(e, p)
	return nil
}

// nameTaken finds out why a name that was free exists now. The error is errNameTaken if
// another process made it: then the transfer is decided again. Any other error fails the
// transfer: the file system folds two names of the source together.
func (r *run) nameTaken(e *entry, p *transfer) error {
	err := p.dd.collision(p.dir, p.name, e.dir, e.meta.info)
	if err == nil {
		return errNameTaken
	}
	var collision *collisionError
	if errors.As(err, &collision) {
		r.messages <- message{folded: p.target, file: e.manifestPath(p)}
	}
	return inStage(failure.StageCheck, err)
}

// abort removes the transfer's temporary, unless it is committed or kept.
func (r *run) abort(p *transfer) {
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
	p.temporary = temporary{}
}

// forget records that the transfer's temporary does not exist any more.
func (p *transfer) forget() {
	p.inFlight.Gone()
	p.inFlight = nil
}

// doubtKept sends transfers back to comparing that would keep the digests of an earlier
// run, if these are not the digests that this run has read of the source.
func (e *entry) doubtKept() (anyDoubt bool) {
	for p := range e.in(stateKeeping) {
		if e.contradicts(p.content.digests) {
			p.decision = p.decision.doubted()
			p.content = content{}
			p.become(stateComparing)
			anyDoubt = true
		}
	}
	return anyDoubt
}

// keepAll finishes the transfers whose names have the source's content already.
func (r *run) keepAll(e *entry, group *linkGroup) {
	for p := range e.in(stateKeeping) {
		r.endStep(e, p, r.keep(e, p, group))
	}
}

// freshInfo returns the owner, group and mode that a new file in the directory has before
// any are set. It stats only the first one that was created with a mode: the others have the
// same.
func (dd *destDir) freshInfo(f *fsys.Pending) (fsys.Info, error) {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if !dd.ownerSet || dd.askedMode != f.Mode() {
		info, err := f.Stat()
		if err != nil {
			return info, err
		}
		dd.owner = fsys.Info{Kind: fsys.Regular, UID: info.UID, GID: info.GID, Mode: info.Mode}
		dd.ownerSet, dd.askedMode = true, f.Mode()
	}
	return dd.owner, nil
}

// firstMode returns the mode with which a file without a name is created: the final one
// if the file has the right owner from the start, no ACL changes what the mode grants, and
// the umask masks nothing; else one that grants others nothing.
func (r *run) firstMode(e *entry, p *transfer) uint32 {
	const private = 0o600
	p.dd.mu.Lock()
	owner, known := p.dd.owner, p.dd.ownerSet
	p.dd.mu.Unlock()
	src := e.meta.info
	if !known || r.ownerDiffers(p.dd.system, src, owner) || p.dd.inherits || len(e.meta.xattrs) > 0 {
		return private
	}
	mode := r.modeFor(src, owner, true, sameOwner(src, owner))
	if mode&^0o777 != 0 || mode&fsys.Umask() != 0 {
		return private
	}
	return mode
}
