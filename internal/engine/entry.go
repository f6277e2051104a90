package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// entry is one entry of the source while a worker copies it to the destinations. A directory
// is no entry.
type entry struct {
	source.Entry

	activity  *timing.Activity // of the goroutine that works on it
	transfers []*transfer
	attempts  int                 // started so far, each with a new description; at most maxAttempts
	expected  catalog.Expectation // what the source's own manifests list for it
	broken    bool                // the content does not match expected, and that was reported
	memory    []transfer          // the elements that transfers points to, one for each destination
	group     *linkGroup          // nil unless all names of a file are copied together
	tracked   bool                // a checkpoint may still read the transfers, so the memory of the entry must not be used again

	reading
}

// reading is what was read in one state of the entry. If the entry changes or another file gets its
// name, it is described again, and all its transfers start again.
type reading struct {
	digests hash.Digests // nil until the file was read to its end
	counted int64        // bytes of the file that the progress counter contains
	unread  int64        // of counted, the bytes that were not read and do not count in rates
	resumed int64        // bytes that an interrupted run had written already
}

// maxAttempts limits how often a file that keeps changing is read. It also limits the rounds
// of one attempt, each of which follows after another process has taken the name.
const maxAttempts = 3

// newEntry returns an entry for a worker, which gets the worker's activity. It reuses the memory
// of a finished entry, because a new entry for each small file would cost 1 KB of garbage per file.
func (r *run) newEntry(j job, activity *timing.Activity) *entry {
	e, _ := r.entries.Get().(*entry)
	if e == nil {
		e = &entry{memory: make([]transfer, len(r.targets)), transfers: make([]*transfer, 0, len(r.targets))}
	}
	*e = entry{
		Entry: source.Entry{Item: j, Path: j.Dir.Join(j.Name)}, activity: activity, memory: e.memory, transfers: e.transfers[:0],
	}
	return e
}

// process opens one entry of the source, and copies it to all destinations. The caller holds the
// entry's directory, and must not use the entry afterwards.
func (r *run) process(e *entry) {
	if !r.openEntry(e) {
		return
	}
	several := r.opts.Preserve&metadata.PreserveLinks != 0 && e.Meta.Info.Nlink > 1 && r.route.Name == "" && !r.isManifestSomewhere(e)
	if several != r.linksLikely.Load() {
		r.linksLikely.Store(several)
	}
	if several {
		e.Close()
		if r.collectLinked(e) {
			r.entries.Put(e)
			return
		}
	}
	r.copyAlone(e)
}

// openEntry is openSource, and reports an error.
func (r *run) openEntry(e *entry) bool {
	err := r.openSource(e)
	if err != nil {
		r.failSource(e, failure.StageOpen, err)
	}
	return err == nil
}

// copyAlone copies an entry that is open, and reuses its memory.
func (r *run) copyAlone(e *entry) {
	r.copyEntry(e)
	e.Close()
	if !e.tracked {
		r.entries.Put(e)
	}
}

// openSource describes the entry, and opens it if it is a regular file whose content is
// certainly needed now.
func (r *run) openSource(e *entry) error {
	open := e.group == nil && !r.linksLikely.Load() && !r.mayBeUpToDate(e)
	e.activity.At(timing.Source)
	return e.Describe(open)
}

// mayBeUpToDate reports whether every destination had an entry of that name before the run, so
// that the file may need no copy. source.Entry.Open opens it if its content is needed after all.
func (r *run) mayBeUpToDate(e *entry) bool {
	if e.attempts > 0 {
		return false
	}
	dirs, _ := e.Dir.State.(destDirs)
	for _, dd := range dirs {
		if dd.target.Dropped() || dd.ready(r) != destReady || !dd.existed(e.Name) {
			return false
		}
	}
	return len(dirs) > 0
}

var (
	errExchanged = failure.ErrExchanged
	errChanged   = fmt.Errorf("it changed while being read, %d times in a row", maxAttempts)
	errNoTarget  = errors.New("no destination is left")
)

