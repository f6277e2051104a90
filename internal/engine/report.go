package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// This file has what goroutines send to the collector: results, failures and conflicts.

// reporter is the part of a run that all others use. It has what they all need to know, and reports
// to the collector.
type reporter struct {
	opts       *Options
	counters   *counters.Set
	route      *route.Route
	rules      rules // rules of the mode
	source     *fsys.Dir
	sourceInfo fsys.Info   // state of the source directory at the start of the run
	sourceGone atomic.Bool // true if the root cannot be read any more; this was reported
	validates  bool        // true if the source is a bag that is validated
	targets    targets

	outer       context.Context // context of Run: ends when the user stops the run
	ctx         context.Context // ends with outer, at a failure with FailFast, and without a source or destination
	cancel      context.CancelCauseFunc
	targetsLeft atomic.Int64

	sampler   *timing.Sampler
	collector *collector
	warned    kindSet // warnings that concern the whole run and were reported
}

// sendResult sends the result of an entry to the collector. It completes the progress counters,
// which count each file of any outcome, except a file that was interrupted.
func (r *reporter) sendResult(e *entry) {
	f := r.collector.newResult()
	f.path, f.kind, f.size, f.mtime, f.ctime, f.resumed = e.Path, e.Kind, e.Meta.Info.Size, e.Meta.Info.Mtime, e.Meta.Info.Ctime, e.resumed
	interrupted := r.stopped() // unless it has an outcome at a destination
	for _, p := range e.transfers {
		t := p.result
		t.reason = r.reason(e, p)
		t.ignored = e.Kind == fsys.Regular && p.target.records.Omits(e.Path)
		t.target, t.existed, t.name, t.unlisted, t.each = p.target, p.exists, e.manifestPath(p), p.dd.unlisted, p.dd.system != nil && p.dd.system.SyncEach
		switch t.done {
		case outConflict:
			p.target.conflict(e.Path, t.conflict)
		case outNothing, outOwn, outLeft:
		default:
			if p.alias != "" {
				t.alias = e.Dir.Join(p.alias)
			}
		}
		interrupted = interrupted && t.done == outNothing
		f.targets = append(f.targets, t)
	}
	select {
	case r.collector.messages <- message{result: f}:
	default:
		from := e.activity.At(timing.None)
		r.collector.messages <- message{result: f}
		e.activity.At(from)
	}
	if e.Kind == fsys.Regular && !interrupted {
		r.counters.Files.Add(1)
		rest := e.Meta.Info.Size - e.counted
		counters.Grow(&r.counters.Unread, max(rest, 0)) // the run did not read these bytes, so rates exclude them
		counters.Grow(&r.counters.Bytes, rest)
	}
}

// reason returns the reason of a transfer's outcome as text for people, or "".
func (r *reporter) reason(e *entry, p *transfer) string {
	if p.result.done == outRefreshed {
		return p.dd.system.OutdatedKinds(e.Meta.Info, p.have)
	}
	return reasonOf(p.observed, p.decision, p.content.Fresh, p.result.done)
}

// report sends an event to the collector. With --fail-fast, a failure then ends the run.
func (r *reporter) report(e event.Event) {
	if r.opts.FailFast && (e.Kind == event.Failed || e.Kind == event.DestinationLost || e.Kind == event.Mismatch) {
		defer r.cancel(errFailFast)
	}
	r.collector.messages <- message{event: &e}
}

// failSource reports that an entry cannot be copied to any destination. A file that an earlier
// run has copied to a destination keeps its line in the manifest there.
func (r *reporter) failSource(e *entry, stage failure.Stage, err error) {
	for _, p := range e.transfers {
		if p.state != stateFinished && p.state != stateFailed {
			p.become(stateFailed)
		}
	}
	if r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()) { // interrupted, not failed
		return
	}
	r.reportSource(e.Path, stage, err)
}

// reportSource reports that something of the source cannot be read. If the root cannot be
// read either, it reports that once and ends the run: every further file would fail, too.
func (r *reporter) reportSource(path string, stage failure.Stage, err error) {
	if fsys.DeviceFailed(err) || fsys.DestinationLost(err) {
		if r.sourceGone.Load() {
			return
		}
		if r.source.Each(func([]byte, uint64, fsys.Kind) bool { return false }) != nil {
			if r.sourceGone.Swap(true) {
				return
			}
			err = fmt.Errorf("%w; the source cannot be read any more, so the copy stops", err)
			defer r.cancel(errSourceGone)
		}
	}
	r.report(event.OfFile(event.Failed, path, "", stage, err))
}

// failTransfer reports that an entry cannot be copied to one destination.
func (r *reporter) failTransfer(e *entry, p *transfer, stage failure.Stage, err error) {
	p.become(stateFailed)
	p.target.Fail(e.Path, stage, err)
}

// loseTarget ends the run if no destination is left.
func (r *reporter) loseTarget() {
	if r.targetsLeft.Add(-1) == 0 {
		r.cancel(errNoTarget)
	}
}

// stopped reports whether the run was stopped before it processed every entry. A run that has lost
// all destinations was not stopped.
func (r *reporter) stopped() bool {
	return r.outer.Err() != nil || r.ctx.Err() != nil && !errors.Is(context.Cause(r.ctx), errNoTarget)
}

// checkExpected reports whether digests, which were computed from the source, match the source's
// own manifests. If not, it sends the mismatch to the collector, once for each entry.
func (r *reporter) checkExpected(e *entry, digests hash.Digests) bool {
	if e.broken {
		return false
	}
	err := e.expected.Mismatch(r.opts.Hashes, digests)
	if err == nil && !e.expected.Any() && e.group.refutes(digests) {
		err = errors.New("not copied: another name of the same file does not match the manifest that lists it")
	}
	if err == nil {
		return true
	}
	e.broken = true
	r.reportBroken(e, err)
	return false
}

func (r *reporter) reportBroken(e *entry, err error) {
	r.report(event.OfFile(event.Mismatch, e.Path, "", failure.StageVerify, err))
}

// failBroken fails the open transfers if the source was read and does not match its manifests, and
// reports whether that is so.
func (r *reporter) failBroken(e *entry) bool {
	if e.digests == nil || r.checkExpected(e, e.digests) {
		return false
	}
	for _, p := range e.transfers {
		if p.open() {
			p.become(stateFailed)
		}
	}
	return true
}

// uncount subtracts the entry's bytes from the progress counters.
func (r *reporter) uncount(e *entry) {
	if e.counted > 0 {
		r.counters.Bytes.Add(-e.counted)
		r.counters.Unread.Add(-e.unread)
		e.counted, e.unread = 0, 0
	}
}

// endStep deals with the error of a step of one transfer, if it is not nil.
func (r *reporter) endStep(e *entry, p *transfer, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errNameTaken):
		p.become(stateUndecided)
	case errors.Is(err, dest.ErrReported):
		p.become(stateFailed)
	default:
		stage, err := splitStage(err)
		r.failTransfer(e, p, stage, err)
	}
}
