package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// message is what goroutines send to the one collector. Only one field is set.
type message struct {
	event  *Event  // to report
	result *result // of an entry
	do     func()  // called after all earlier messages; it may use the data of the collector
}

// result is the outcome of one entry at all destinations.
type result struct {
	path    string
	kind    fsys.Kind
	size    int64
	mtime   fsys.Time // of the source's file
	ctime   fsys.Time
	resumed int64 // bytes that an interrupted run had written already
	targets []targetResult

	unlisted bool // no manifest lists the entry
}

// targetResult is the outcome of one entry at one destination.
type targetResult struct {
	target   *target
	done     outcome
	existed  bool           // something had the name
	conflict *conflictError // for outConflict
	ignored  bool           // a file that the history of the destination leaves out
	reason   string         // text for people; "" if the outcome needs no reason
	content                 // for the manifest and the journal
	name     string         // how the manifest lists the file
	alias    string         // another spelling of name that the destination treats as equal; "" if there is none
	each     bool           // the file was synced separately
	backedUp bool           // the backup directory has the replaced file
}

// collect runs until r.messages is closed. It alone writes the summary and the
// manifests' records, and calls Options.Report.
func (r *run) collect() {
	for m := range r.messages {
		switch {
		case m.do != nil:
			m.do()
		case m.result != nil:
			r.account(m.result)
			r.countPresent(m.result)
			r.countPayload(m.result)
			r.deliverEntry(m.result)
			r.undone.account(r.targets, m.result)
			r.results.Put(m.result)
		case r.mode.record(r, *m.event): // otherwise the event is ignored
			r.count(*m.event)
			r.undone.event(*m.event)
			r.deliver(*m.event)
		}
	}
}

// dropLines lets the collector drop lines of a destination's earlier manifests. A dry run keeps
// them, and may have no catalog.
func (r *run) dropLines(t *target, drop func(*catalog.Catalog)) {
	if t.catalog != nil && !r.opts.DryRun {
		r.messages <- message{do: func() { drop(t.catalog) }}
	}
}

// awaitCollector waits until the collector has processed all messages that were sent before. Until
// the next message is sent, the caller may use the data of the collector.
func (r *run) awaitCollector() {
	done := make(chan struct{})
	r.messages <- message{do: func() { close(done) }}
	<-done
}

// deliver calls Options.Report.
func (r *run) deliver(e Event) {
	if r.opts.Report != nil {
		r.opts.Report(e)
	}
}

// deliverEntry calls Options.Each.
func (r *run) deliverEntry(f *result) {
	if r.opts.Each == nil {
		return
	}
	e := &Entry{Path: f.path, Kind: f.kind, Size: f.size, Mtime: f.mtime, Outcomes: make([]string, len(r.targets))}
	for _, t := range f.targets {
		e.Outcomes[t.target.index] = outcomeNames[t.done]
		if e.Digests == nil {
			e.Digests = t.digests
		}
	}
	r.opts.Each(e)
}

// count counts an event in the summary.
func (r *run) count(e Event) {
	switch e.Kind {
	case EventFailed, EventTargetLost:
		r.summary.Errors++
	case EventMismatch:
		r.summary.Mismatches++
	case EventConflict:
		r.summary.Conflicts++
		for _, t := range r.targets {
			if t.Given == e.Target {
				t.bag.conflicts++
			}
		}
	case EventWarning:
		r.summary.Warnings++
	}
}

