package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// This file has what goroutines send to the collector: results, failures and conflicts.

// sendResult sends the result of an entry to the collector. It completes the progress counters,
// which count each file of any outcome, except a file that was interrupted.
func (r *run) sendResult(e *entry) {
	f := r.collector.newResult()
	f.path, f.kind, f.size, f.mtime, f.ctime, f.resumed = e.Path, e.Kind, e.Meta.Info.Size, e.Meta.Info.Mtime, e.Meta.Info.Ctime, e.resumed
	f.unlisted = strings.Contains(e.Path, mhl.Folder+"/") && !r.isListed(e.Dir)
	interrupted := r.stopped() // unless it has an outcome at a destination
	for _, p := range e.transfers {
		t := p.result
		t.reason = r.reason(e, p)
		t.ignored = e.Kind == fsys.Regular && p.target.records.Omits(e.Path)
		t.target, t.existed, t.name, t.each = p.target, p.exists, e.manifestPath(p), p.dd.system != nil && p.dd.system.SyncEach
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
func (r *run) reason(e *entry, p *transfer) string {
	if p.result.done == outRefreshed {
		return p.dd.system.OutdatedKinds(e.Meta.Info, p.have)
	}
	return reasonOf(p.observed, p.decision, p.content.fresh, p.result.done)
}

// report sends an event to the collector. With --fail-fast, a failure then ends the run.
func (r *run) report(e event.Event) {
	if r.opts.FailFast && (e.Kind == event.Failed || e.Kind == event.DestinationLost || e.Kind == event.Mismatch) {
		defer r.cancel(errFailFast)
	}
	r.collector.messages <- message{event: &e}
}

// failSource reports that an entry cannot be copied to any destination. A file that an earlier
// run has copied to a destination keeps its line in the manifest there.
func (r *run) failSource(e *entry, stage failure.Stage, err error) {
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
func (r *run) reportSource(path string, stage failure.Stage, err error) {
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
func (r *run) failTransfer(e *entry, p *transfer, stage failure.Stage, err error) {
	p.become(stateFailed)
	p.target.Fail(e.Path, stage, err)
}

// loseTarget ends the run if no destination is left.
func (r *run) loseTarget() {
	if r.targetsLeft.Add(-1) == 0 {
		r.cancel(errNoTarget)
	}
}
