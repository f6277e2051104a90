package engine

import (
	"errors"
	"slices"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// This file has the steps of copying one entry, from top to bottom. Each step takes the
// transfers that are in some states, for all destinations together, because the source is
// read once for all of them. In each step a transfer can fail. The source's errors end the attempt.
// The names of a file with several names take the same steps, each step for all names before the
// next one; see links.go.
var entrySteps = [...]func(*copier, *entry) error{
	(*copier).decideAll,      // undecided → moving, keeping, or finished, if needed after a comparison
	(*copier).replaceShared,  // keeping → moving, if the existing file must not get the new metadata
	(*copier).compareSkipped, // keeping → moving, keeping, or finished (links.go)
	(*copier).linkSeparate,   // keeping → finished (links.go)
	(*copier).move,           // moving → finished; undecided if another process took the name (move.go)
	(*copier).keepAll,        // keeping → finished (keep.go)
}

// copyOnce takes the open transfers through the steps.
func (r *copier) copyOnce(e *entry) error {
	for _, step := range entrySteps {
		if !anyOpen(e.transfers) {
			return nil
		}
		if err := step(r, e); err != nil {
			return err
		}
	}
	return nil
}

// decideAll decides about the undecided transfers, and compares the files of which the content
// decides.
func (r *copier) decideAll(e *entry) error {
	for p := range e.in(stateUndecided) {
		e.activity.At(p.target.Place())
		r.endStep(e, p, r.decideOne(e, p))
	}
	if e.has(stateComparing) || e.has(stateKeeping) {
		if err := r.prepareSource(e); err != nil {
			return err
		}
	}
	return r.compare(e)
}

func (r *copier) decideOne(e *entry, p *transfer) error {
	claim := p.target.records.Claim(e.Path)
	if claim.Own {
		p.finish(targetResult{done: outOwn})
		return nil
	}
	o, err := r.observe(e, p, claim)
	if err != nil {
		return inStage(failure.StageCreate, err)
	}
	e.group.addFile(p)
	p.observed, p.decision = o, policy.Decide(o)
	p.content = p.decision.Content
	p.startAction(e, p.decision.Act)
	if e.Kind == fsys.Irregular && p.open() {
		return inStage(failure.StageCreate, errors.New("a special file of an unknown kind cannot be copied"))
	}
	return nil
}

// errNameTaken ends a step because another process has created an entry with the name.
var errNameTaken = errors.New("the name is taken")

// replaceShared decides to replace a kept file if updating its metadata would also change names of
// that file that are not copied now, or see givesRights. Policy "protect" replaces no file that
// differs, so a file whose content was not compared is compared first.
func (r *copier) replaceShared(e *entry) error {
	for p := range e.in(stateKeeping) {
		e.activity.At(p.target.Place())
		shares, err := r.sharesInode(e, p)
		shares = shares || err == nil && r.givesRights(e, p)
		switch {
		case !shares:
		case r.opts.Policy == policy.Protect && e.Kind == fsys.Regular && !p.content.Fresh:
			p.compareInstead()
			p.decision.Equal = policy.Replace
		default:
			p.become(stateMoving)
		}
		r.endStep(e, p, inStage(failure.StageMetadata, err))
	}
	return r.compare(e)
}

// move links or copies the entry to the destinations of the transfers in stateMoving.
func (r *copier) move(e *entry) error {
	r.link(e, stateMoving)
	movers := slices.Collect(e.in(stateMoving))
	if len(movers) == 0 {
		return nil
	}
	if err := r.prepareSource(e); err != nil {
		return err
	}
	if e.Kind == fsys.Regular && !r.opts.DryRun {
		return r.moveData(e, movers)
	}
	if r.opts.DryRun && e.Kind == fsys.Regular {
		e.resumed = r.wouldContinue(e, movers)
	}
	for _, p := range movers {
		if r.opts.DryRun {
			err := r.accepts(e, p, e.digests, true)
			if err != nil && !errors.Is(err, dest.ErrReported) {
				return err
			}
			if r.endStep(e, p, err); !p.open() {
				continue
			}
			_ = r.keepOld(p) // in a dry run it only counts the file
			p.finish(targetResult{done: p.created()})
			continue
		}
		e.activity.At(p.target.Place())
		r.endStep(e, p, r.makeSpecial(e, p))
	}
	return nil
}

// keepAll finishes the transfers whose existing file has the source's content. A file that would
// keep digests of an earlier run is compared if this run has computed other ones.
func (r *copier) keepAll(e *entry) error {
	for p := range e.in(stateKeeping) {
		if e.contradicts(p.content.Digests) {
			p.compareInstead()
		}
	}
	if err := r.compare(e); err != nil {
		return err
	}
	for p := range e.in(stateKeeping) {
		r.endStep(e, p, r.keep(e, p))
	}
	return nil
}
