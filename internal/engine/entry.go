package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lap"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// entry is one entry of the source on its way to the destinations.
type entry struct {
	dir  *walk.Dir
	name string
	path string // relative to the source's root
	kind fsys.Kind

	clock    *lap.Clock // of the goroutine that works on it
	meta     metadata
	file     *fsys.File // open while a regular file is worked on
	link     string     // a symbolic link's target
	digests  hash.Digests
	passages []*passage
	counted  int64            // bytes that the progress counter has of it
	evict    *pipe.Eviction   // what was read is dropped from the page cache by it; nil if by nobody
	direct   bool             // it is read past the page cache
	resumed  int64            // bytes that an interrupted run had written already
	leave    map[*target]bool // destinations where the name is a manifest's
	pledges  []pledge         // what the source's own manifests list for it
	broken   bool             // it is not what they list, which was told
}

// passage is the way of one entry to one destination.
type passage struct {
	target *target
	dd     *destDir
	dir    *fsys.Dir // nil in a dry run where the directory would be made
	name   string    // at the destination
	have   fsys.Info // what has the name, if exists
	exists bool

	act      action
	differs  verdict // what a difference leads to, for actCompare and unproven actKeep
	sink     pipe.Sink
	done     outcome
	digests  hash.Digests // known to be those of what stands at the destination
	suspect  bool         // it may be what an interrupted run has left, torn by a power cut
	promised hash.Digests // of an interrupted run: what it wrote, perhaps not to the device
	equal    bool         // found equal by comparing
	known    bool         // the journal of an interrupted run lists it
	bypass   bool         // what is written bypasses the page cache
	noted    bool         // the journal may know the temporary
	again    bool         // the name has appeared meanwhile: decide anew
}

// outcome is what became of a passage.
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

// process takes one entry of the source to all destinations. The entry's
// directory is held by the caller.
func (r *run) process(j job, clock *lap.Clock) {
	e := &entry{clock: clock, dir: j.dir, name: j.name, path: j.dir.Join(j.name), kind: j.kind}
	if err := e.openSource(); err != nil {
		r.failSource(e, failure.StageOpen, err)
		return
	}
	r.take(e)
}

// take takes an opened entry to all destinations and closes it.
func (r *run) take(e *entry) {
	if r.opts.Preserve&PreserveLinks != 0 && e.meta.info.Nlink > 1 && r.route.name == "" {
		r.processLinked(e)
		return
	}
	r.copyEntry(e, nil)
	e.close()
}

// openSource opens and describes the entry, which may have been exchanged since
// it was listed.
func (e *entry) openSource() error {
	e.clock.At(lap.Read, lap.Source)
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	defer e.dir.Release()
	if e.kind == fsys.Regular {
		e.file, e.meta.info, err = dir.Open(e.name)
	} else {
		e.meta.info, err = dir.Lstat(e.name)
	}
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
	errVanished = errors.New("it vanished after it was listed")
	errChanged  = fmt.Errorf("it changed while being read, %d times in a row", maxAttempts)
	errNoTarget = errors.New("no destination is left")
)

// copyEntry takes the entry to all destinations, except that it is linked where
// group knows it under another name already.
func (r *run) copyEntry(e *entry, group *linkGroup) {
	defer r.settle(e)
	if r.findPledges(e); e.broken {
		return
	}
	if group != nil && group.broken && len(e.pledges) == 0 {
		r.tellBroken(e, fmt.Errorf("%w, by another name of the same file", errBroken))
		r.dropMissing(e)
		return
	}
	for i, dd := range e.dir.State.(destDirs) {
		if e.leave[dd.target] {
			continue
		}
		e.clock.At(lap.Create, dd.target.place())
		dir, ok := dd.acquire(r)
		if !ok {
			continue
		}
		defer dd.release(dir)
		name := e.name
		if r.route.name != "" {
			name = dd.target.name
		}
		p := &passage{target: r.targets[i], dd: dd, dir: dir, name: name}
		e.passages = append(e.passages, p)
		if group != nil {
			r.linkTo(e, p, group)
		}
	}
	for round := 0; round < maxAttempts; round++ {
		if round > 0 && !e.anyAgain() {
			break
		}
		if e.kind == fsys.Regular {
			r.copyRegular(e)
		} else {
			r.copySpecial(e)
		}
	}
	for _, p := range e.passages {
		if p.again {
			r.failPassage(e, p, failure.StageCommit, errExchanged)
		}
	}
	if group != nil {
		r.afterLinked(e, group)
	}
}

func (e *entry) anyAgain() bool {
	for _, p := range e.passages {
		if p.again {
			return true
		}
	}
	return false
}

// open reports whether the passage still has to be taken.
func (p *passage) open() bool { return p.done == outNothing && p.act != actNone && !p.target.isLost() }

// manifestPath is how a manifest of the passage's destination names the entry.
func (e *entry) manifestPath(p *passage) string {
	if p.target.name != "" {
		return p.target.name
	}
	return e.path
}

// changed reports whether the file is not what it was when it was described. It
// looks at the name, not at the open file: what was renamed over it counts, and
// is opened instead.
func (e *entry) changed() (bool, error) {
	e.clock.At(lap.Read, lap.Source)
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
	case sameState(e.meta.info, now):
		return false, nil
	case now.ID == e.meta.info.ID:
		e.meta.info = now
		return true, nil
	}
	e.close()
	e.evict = nil // it is about the other file
	return true, e.openSource()
}

// sameState reports whether nothing has been done to a file between two looks.
func sameState(a, b fsys.Info) bool {
	return a.ID == b.ID && a.Size == b.Size && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}
