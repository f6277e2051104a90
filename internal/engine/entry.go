package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// entry is one entry of the source on its way to the destinations.
type entry struct {
	dir  *walk.Dir
	name string
	path string // relative to the source's root
	kind fsys.Kind

	clock *timing.Clock // of the goroutine that works on it
	// meta describes the source's file. It is never changed: when the file turns out to
	// be another one or to have changed, the entry gets a new description, and every
	// destination is judged anew.
	meta      *metadata
	file      *fsys.File // open while a regular file is worked on
	link      string     // a symbolic link's target
	digests   hash.Digests
	transfers []*transfer
	counted   int64               // bytes that the progress counter has of it
	evict     *pipe.Eviction      // drops what was read from the page cache; nil if that is not wanted
	direct    bool                // it is read past the page cache
	resumed   int64               // bytes that an interrupted run had written already
	attempt   int                 // at reading one state of the file, from 1
	expected  catalog.Expectation // what the source's own manifests list for it
	broken    bool                // it does not match them, which was reported
}

// transfer is the way of one entry to one destination.
type transfer struct {
	target *target
	dd     *destDir
	dir    *fsys.Dir // nil in a dry run where the directory would be made
	name   string    // at the destination
	have   fsys.Info // what has the name, if exists
	exists bool

	act      action // actNone: undecided, or failed
	decision decision
	failed   bool // which was reported; it is not judged again
	made     bool // this run has given the name to an earlier state of the file
	sink     pipe.Sink
	done     outcome
	digests  hash.Digests // known to be those of what stands at the destination
	equal    bool         // found equal by comparing
	known    bool         // the journal of an interrupted run lists it
	bypass   bool         // what is written bypasses the page cache
	again    bool         // the name has appeared meanwhile: decide anew

	inFlight *resume.InFlight // the temporary of a large file, as long as the log may name it
}

// outcome is what became of a transfer.
type outcome uint8

const (
	outNothing   outcome = iota // not attempted, or failed and reported
	outCreated                  // new
	outReplaced                 // new, in place of another
	outLinked                   // a hard link
	outUpToDate                 // equal already
	outRefreshed                // equal already, metadata brought up to date
	outLeft                     // not looked at
	outConflict                 // reported
)

// maxAttempts is how often a file that changes while it is read is read.
const maxAttempts = 3

// startAgain forgets what was decided from a description that is not right any more.
func (p *transfer) startAgain() {
	if p.failed {
		return
	}
	*p = transfer{
		target: p.target, dd: p.dd, dir: p.dir, name: p.name,
		made: p.made || p.done == outCreated || p.done == outReplaced || p.done == outLinked,
	}
}

// process takes one entry of the source to all destinations. The entry's
// directory is held by the caller.
func (r *run) process(j job, clock *timing.Clock) {
	e := &entry{clock: clock, dir: j.dir, name: j.name, path: j.dir.Join(j.name), kind: j.kind}
	if err := e.openSource(); err != nil {
		r.failSource(e, failure.StageOpen, err)
		return
	}
	r.take(e)
}

// take takes an opened entry to all destinations and closes it.
func (r *run) take(e *entry) {
	if r.opts.Preserve&PreserveLinks != 0 && e.meta.info.Nlink > 1 && r.route.Name == "" {
		r.processLinked(e)
		return
	}
	r.copyEntry(e, nil)
	e.close()
}

// openSource opens and describes the entry, which may have been exchanged since
// it was listed.
func (e *entry) openSource() error {
	e.clock.At(timing.Read, timing.Source)
	e.meta = &metadata{}
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	defer e.dir.Release()
	meta := &metadata{}
	if e.kind == fsys.Regular {
		e.file, meta.info, err = dir.Open(e.name)
	} else {
		meta.info, err = dir.Lstat(e.name)
	}
	e.meta = meta
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errVanished
	case err != nil && fsys.IsSymlinkRefusal(err):
		return errExchanged
	case err != nil:
		return err
	case e.meta.info.Kind != e.kind:
		e.close()
		return fmt.Errorf("it was a %s when listed and is a %s now", e.kind, e.meta.info.Kind)
	}
	if e.kind == fsys.Symlink {
		e.link, err = dir.Readlink(e.name)
	}
	return err
}