// copyEntry copies the entry to all destinations and sends the result to the collector.
func (r *run) copyEntry(e *entry) {
	defer r.sendResult(e)
	if r.findExpected(e); e.broken {
		return
	}
	defer e.release()
	r.newTransfers(e)
	r.repeat(e, r.attempt(e))
}

// newTransfers adds a transfer to each destination that has the entry's directory. The caller
// releases the directories.
func (r *run) newTransfers(e *entry) {
	for i, dd := range e.Dir.State.(destDirs) {
		e.activity.At(dd.target.Place())
		dir, ok := dd.acquire(r)
		if !ok {
			continue
		}
		p := &e.memory[i]
		*p = transfer{target: dd.target, dd: dd, dir: dir, name: cmp.Or(dd.target.Name, e.Name)} // a single file may get another name
		e.transfers = append(e.transfers, p)
		if p.target.records.Claim(e.Path).Own {
			p.finish(targetResult{done: outOwn})
		}
	}
}

// repeat attempts to copy the entry again as long as err, the result of the last attempt, is
// source.ErrChanged. It reports any other error.
func (r *run) repeat(e *entry, err error) {
	for errors.Is(err, source.ErrChanged) {
		if err = r.describeAgain(e); err == nil {
			err = r.attempt(e)
		}
	}
	r.failEntry(e, err)
}

// failEntry reports an error about the source, if it is not nil, and fails the open transfers.
func (r *run) failEntry(e *entry, err error) {
	if err != nil {
		stage, err := splitStage(err)
		r.failSource(e, stage, err)
	}
}

// acquire opens the directories of the transfers again after release.
func (r *run) acquire(e *entry) {
	for _, p := range e.transfers {
		var ok bool
		if p.dir, ok = p.dd.acquire(r); !ok && p.open() {
			p.become(stateFailed)
		}
	}
}

// release releases the directories of the transfers.
func (e *entry) release() {
	for _, p := range e.transfers {
		p.dd.release(p.dir)
	}
}

// attempt runs the transfers of the entry's present description until all are finished. If
// another process creates an entry with the name meanwhile, the next round decides about that
// transfer again. The error is about the source: source.ErrChanged if the file changed during the
// attempt.
func (r *run) attempt(e *entry) error {
	e.attempts++
	for round := 0; round < maxAttempts && anyOpen(e.transfers); round++ {
		if err := r.copyOnce(e); err != nil {
			return err
		}
	}
	r.failOpen(e)
	return nil
}

// failOpen fails the transfers whose name other processes have taken again and again.
func (r *run) failOpen(e *entry) {
	for _, p := range e.transfers {
		if p.open() {
			r.failTransfer(e, p, failure.StageCommit, errExchanged)
		}
	}
}

// describeAgain replaces the description by one of the present state, and makes all transfers
// start again. It fails after maxAttempts.
func (r *run) describeAgain(e *entry) error {
	if e.attempts == maxAttempts {
		return inStage(failure.StageCheck, errChanged)
	}
	r.uncount(e)
	for _, p := range e.transfers {
		p.startAgain()
	}
	e.reading = reading{}
	return r.openSource(e)
}

// uncount subtracts the entry's bytes from the progress counters.
func (r *run) uncount(e *entry) {
	if e.counted > 0 {
		r.counters.Bytes.Add(-e.counted)
		r.counters.Unread.Add(-e.unread)
		e.counted, e.unread = 0, 0
	}
}

// recordDigests records the digests of one reading of the source. If they differ from those of an
// earlier reading in this run, the file changed without a change of its times. The error is then
// source.ErrChanged.
func (e *entry) recordDigests(digests hash.Digests) error {
	if len(digests) == 0 { // the file was not read to its end, or there is no hash
		return nil
	}
	if e.contradicts(digests) {
		return source.ErrChanged
	}
	e.digests = digests
	return nil
}

// contradicts reports whether digests differ from those of an earlier reading of the source.
// It returns false if either are unknown.
func (e *entry) contradicts(digests hash.Digests) bool {
	return digests != nil && e.digests != nil && !digests.Equal(e.digests)
}

// manifestPath returns the path of the entry in the manifests of the transfer's destination.
func (e *entry) manifestPath(p *transfer) string {
	return cmp.Or(p.target.Name, e.Path)
}
