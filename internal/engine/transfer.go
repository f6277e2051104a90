package engine

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// transfer is the copy of one entry to one destination.
type transfer struct {
	target *target
	dd     *destDir
	dir    *fsys.Dir // directory; nil in a dry run if it does not exist
	name   string    // name at the destination
	alias  string    // another spelling under which the destination lists name; "" if there is none
	made   bool      // true if this run gave the name to a copy of this entry, perhaps of an earlier state
	// backedUp means that the backup directory has the file that had the name before this run.
	backedUp bool

	state    state              // progress; only become changes it
	have     fsys.Info          // the destination's entry of that name; valid if exists
	exists   bool               // true if an entry of that name exists
	observed policy.Observation // observation before the decision
	decision policy.Decision
	content  policy.Content // content of the destination's entry, as far as it is known
	result   targetResult   // outcome; valid in stateFinished

	temporary
}

// temporary is the unfinished file of a transfer, which gets the name when it is complete.
type temporary struct {
	sink     pipe.Sink
	bypass   bool             // true if the data bypasses the cache or was counted by the goroutine of the device
	inFlight *resume.InFlight // the record of a large file's temporary in the log; nil if there is none
}

// state is the progress of a transfer. mayBecome has the table of transitions.
type state uint8

const (
	stateUndecided state = iota // The destination's entry has to be observed.
	stateComparing              // The content of the destination's file decides.
	stateMoving                 // The source's content has to be copied.
	stateKeeping                // The destination's entry has the source's content; its metadata may differ.
	stateFinished               // result has the outcome.
	stateFailed                 // The failure was reported, or the run was stopped.
)

func (s state) String() string {
	return [...]string{"undecided", "comparing", "moving", "keeping", "finished", "failed"}[s]
}

// mayBecome reports whether a transfer may change from state s to next. A transfer returns to
// stateUndecided in two cases: another process has taken the name, or the source has changed.
// Only stateFailed is final.
func (s state) mayBecome(next state) bool {
	switch s {
	case stateUndecided:
		return true
	case stateComparing:
		return next != stateComparing
	case stateKeeping: // see compareInstead for the way back
		return next != stateKeeping
	case stateMoving:
		return next == stateUndecided || next == stateFinished || next == stateFailed
	case stateFinished:
		return next == stateUndecided
	}
	return false
}

// become changes the state. It panics if the table does not allow the transition. A transfer
// in a wrong state could cause a wrong line in a manifest. A run that panics can be resumed.
func (p *transfer) become(next state) {
	if !p.state.mayBecome(next) {
		panic(fmt.Sprintf("the transfer of %q is %s and cannot become %s", p.name, p.state, next))
	}
	p.state = next
}

// finish ends the transfer with a result.
func (p *transfer) finish(res targetResult) {
	p.become(stateFinished)
	p.result = res
	p.result.backedUp = p.backedUp && (res.done == outReplaced || res.done == outLinked)
	p.made = p.made || res.done.written()
}

// startAgain resets the transfer after the description of the source has changed. A failed
// transfer stays failed. made persists, and backedUp together with it.
func (p *transfer) startAgain() {
	if p.state == stateFailed {
		return
	}
	p.become(stateUndecided)
	*p = transfer{target: p.target, dd: p.dd, dir: p.dir, name: p.name, alias: p.alias, made: p.made, backedUp: p.backedUp && p.made}
}

// open reports whether the transfer is unfinished and its destination is still in use.
func (p *transfer) open() bool {
	return p.state != stateFinished && p.state != stateFailed && !p.target.Dropped()
}

// in yields the entry's transfers that are in state s, except those to dropped destinations.
// It reads each state when the iteration reaches the transfer, so a step can move later
// transfers into the state.
func (e *entry) in(s state) iter.Seq[*transfer] {
	return func(yield func(*transfer) bool) {
		for _, p := range e.transfers {
			if p.state == s && !p.target.Dropped() && !yield(p) {
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

// anyOpen reports whether any of the transfers is open.
func anyOpen(transfers []*transfer) bool { return slices.ContainsFunc(transfers, (*transfer).open) }

// created returns the outcome of a transfer that copied the entry: outCreated or outReplaced.
func (p *transfer) created() outcome {
	if p.exists {
		return outReplaced
	}
	return outCreated
}

// outcome is the result of a transfer.
type outcome uint8

const (
	outNothing   outcome = iota // The entry was not attempted, or failed and was reported.
	outCreated                  // The entry was created under a new name.
	outReplaced                 // The copy replaced an existing entry.
	outLinked                   // The name became a hard link.
	outUpToDate                 // The entry was equal.
	outRefreshed                // The content was equal; the metadata was updated.
	outOwn                      // The run writes its own manifest under the name.
	outLeft                     // Policy "never" left it alone, or the destination cannot store that kind of entry.
	outConflict                 // The existing entry was left alone and reported.
)

// written reports whether the run has given the name to the source's content.
func (o outcome) written() bool { return o == outCreated || o == outReplaced || o == outLinked }

// outcomeNames are the names of outcomes in Event.Action and Entry.Outcomes.
var outcomeNames = [...]string{
	outNothing:   "",
	outCreated:   "created",
	outReplaced:  "replaced",
	outLinked:    "linked",
	outUpToDate:  "up to date",
	outRefreshed: "metadata updated",
	outOwn:       "",
	outLeft:      "kept",
	outConflict:  "conflict",
}

// inStage adds the stage to an error; nil stays nil. failSource and failTransfer add path and
// destination.
func inStage(stage failure.Stage, err error) error {
	if err == nil {
		return nil
	}
	return &failure.FileError{Stage: stage, Err: err}
}

// splitStage separates an error from its stage. The stage is StageRead if inStage has added
// none.
func splitStage(err error) (failure.Stage, error) {
	if at, ok := errors.AsType[*failure.FileError](err); ok {
		return at.Stage, at.Err
	}
	return failure.StageRead, err
}

// startAction changes the transfer's state to the one in which the action is carried out, or
// finishes the transfer if the action is to do nothing.
func (p *transfer) startAction(e *entry, act policy.Action) {
	switch act {
	case policy.Create, policy.Replace:
		p.become(stateMoving)
	case policy.Keep:
		p.become(stateKeeping)
	case policy.Compare:
		p.become(stateComparing)
	case policy.LeaveConflict:
		p.finish(targetResult{done: outConflict, conflict: p.decision.Conflict})
	case policy.Leave:
		if p.decision.Suspect && !p.content.Fresh {
			p.target.warnSuspect(e.Path)
		}
		p.finish(targetResult{done: outLeft, Content: p.content})
	}
}

// abort removes the transfer's temporary, unless it is committed or kept.
func (p *transfer) abort() {
	if p.sink.File != nil {
		p.stopBeside()
		if p.sink.File.Abort() {
			p.target.Journals.Keep.Store(true) // the temporary could not be removed; a later run removes it
		}
		p.forget()
	}
	p.temporary = temporary{}
}

// stopBeside ends the work of other goroutines with the temporary: checkpoints and writeback.
func (t *temporary) stopBeside() {
	t.inFlight.Stop()
	if t.sink.Behind != nil {
		t.sink.Behind.Finish()
		t.sink.Behind = nil
	}
}

// forget records that the transfer's temporary does not exist any more: it was committed or
// removed.
func (p *transfer) forget() {
	p.inFlight.Gone()
	p.inFlight = nil
}

// manifestPath returns the path of the entry in the manifests of the transfer's destination.
func (e *entry) manifestPath(p *transfer) string {
	return cmp.Or(p.target.Name, e.Path)
}
