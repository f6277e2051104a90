package engine

import (
	"errors"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// This file has the steps of copying one entry, from top to bottom. Each step takes the
// transfers that are in one state, for all destinations together, because the source is
// read once for all of them:
//
//	decideAll      undecided → comparing, moving, keeping, or finished at once
//	prepareSource  reads what the description of the source still lacks
//	compare        comparing → moving, keeping, or finished (compare.go)
//	unshareKept    keeping → comparing, moving, or finished as a link, if the existing file must not
//	               get the new metadata
//	linkDifferent  moving → finished, if the existing file differs and can become a link
//	move           moving → finished; undecided if another process took the name (move.go)
//	recheckKept    keeping → comparing, if the digests of an earlier run differ from what was read
//	keepAll        keeping → finished (keep.go)
//
// unshareKept and recheckKept can send transfers back, so compare follows them again. In each
// step a transfer can fail. The source's errors end the attempt.

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
	if r.unshareKept(e, group) {
		if err := r.compare(e); err != nil {
			return err
		}
		r.unshareKept(e, group)
	}
	r.linkDifferent(e, group)
	if err := r.move(e); err != nil {
		return err
	}
	if e.recheckKept() {
		if err := r.compare(e); err != nil {
			return err
		}
	}
	r.keepAll(e, group)
	return nil
}

// decideAll decides about the undecided transfers. It also makes hard links, see linkTo.
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
		o.linkable, o.compared = true, group.primaries[p.target.index].compared
		linked, err := r.linkTo(e, p, group, decide(o).act)
		if err != nil {
			return err
		}
		if linked.done != outNothing {
			p.finish(linked)
			return nil
		}
		o.linkable, o.compared = false, false
	}
	p.observed, p.decision = o, decide(o)
	if act := p.decision.act; (act == actReplace || act == actCompare) && o.have == fsys.Regular && group.linkable(e, p) {
		p.beside = group.toCompare(p)
		if p.beside != nil && act == actReplace {
			p.decision.act, p.decision.equal, p.decision.different = actCompare, actReplace, actReplace
		}
	}
	p.content = p.decision.content
	r.startAction(e, p, p.decision.act)
	if e.kind == fsys.Irregular && p.open() {
		return inStage(failure.StageCreate, errors.New("a special file of an unknown kind cannot be copied"))
	}
	return nil
}

// startAction changes the transfer's state to the one in which the action is carried out, or
// finishes the transfer if the action is to do nothing.
func (r *run) startAction(e *entry, p *transfer, act action) {
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
	// errNameTaken ends a step because another process has created an entry with the name.
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

// unshareKept replaces a kept file if updating its metadata would also change other names of
// that file, or see givesRights. The replacement is a link to the group's primary, or a new file.
// Policy "protect" replaces no file that differs, so a file whose content was not compared is
// compared first. So are a file that is to become a link of the primary, and the primary itself,
// see mustCompareFirst. goesBack means that a transfer has returned to stateComparing.
func (r *run) unshareKept(e *entry, group *linkGroup) (goesBack bool) {
	for p := range e.in(stateKeeping) {
		e.clock.At(timing.Create, p.target.place())
		shares, err := r.sharesInode(e, p)
		err = inStage(failure.StageMetadata, err)
		apart := false
		if err == nil {
			shares = shares || r.givesRights(e, p)
			apart, err = r.isApart(e, p, group)
		}
		compare := apart && mustCompareFirst(e, p, group) ||
			shares && r.opts.Policy == PolicyProtect && e.kind == fsys.Regular && !p.content.fresh
		switch {
		case compare:
			if apart {
				p.beside = group.toCompare(p)
			}
			p.decision = p.decision.compareInstead()
			p.become(stateComparing)
			goesBack = true
		case shares:
			var linked bool
			if linked, err = r.linkKept(e, p, group); !linked && err == nil {
				p.become(stateMoving)
			}
		}
		r.endStep(e, p, err)
	}
	return goesBack
}

// linkDifferent replaces existing files by links to the group's primary where that was compared,
// or where a comparison has shown that they differ.
func (r *run) linkDifferent(e *entry, group *linkGroup) {
	for p := range e.in(stateMoving) {
		compared := p.decision.equal == actReplace || p.decision.act == actCompare && !p.content.fresh
		if !compared || !group.linkable(e, p) {
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		linked, err := r.linkTo(e, p, group, actReplace)
		if linked.done != outNothing {
			p.finish(linked)
		}
		r.endStep(e, p, err)
	}
}

// move copies the entry to the destinations of the transfers in stateMoving.
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
			if other, err := r.contradictsHistory(e, p, e.digests); err != nil {
				return err
			} else if other {
				p.finish(targetResult{done: outConflict, conflict: errListed})
				continue
			}
			_ = r.keepOld(p) // in a dry run it only counts the file
			p.finish(targetResult{done: p.created()})
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		r.endStep(e, p, r.makeSpecial(e, p))
	}
	return nil
}

// recheckKept checks the transfers that would keep the digests of an earlier run. If these differ
// from the digests that this run has computed, the transfer returns to stateComparing, and goesBack
// is true.
func (e *entry) recheckKept() (goesBack bool) {
	for p := range e.in(stateKeeping) {
		if e.contradicts(p.content.digests) {
			p.decision = p.decision.compareInstead()
			p.content = content{}
			p.become(stateComparing)
			goesBack = true
		}
	}
	return goesBack
}

// keepAll finishes the transfers whose existing file has the source's content.
func (r *run) keepAll(e *entry, group *linkGroup) {
	for p := range e.in(stateKeeping) {
		r.endStep(e, p, r.keep(e, p, group))
	}
}
