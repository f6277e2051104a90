package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// entry is one entry of the source while a worker copies it to the destinations. A directory
// is no entry.
type entry struct {
	source.Entry

	activity  *timing.Activity // activity of the goroutine that works on the entry
	shown     *counters.Worker // the same goroutine for the progress; may be nil
	transfers []*transfer
	attempts  int                 // number of attempts, each with a new description; at most maxAttempts
	expected  catalog.Expectation // listing of the entry in the source's own manifests
	broken    bool                // true if the report says that the content does not match expected
	memory    []transfer          // the elements that transfers points to, one for each destination
	group     *linkGroup          // names that are copied together; nil for a single name
	tracked   bool                // true if a checkpoint may still read the transfers, so the entry is not used again

	reading
}

// reading is what was read in one state of the entry. If the entry changes or another file gets its
// name, it is described again, and all its transfers start again.
type reading struct {
	digests hash.Digests // digests of the content; nil until the file was read to its end
	counted int64        // bytes of the file that the progress counter contains
	unread  int64        // part of counted that was not read and does not count in rates
	resumed int64        // bytes that an interrupted run had written already
}

// maxAttempts limits how often a file that keeps changing is read. It also limits the rounds
// of one attempt, each of which follows after another process has taken the name.
const maxAttempts = 3

// copier is the part of a run that copies entries, each alone.
type copier struct {
	mover
	entries     sync.Pool   // a pool of *entry
	linksLikely atomic.Bool // true if the last file of a worker has several names: the next one may, too

	listed   func(*entry) (catalog.Expectation, error) // returns the listing of a regular file in the source's manifests
	recorded func(*entry, *transfer) record.Kept       // returns the records of earlier runs about the entry
}

// newEntry returns an entry for a worker. It reuses the memory of a finished entry, because a new entry for
// each small file would cost 1 KB of garbage per file.
func (r *copier) newEntry(j job, activity *timing.Activity, shown *counters.Worker) *entry {
	e, _ := r.entries.Get().(*entry)
	if e == nil {
		e = &entry{memory: make([]transfer, len(r.targets)), transfers: make([]*transfer, 0, len(r.targets))}
	}
	*e = entry{
		Entry: source.Entry{Item: j, Path: j.Dir.Join(j.Name)}, activity: activity, shown: shown, memory: e.memory, transfers: e.transfers[:0],
	}
	return e
}

// openEntry is openSource, and reports an error.
func (r *copier) openEntry(e *entry) bool {
	err := r.openSource(e)
	if err != nil {
		r.failSource(e, failure.StageOpen, err)
	}
	return err == nil
}

// copyAlone copies an entry that is open, and reuses its memory.
func (r *copier) copyAlone(e *entry) {
	r.copyEntry(e)
	e.Close()
	if !e.tracked {
		r.entries.Put(e)
	}
}

// openSource describes the entry, and opens it if it is a regular file whose content is
// certainly needed now.
func (r *copier) openSource(e *entry) error {
	open := e.group == nil && !r.linksLikely.Load() && !r.mayBeUpToDate(e)
	e.activity.At(timing.Source)
	return e.Describe(open)
}

// mayBeUpToDate reports whether every destination had an entry of that name before the run, so
// that the file may need no copy. source.Entry.Open opens it if its content is needed after all.
func (r *copier) mayBeUpToDate(e *entry) bool {
	if e.attempts > 0 {
		return false
	}
	dirs, _ := e.Dir.State.(destDirs)
	for _, dd := range dirs {
		if dd.target.Dropped() || dd.ready(&r.placer) != destReady || !dd.existed(e.Name) {
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
func (r *copier) copyEntry(e *entry) {
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
func (r *copier) newTransfers(e *entry) {
	for i, dd := range e.Dir.State.(destDirs) {
		e.activity.At(dd.target.Place())
		dir, ok := dd.acquire(&r.placer)
		if !ok {
			continue
		}
		p := &e.memory[i]
		*p = transfer{target: dd.target, dd: dd, dir: dir, name: cmp.Or(dd.target.Name, e.Name)} // a single file may get another name
		e.transfers = append(e.transfers, p)
	}
}

// repeat attempts to copy the entry again as long as err, the result of the last attempt, is
// source.ErrChanged. It reports any other error.
func (r *copier) repeat(e *entry, err error) {
	for errors.Is(err, source.ErrChanged) {
		if err = r.describeAgain(e); err == nil {
			err = r.attempt(e)
		}
	}
	r.failEntry(e, err)
}

// failEntry reports an error about the source, if it is not nil, and fails the open transfers.
func (r *copier) failEntry(e *entry, err error) {
	if err != nil {
		stage, err := splitStage(err)
		r.failSource(e, stage, err)
	}
}

// acquire opens the directories of the transfers again after release.
func (r *copier) acquire(e *entry) {
	for _, p := range e.transfers {
		var ok bool
		if p.dir, ok = p.dd.acquire(&r.placer); !ok && p.open() {
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
func (r *copier) attempt(e *entry) error {
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
func (r *copier) failOpen(e *entry) {
	for _, p := range e.transfers {
		if p.open() {
			r.failTransfer(e, p, failure.StageCommit, errExchanged)
		}
	}
}

// describeAgain replaces the description by one of the present state, and makes all transfers
// start again. It fails after maxAttempts.
func (r *copier) describeAgain(e *entry) error {
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

// findExpected looks up what the manifests of the source list for an entry.
func (r *copier) findExpected(e *entry) {
	var err error
	if e.expected, err = r.listed(e); err != nil {
		r.failSource(e, failure.StageManifest, err)
		e.broken = true
	} else if err = e.expected.Invalid(); err != nil {
		e.broken = true
		r.reportBroken(e, err)
	}
}

// isManifestSomewhere reports whether an entry of the source has the path of a manifest that this run
// writes at a destination.
func (r *copier) isManifestSomewhere(e *entry) bool {
	if e.Dir.Parent != nil && r.opts.Manifest == "" {
		return false
	}
	return slices.ContainsFunc(r.targets, func(t *target) bool { return t.records.Claim(e.Path).Own })
}
