package engine

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// transfer is the copy of one entry to one destination.
type transfer struct {
	target *target
	dd     *destDir
	dir    *fsys.Dir // nil in a dry run where the directory would be made
	name   string    // at the destination
	made   bool      // this run has given the name to this or an earlier state of the file
	// backedUp: what had the name, and was not this run's, is in the backup directory.
	backedUp bool

	state    state       // only become changes it
	have     fsys.Info   // of what has the name
	exists   bool        // something has the name, which have describes
	observed observation // before the decision
	decision decision
	content  content      // of what has the name, as far as it is known by now
	result   targetResult // how the transfer has ended, in stateFinished

	temporary
}

// temporary is the file that gets the transfer's name when it is complete.
type temporary struct {
	sink     pipe.Sink
	bypass   bool             // what is written bypasses the page cache
	inFlight *resume.InFlight // the temporary of a large file, as long as the log may name it
}

// state says how far a transfer has come. mayBecome has the transitions.
type state uint8

const (
	stateUndecided state = iota // what has the name has to be observed
	stateComparing              // the content of what has the name decides
	stateMoving                 // the source's content is to get the name
	stateKeeping                // what has the name has the source's content; its metadata may differ
	stateFinished               // result says how
	stateFailed                 // it was reported, or the run was stopped
)

func (s state) String() string {
	return [...]string{"undecided", "comparing", "moving", "keeping", "finished", "failed"}[s]
}

// mayBecome reports whether a transfer may go from one state to another. Two events lead
// back to stateUndecided: another process has given the name to a file, or the source has
// changed. Only a failure, which was reported, is final.
func (s state) mayBecome(next state) bool {
	switch s {
	case stateUndecided:
		return true
	case stateComparing:
		return next != stateComparing
	case stateKeeping: // the content is in doubt, or the file shares its inode with other names
		return next != stateKeeping
	case stateMoving:
		return next == stateUndecided || next == stateFinished || next == stateFailed
	case stateFinished:
		return next == stateUndecided
	}
	return false
}

// become changes the state. It panics if the transition is not allowed: a manifest line
// that rests on such a transfer could be wrong, while a run that dies is resumed.
func (p *transfer) become(next state) {
	if !p.state.mayBecome(next) {
		panic(fmt.Sprintf("the transfer of %q is %s and cannot become %s", p.name, p.state, next))
	}
	p.state = next
}

// finish ends the transfer.
func (p *transfer) finish(res targetResult) {
	p.become(stateFinished)
	p.result = res
	p.result.backedUp = p.backedUp && (res.done == outReplaced || res.done == outLinked)
	p.made = p.made || res.done == outCreated || res.done == outReplaced || res.done == outLinked
}

// startAgain resets the transfer because the description of the source is out of date. A
// failed transfer stays failed, and made is kept.
func (p *transfer) startAgain() {
	if p.state == stateFailed {
		return
	}
	p.become(stateUndecided)
	*p = transfer{target: p.target, dd: p.dd, dir: p.dir, name: p.name, made: p.made, backedUp: p.backedUp && p.made}
}

// open reports whether there is still something to do.
func (p *transfer) open() bool {
	return p.state != stateFinished && p.state != stateFailed && !p.target.isDropped()
}

// in yields the entry's transfers that are in the state, except those to dropped
// destinations. The state is read as the iteration reaches a transfer, so one that enters
// the state during a step is included if it comes later.
func (e *entry) in(s state) iter.Seq[*transfer] {
	return func(yield func(*transfer) bool) {
		for _, p := range e.transfers {
			if p.state == s && !p.target.isDropped() && !yield(p) {
				return
			}
		}
	}
}

// has reports whether in would yield a transfer.
func (e *entry) has(s state) bool {
	for range e.in(s) {
		return true
	}
	return false
}

func anyOpen(transfers []*transfer) bool { return slices.ContainsFunc(transfers, (*transfer).open) }

// created is the outcome of a transfer that gives its name to new content.
func (p *transfer) created() outcome {
	if p.exists {
		return outReplaced
	}
	return outCreated
}

// outcome is how a transfer has ended.
type outcome uint8

const (
	outNothing   outcome = iota // not attempted, or failed and reported
	outCreated                  // new
	outReplaced                 // new, in place of another
	outLinked                   // a hard link
	outUpToDate                 // equal already
	outRefreshed                // equal already, metadata brought up to date
	outLeft                     // policy "never", or the destination cannot hold it
	outConflict                 // reported
)

// outcomeNames are the outcomes in events and entries.
var outcomeNames = [...]string{
	outNothing:   "",
	outCreated:   "created",
	outReplaced:  "replaced",
	outLinked:    "linked",
	outUpToDate:  "up to date",
	outRefreshed: "metadata",
	outLeft:      "kept",
	outConflict:  "conflict",
}

// inStage adds to an error the stage at which it kept an entry from being copied; nil
// stays nil. failSource and failTransfer add the rest.
func inStage(stage failure.Stage, err error) error {
	if err == nil {
		return nil
	}
	return &failure.FileError{Stage: stage, Err: err}
}

// splitStage takes the stage off an error; one without is about reading the source.
func splitStage(err error) (failure.Stage, error) {
	if at, ok := errors.AsType[*failure.FileError](err); ok {
		return at.Stage, at.Err
	}
	return failure.StageRead, err
}