func (e *entry) close() {
	if e.file != nil {
		e.file.Close()
		e.file = nil
	}
}

var (
	errVanished = failure.ErrVanished
	errChanged  = fmt.Errorf("it changed while being read, %d times in a row", maxAttempts)
	errNoTarget = errors.New("no destination is left")
)

// copyEntry takes the entry to all destinations, except that it is linked where
// group knows it under another name already.
func (r *run) copyEntry(e *entry, group *linkGroup) {
	defer r.settle(e)
	if r.findExpected(e); e.broken {
		return
	}
	if group != nil && group.broken && !e.expected.Any() {
		r.reportBroken(e, fmt.Errorf("%w, by another name of the same file", errBroken))
		return
	}
	for i, dd := range e.dir.State.(destDirs) {
		e.clock.At(timing.Create, dd.target.place())
		dir, ok := dd.acquire(r)
		if !ok {
			continue
		}
		defer dd.release(dir)
		name := e.name
		if r.route.Name != "" {
			name = dd.target.Name
		}
		p := &transfer{target: r.targets[i], dd: dd, dir: dir, name: name}
		e.transfers = append(e.transfers, p)
	}
	for r.tryEntry(e, group) {
		if e.attempt == maxAttempts {
			r.failSource(e, failure.StageCheck, errChanged)
			break
		}
		if err := r.describeAgain(e); err != nil {
			r.failSource(e, failure.StageRead, err)
			break
		}
	}
	if group != nil {
		r.afterLinked(e, group)
	}
}

// tryEntry takes the entry, as it is described, to all destinations. changed says that
// the description was not right to the end: what is known of the file then, and what was
// decided for each destination, is worth nothing.
func (r *run) tryEntry(e *entry, group *linkGroup) (changed bool) {
	e.attempt++
	for round := 0; round < maxAttempts; round++ {
		if round > 0 && !e.anyAgain() {
			break
		}
		if e.kind != fsys.Regular {
			r.copySpecial(e, group)
		} else if changed = r.copyRegular(e, group); changed {
			return true
		}
	}
	if group != nil && group.contradicted(e) {
		return true
	}
	for _, p := range e.transfers {
		if p.again {
			r.failTransfer(e, p, failure.StageCommit, errExchanged)
		}
	}
	return false
}

// describeAgain describes the file as it is now, which is opened if another one has its
// name, and lets every destination be judged anew.
func (r *run) describeAgain(e *entry) error {
	r.counters.Bytes.Add(-e.counted)
	e.counted, e.resumed, e.digests = 0, 0, nil
	for _, p := range e.transfers {
		p.startAgain()
	}
	e.close()
	e.evict, e.direct = nil, false // they are about the file that was open
	return e.openSource()
}

// agree notes digests that were read of the file. All that are read in one run must be
// equal: otherwise it changed without a trace in its times.
func (e *entry) agree(digests hash.Digests) bool {
	if e.digests != nil && digests != nil && !e.digests.Equal(digests) {
		return false
	}
	if digests != nil {
		e.digests = digests
	}
	return true
}

func (e *entry) anyAgain() bool {
	for _, p := range e.transfers {
		if p.again {
			return true
		}
	}
	return false
}

// open reports whether the transfer still has to be taken.
func (p *transfer) open() bool {
	return p.done == outNothing && p.act != actNone && !p.target.isDropped()
}

// manifestPath is how a manifest of the transfer's destination names the entry.
func (e *entry) manifestPath(p *transfer) string {
	if p.target.Name != "" {
		return p.target.Name
	}
	return e.path
}

// changed reports whether the file is not what it was when it was described. It
// checks the name, not the open file: what was renamed over it counts.
func (e *entry) changed() (bool, error) {
	e.clock.At(timing.Read, timing.Source)
	dir, err := e.dir.Acquire()
	if err != nil {
		return false, err
	}
	now, err := dir.Lstat(e.name)
	e.dir.Release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, errVanished
	case err != nil:
		return false, err
	}
	return !e.meta.info.SameState(now), nil
}
