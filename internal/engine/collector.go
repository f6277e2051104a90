package engine

import (
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// collector counts, reports and records the results of all entries, in one goroutine. The other
// goroutines send it messages. It alone calls Options.Report and Options.Each.
type collector struct {
	messages chan message
	results  sync.Pool // a pool of *result, for newResult

	// The fields below belong to the goroutine of run. After await, they belong to the caller of
	// await until the next message is sent.

	opts     *Options
	counters *counters.Set
	targets  []*target
	single   bool                   // the source is a file
	accepts  func(event.Event) bool // the event was not reported before
	summary  *Summary
	seen     int64  // regular files that were processed
	toVerify amount // files of the source that verifying reads again
	undone   undone
	read     *catalog.Source // counts the files of a bag that are read; nil if the source is not validated
	at       []collected
}

// collected is what the collector knows about one destination.
type collected struct {
	TargetSummary // which summarize completes
	toVerify      amount
	written       lookup.Set // paths of the files that this run created or replaced; only for verifying
}

// message is what goroutines send to the collector. Only one field is set.
type message struct {
	event  *event.Event // event to report
	result *result      // result of an entry
	do     func()       // function that runs after all earlier messages; it may use the collector's data
}

// result is the outcome of one entry at all destinations.
type result struct {
	path    string
	kind    fsys.Kind
	size    int64
	mtime   fsys.Time // modification time of the source's file
	ctime   fsys.Time
	resumed int64 // bytes that an interrupted run had written already
	targets []targetResult
}

// targetResult is the outcome of one entry at one destination.
type targetResult struct {
	target         *target
	done           outcome
	existed        bool             // true if an entry had the name
	conflict       *policy.Conflict // reason of outConflict
	ignored        bool             // a file that the history of the destination leaves out
	reason         string           // text for people; "" if the outcome needs no reason
	policy.Content                  // Content is that of the manifest and the journal.
	name           string           // name of the file in the manifest
	alias          string           // another spelling of name that the destination treats as equal; "" if there is none
	unlisted       bool             // true if no manifest lists the entry
	each           bool             // true if the file was synced separately
	backedUp       bool             // true if the backup directory has the replaced file
}

// newCollector returns the collector of a run. The caller starts its goroutine.
func newCollector(r *run) *collector {
	return &collector{
		messages: make(chan message, jobsAhead), opts: r.opts, counters: r.counters, targets: r.targets,
		single: r.route.Name != "", accepts: func(e event.Event) bool { return r.mode.record(r, e) },
		summary: &Summary{DryRun: r.opts.DryRun}, at: make([]collected, len(r.targets)),
	}
}

// run processes messages until end is called.
func (c *collector) run() {
	for m := range c.messages {
		switch {
		case m.do != nil:
			m.do()
		case m.result != nil:
			c.account(m.result)
			c.results.Put(m.result)
		case c.accepts(*m.event):
			c.count(*m.event)
			c.undone.event(*m.event)
			c.deliver(*m.event)
		}
	}
}

// end ends the goroutine of run, after all messages that were sent before.
func (c *collector) end() { close(c.messages) }

// do lets the collector call f, which may use its data.
func (c *collector) do(f func()) { c.messages <- message{do: f} }

// await waits until the collector has processed all messages that were sent before. Until
// the next message is sent, the caller may use the data of the collector.
func (c *collector) await() {
	done := make(chan struct{})
	c.do(func() { close(done) })
	<-done
}

// newResult returns an empty result, which run uses again after the result was sent.
func (c *collector) newResult() *result {
	f, _ := c.results.Get().(*result)
	if f == nil {
		f = &result{targets: make([]targetResult, 0, len(c.targets))}
	}
	*f = result{targets: f.targets[:0]}
	return f
}

// record lets the collector record an outcome that is not one of an entry.
func (c *collector) record(t *target, o record.Outcome) {
	if !c.opts.DryRun {
		c.do(func() { t.records.Account(o) })
	}
}

// deliver calls Options.Report.
func (c *collector) deliver(e event.Event) {
	if c.opts.Report != nil {
		c.opts.Report(e)
	}
}

// deliverEntry calls Options.Each.
func (c *collector) deliverEntry(f *result) {
	if c.opts.Each == nil {
		return
	}
	e := &event.Entry{Path: f.path, Kind: f.kind, Size: f.size, Mtime: f.mtime, Outcomes: make([]string, len(c.targets)), Listed: make([]bool, len(c.targets))}
	for _, t := range f.targets {
		e.Outcomes[t.target.Index] = outcomeNames[t.done]
		e.Listed[t.target.Index] = t.Digests != nil && !t.unlisted && !t.ignored
		if e.Digests == nil {
			e.Digests = t.Digests
		}
	}
	c.opts.Each(e)
}

// count counts an event in the summary.
func (c *collector) count(e event.Event) {
	c.summary.Causes.AddEvent(e)
	for _, t := range c.targets {
		at := &c.at[t.Index]
		switch {
		case t.Given != e.Target || e.Kind == event.Warning:
		case e.Kind == event.Conflict:
			at.Conflicts++
		default:
			at.Failures++
		}
	}
	switch e.Kind {
	case event.Failed, event.DestinationLost:
		c.summary.Errors++
	case event.Mismatch:
		c.summary.Mismatches++
	case event.Conflict:
		c.summary.Conflicts++
	case event.Warning:
		c.summary.Warnings++
	}
}

// account counts an entry once, by its best outcome. It records and reports the outcome at each
// destination.
func (c *collector) account(f *result) {
	s := c.summary
	var copied, linked, skipped, listed, known bool
	var entry Counts // outcomes of this entry at all destinations
	for _, t := range f.targets {
		c.recordAt(f, t)
		known = known || t.Known
		listed = listed || t.Digests != nil
		entry.add(t)
		e := event.Event{Kind: event.Copied, Path: f.path, Target: t.target.Given, Entry: f.kind, Bytes: f.size, Action: outcomeNames[t.done], Reason: t.reason, Digests: t.Digests}
		switch t.done {
		case outCreated, outReplaced:
			copied = true
		case outLinked:
			linked = true
		case outUpToDate, outRefreshed, outLeft:
			e.Kind, skipped = event.Skipped, true
		default:
			continue
		}
		c.deliver(e)
	}
	if listed && c.opts.Verify == VerifyFull {
		c.toVerify.add(1, f.size)
	}
	s.addEntry(entry)
	s.ResumedBytes += f.resumed
	if known && !copied {
		s.ResumedFiles++
		s.ResumedBytes += f.size
	}
	c.counters.ResumedFiles.Store(s.ResumedFiles)
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
	c.countPresent(f)
	c.deliverEntry(f)
	c.undone.account(c.targets, f)
}

// recordAt records the outcome of an entry at one destination: in its log, its records and its
// counts.
func (c *collector) recordAt(f *result, t targetResult) {
	at := &c.at[t.target.Index]
	if t.Fresh && !c.opts.DryRun { // an error of the log is reported by the goroutines that make checkpoints
		t.target.Log.Add(&journal.File{Path: t.name, Size: f.size, Mtime: f.mtime, Ctime: f.ctime, Digests: t.Digests}, t.each)
	}
	if t.Digests != nil {
		at.toVerify.add(1, f.size)
	}
	if c.opts.Verify != VerifyOff && t.done.written() {
		at.written.Add(t.name)
	}
	if !c.opts.DryRun {
		c.recordEntry(f, t)
	}
	if t.backedUp {
		t.target.Backups.Kept.Add(1)
	}
	at.Counts.add(t)
	addToSyncList(&t.target.SyncList, f.kind, t)
	at.Copied.add(f, t)
}

// addToSyncList records an entry that has to be synced when the run ends.
func addToSyncList(l *dest.SyncList, kind fsys.Kind, t targetResult) {
	switch {
	case t.done == outNothing || t.done == outConflict || t.done == outOwn || kind == fsys.Directory:
	case kind == fsys.Regular && t.done != outLinked && t.done != outLeft:
		l.AddFile(t.name)
	default:
		l.AddOther()
	}
}

// recordEntry records the outcome of an entry at one destination.
func (c *collector) recordEntry(f *result, t targetResult) {
	records := t.target.records
	if t.unlisted {
		records.Account(record.Outcome{Path: t.name, Dropped: true})
		return
	}
	records.Account(record.Outcome{
		Path: t.name, Digests: t.Digests, Size: f.size, Mtime: f.mtime.Sec,
		Created: t.done == outCreated, Replaced: t.done == outReplaced || t.done == outLinked && t.existed, Failed: t.done == outNothing, Resumed: t.Known, Line: t.Line,
	})
	if t.alias != "" { // an earlier manifest may list the file under its alias
		records.Account(record.Outcome{Path: t.alias, Dropped: true})
	}
}

// countPresent counts a regular file at each destination that has it now, and as read.
func (c *collector) countPresent(f *result) {
	if f.kind != fsys.Regular {
		return
	}
	c.seen++
	if c.read != nil {
		c.read.Count(f.path, f.size)
	}
	for _, t := range f.targets {
		at := &c.at[t.target.Index]
		switch t.done {
		case outNothing:
			continue
		case outConflict:
			at.Left++
		default:
			at.Present++
			t.target.Space.Present.Add(f.size)
			if t.ignored {
				at.Ignored++
			}
		}
		if t.done == outCreated {
			t.target.Space.Created.Add(f.size)
		}
		if c.single {
			at.Digests = t.Digests
		}
	}
}

// total returns how many regular files the source has, or -1 if that is unknown. stopped means that
// the walk of the source did not end.
func (c *collector) total(stopped bool) int64 {
	switch {
	case !stopped:
		return c.seen
	case c.counters.ScanDone.Load():
		return max(c.counters.TotalFiles.Load(), c.seen)
	}
	return -1
}

// addReserved counts an entry of the source that no copy gets.
func (c *collector) addReserved(path string) {
	c.do(func() {
		s := c.summary
		if s.Reserved++; len(s.ReservedAt) < quote.MaxFew {
			s.ReservedAt = append(s.ReservedAt, path)
		}
	})
}

// addDir counts a directory with its results, if there are any. undone records what a dropped
// destination lacks, also without a result.
func (c *collector) addDir(f *result) {
	if len(f.targets) > 0 || slices.ContainsFunc(c.targets, (*target).Dropped) {
		c.messages <- message{result: f}
	}
}