// account counts an entry once, by its best outcome. It records and reports the outcome at each
// destination.
func (r *run) account(f *result) {
	s := r.summary
	var copied, linked, skipped, listed, known bool
	var entry Counts // of this entry at all destinations
	for _, t := range f.targets {
		r.recordAt(f, t)
		known = known || t.known
		listed = listed || t.digests != nil
		entry.add(t)
		e := Event{Kind: EventCopied, Path: f.path, Target: t.target.Given, Entry: f.kind, Bytes: f.size, Action: outcomeNames[t.done], Reason: t.reason, Digests: t.digests}
		switch t.done {
		case outCreated, outReplaced:
			copied = true
		case outLinked:
			linked = true
		case outUpToDate, outRefreshed, outLeft:
			e.Kind, skipped = EventSkipped, true
		default:
			continue
		}
		r.deliver(e)
	}
	if listed && r.opts.Verify == VerifyFull {
		r.toVerify.add(1, f.size)
	}
	s.addEntry(entry)
	s.ResumedBytes += f.resumed
	if known && !copied {
		s.ResumedFiles++
		s.ResumedBytes += f.size
	}
	r.counters.ResumedFiles.Store(s.ResumedFiles)
	switch {
	case copied && f.kind == fsys.Directory:
		s.Directories++
	case copied && f.kind == fsys.Regular:
		s.Files++
		s.Bytes = counters.Plus(s.Bytes, f.size-f.resumed)
	case copied && f.kind == fsys.Symlink:
		s.Links++
	case copied:
		s.Specials++
	case linked:
		s.HardLinks++
	case skipped && f.kind != fsys.Directory:
		s.Skipped++
	}
}

// recordAt records the outcome of an entry at one destination: in its log, its catalog and its
// counts.
func (r *run) recordAt(f *result, t targetResult) {
	if t.fresh && !r.opts.DryRun { // an error of the log is reported by the goroutines that make checkpoints
		t.target.log.Add(&journal.File{Path: t.name, Size: f.size, Mtime: f.mtime, Ctime: f.ctime, Digests: t.digests}, t.each)
	}
	if t.digests != nil {
		t.target.toVerify.add(1, f.size)
	}
	if r.opts.Verify != VerifyOff && (t.done == outCreated || t.done == outReplaced || t.done == outLinked) {
		t.target.written.Add(t.name)
	}
	if !r.opts.DryRun && t.target.catalog != nil {
		r.recordLine(f, t)
	}
	if t.backedUp {
		t.target.backup.kept.Add(1)
	}
	t.target.counts.add(t)
	t.target.syncList.addResult(f.kind, t)
	t.target.copied.add(f, t)
}

// recordLine records the outcome of an entry in the catalog of one destination.
func (r *run) recordLine(f *result, t targetResult) {
	c := t.target.catalog
	if f.unlisted {
		c.Drop(t.name)
		return
	}
	c.Record(catalog.Outcome{
		Path: t.name, Digests: t.digests[:min(r.listedHashes, len(t.digests))], Size: f.size, Mtime: f.mtime.Sec,
		Created: t.done == outCreated, Replaced: t.done == outReplaced || t.done == outLinked && t.existed, Failed: t.done == outNothing, Resumed: t.known, Line: t.line,
	})
	if t.alias != "" { // an earlier manifest may list the file under its alias
		c.Drop(t.alias)
	}
}

// countPresent counts a regular file at each destination that has it now.
func (r *run) countPresent(f *result) {
	if f.kind != fsys.Regular {
		return
	}
	r.seen++
	for _, t := range f.targets {
		switch t.done {
		case outNothing:
			continue
		case outConflict:
			t.target.conflicting++
		default:
			t.target.present++
			t.target.presentBytes.Add(f.size)
			if t.ignored {
				t.target.ignored++
			}
		}
		if t.done == outCreated {
			t.target.createdBytes.Add(f.size)
		}
		if r.route.Name != "" {
			t.target.digests = t.digests
		}
	}
}

// total returns how many regular files the source has, or -1 if that is unknown.
func (r *run) total() int64 {
	switch {
	case r.ctx.Err() == nil:
		return r.seen
	case r.counters.ScanDone.Load():
		return max(r.counters.TotalFiles.Load(), r.seen)
	}
	return -1
}

// sendResult sends the result of an entry to the collector. It completes the progress counters,
// which count each file of any outcome, except a file that was interrupted.
func (r *run) sendResult(e *entry) {
	f, _ := r.results.Get().(*result)
	if f == nil {
		f = &result{targets: make([]targetResult, 0, len(r.targets))}
	}
	*f = result{
		path: e.path, kind: e.kind, size: e.meta.info.Size, mtime: e.meta.info.Mtime, ctime: e.meta.info.Ctime, resumed: e.resumed,
		targets: f.targets[:0],
	}
	f.unlisted = strings.Contains(e.path, mhl.Folder+"/") && !r.isListed(e.dir)
	interrupted := r.stopped() // unless it has an outcome at a destination
	for _, p := range e.transfers {
		t := p.result
		t.reason = r.reason(e, p)
		t.ignored = e.kind == fsys.Regular && r.histories.ignores(p.target, e.path)
		t.target, t.existed, t.name, t.each = p.target, p.exists, e.manifestPath(p), p.dd.system != nil && p.dd.system.syncEach
		switch t.done {
		case outConflict:
			r.conflict(p.target, e.path, t.conflict)
		case outNothing, outOwn, outLeft:
		default:
			if other, ok := p.dd.aliasFor(p.name); ok {
				t.alias = e.dir.Join(other)
			}
		}
		interrupted = interrupted && t.done == outNothing
		f.targets = append(f.targets, t)
	}
	select {
	case r.messages <- message{result: f}:
	default:
		e.clock.Wait(timing.Note, timing.None)
		r.messages <- message{result: f}
		e.clock.Resume()
	}
	if e.kind == fsys.Regular && !interrupted {
		r.counters.Files.Add(1)
		rest := e.meta.info.Size - e.counted
		counters.Grow(&r.counters.Unread, max(rest, 0)) // the run did not read these bytes, so rates exclude them
		counters.Grow(&r.counters.Bytes, rest)
	}
}

// reason returns the reason of a transfer's outcome as text for people, or "".
func (r *run) reason(e *entry, p *transfer) string {
	if p.result.done == outRefreshed {
		return r.outdatedKinds(p.dd.system, e.meta.info, p.have)
	}
	return reasonOf(p.observed, p.decision, p.content.fresh, p.result.done)
}

// report sends an event to the collector. With --fail-fast, a failure then ends the run.
func (r *run) report(e Event) {
	if r.opts.FailFast && (e.Kind == EventFailed || e.Kind == EventTargetLost || e.Kind == EventMismatch) {
		defer r.cancel(errFailFast)
	}
	r.messages <- message{event: &e}
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
	r.reportSource(e.path, stage, err)
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
	r.report(fileEvent(EventFailed, path, "", stage, err))
}

// failTransfer reports that an entry cannot be copied to one destination.
func (r *run) failTransfer(e *entry, p *transfer, stage failure.Stage, err error) {
	p.become(stateFailed)
	r.failTarget(p.target, e.path, stage, err)
}

// failTarget reports an error at one destination, and drops the destination if the error
// concerns more than the entry.
func (r *run) failTarget(t *target, path string, stage failure.Stage, err error) {
	if t.isDropped() || errors.Is(err, errReported) {
		return
	}
	if unflushed, ok := errors.AsType[*flushError](err); ok {
		t.drop(r, path, unflushed)
		return
	}
	if gone, err := t.isGone(err); gone {
		t.drop(r, path, err)
		return
	}
	making := stage == failure.StageCreate || stage == failure.StageCommit
	if name := path[strings.LastIndexByte(path, '/')+1:]; making && fsys.NameRefused(name, err) {
		err = fmt.Errorf("the destination does not accept this name: %w", err)
	}
	r.report(fileEvent(EventFailed, path, t.Given, stage, err))
}

// mismatch reports a file at a destination whose content does not match its expected digest.
func (r *run) mismatch(t *target, path string, err error) {
	r.report(fileEvent(EventMismatch, path, t.Given, failure.StageVerify, err))
}

// conflict reports an entry that is left unchanged at one destination because of a conflict.
func (r *run) conflict(t *target, path string, c *conflictError) {
	r.report(Event{Kind: EventConflict, Path: path, Target: t.Given, Err: c, Hint: c.policy(), Next: c.next})
}
