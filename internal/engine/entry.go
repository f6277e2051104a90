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
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// entry is one entry of the source on its way to the destinations.
type entry struct {
	dir  *walk.Dir
	name string
	path string // relative to the source's root
	kind fsys.Kind

	clock     *timing.Clock // of the goroutine that works on it
	transfers []*transfer
	attempts  int                 // how many descriptions the transfers were started with
	planned   *shard.Entry        // what the shard says of it; nil without one
	expected  catalog.Expectation // what the source's own manifests list for it
	broken    bool                // it does not match them, which was reported
	memory    []transfer          // what transfers points to
	tracked   bool                // a checkpoint may still read its transfers when it is done

	description
}

// description is one state of the source's file, and what was read of it. When the file
// turns out to be another one or to have changed, the entry gets a new description, and
// every destination is judged anew.
type description struct {
	meta    metadata       // of the source
	file    *fsys.File     // open while a regular file is worked on
	link    string         // a symbolic link's target
	digests hash.Digests   // nil until the file was read to its end
	counted int64          // bytes of it in the progress counter
	unread  int64          // of these, those that are not part of rates
	resumed int64          // bytes that an interrupted run had written already
	evict   *pipe.Eviction // drops what was read from the page cache; nil if that is not wanted
	direct  bool           // it is read past the page cache
}

// maxAttempts is how often a file is read that changes each time. It also limits the rounds
// of an attempt, in which other processes take the name.
const maxAttempts = 3

// newEntry makes an entry for a worker, whose clock it gets. It uses the memory of an entry
// that is done: a tree of small files would leave 1 KB of garbage for each otherwise.
func (r *run) newEntry(j job, clock *timing.Clock) *entry {
	e, _ := r.entries.Get().(*entry)
	if e == nil {
		e = &entry{memory: make([]transfer, len(r.targets)), transfers: make([]*transfer, 0, len(r.targets))}
	}
	*e = entry{
		clock: clock, dir: j.dir, name: j.name, path: j.dir.Join(j.name), kind: j.kind,
		memory: e.memory, transfers: e.transfers[:0], planned: j.planned,
	}
	return e
}

// process takes one entry of the source to all destinations. The entry's
// directory is held by the caller, who does not use the entry afterwards.
func (r *run) process(e *entry) {
	if err := r.openSource(e); err != nil {
		r.failSource(e, failure.StageOpen, err)
		return
	}
	if r.opts.Preserve&PreserveLinks != 0 && e.meta.info.Nlink > 1 && r.route.Name == "" {
		r.processLinked(e) // its group may keep it
		return
	}
	r.copyEntry(e, nil)
	e.close()
	if !e.tracked {
		r.entries.Put(e)
	}
}

// openSource opens and describes the entry, which may have been exchanged since
// it was listed.
func (r *run) openSource(e *entry) error {
	open := e.kind == fsys.Regular && !r.mayBeUpToDate(e)
	e.clock.At(timing.Read, timing.Source)
	e.meta = metadata{}
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	defer e.dir.Release()
	if open {
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
	case e.kind == fsys.Regular && e.meta.info.Kind == fsys.Symlink:
		return errExchanged
	case e.meta.info.Kind != e.kind:
		e.close()
		return fmt.Errorf("it was a %s when listed and is a %s now", e.kind, e.meta.info.Kind)
	}
	if e.kind == fsys.Symlink {
		e.link, err = dir.Readlink(e.name)
	}
	return err
}

// mayBeUpToDate reports whether a file may turn out to need no data: something had its name
// at each destination before the run. Such a file is opened when its content is needed.
func (r *run) mayBeUpToDate(e *entry) bool {
	if e.attempts > 0 {
		return false
	}
	dirs, _ := e.dir.State.(destDirs)
	for _, dd := range dirs {
		if dd.target.isDropped() || dd.ready(r) != destReady || !dd.existed(e.name) {
			return false
		}
	}
	return len(dirs) > 0
}

// openContent opens a regular file that was described by its name only. The error is
// errSourceChanged if another file has the name now.
func (r *run) openContent(e *entry) error {
	if e.kind != fsys.Regular || e.file != nil {
		return nil
	}
	e.clock.At(timing.Read, timing.Source)
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	f, info, err := dir.Open(e.name)
	e.dir.Release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errVanished
	case err != nil && fsys.IsSymlinkRefusal(err):
		return errSourceChanged
	case err != nil:
		return err
	}
	e.file = f
	if !sameState(e.meta.info, info) {
		return errSourceChanged
	}
	if !r.opts.DryRun {
		r.openCache(e)
	}
	return nil
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

	// errSourceChanged ends an attempt: the source's file is not as it was described.
	errSourceChanged = errors.New("the source changed")
)

// copyEntry takes the entry to all destinations, except that it is linked where
// group knows it under another name already.
func (r *run) copyEntry(e *entry, group *linkGroup) {
	defer r.sendResult(e)
	if r.findExpected(e); e.broken {
		return
	}
	if group != nil && group.broken && !e.expected.Any() {
		r.reportBroken(e, fmt.Errorf("%w, by another name of the same file", errBroken))
		return
	}
	defer e.release()
	for i, dd := range e.dir.State.(destDirs) {
		e.clock.At(timing.Create, dd.target.place())
		dir, ok := dd.acquire(r)
		if !ok {
			continue
		}
		name := e.name
		if r.route.Name != "" {
			name = dd.target.Name
		}
		p := &e.memory[i]
		*p = transfer{target: r.targets[i], dd: dd, dir: dir, name: name}
		e.transfers = append(e.transfers, p)
	}
	for {
		err := r.attempt(e, group)
		if errors.Is(err, errSourceChanged) {
			if err = r.describeAgain(e); err == nil {
				continue
			}
		}
		if err != nil {
			stage, err := splitStage(err)
			r.failSource(e, stage, err)
		}
		break
	}
	if group != nil {
		r.afterLinked(e, group)
	}
}

// release releases the directories of the transfers.
func (e *entry) release() {
	for _, p := range e.transfers {
		p.dd.release(p.dir)
	}
}

// attempt takes the entry, as it is described, to all destinations. If another process
// takes the name of a transfer meanwhile, the next round decides that transfer again. The
// error is the source's: errSourceChanged if the file was not the described one throughout.
func (r *run) attempt(e *entry, group *linkGroup) error {
	e.attempts++
	for round := 0; round < maxAttempts && anyOpen(e.transfers); round++ {
		if err := r.copyOnce(e, group); err != nil {
			return err
		}
	}
	if group != nil && group.contradicted(e) {
		return errSourceChanged
	}
	for _, p := range e.transfers {
		if p.open() {
			r.failTransfer(e, p, failure.StageCommit, errExchanged)
		}
	}
	return nil
}

// describeAgain describes the file as it is now, which is opened if another one has its
// name, and lets every destination be judged anew.
func (r *run) describeAgain(e *entry) error {
	if e.attempts == maxAttempts {
		return inStage(failure.StageCheck, errChanged)
	}
	r.uncount(e)
	for _, p := range e.transfers {
		p.startAgain()
	}
	e.close()
	e.description = description{}
	return r.openSource(e)
}

// uncount takes the entry's bytes out of the progress counters.
func (r *run) uncount(e *entry) {
	if e.counted > 0 {
		r.counters.Bytes.Add(-e.counted)
		r.counters.Unread.Add(-e.unread)
		e.counted, e.unread = 0, 0
	}
}

// agree records the digests of one reading of the source. All readings of one run must
// agree: otherwise the file changed without a trace in its times, and the error is
// errSourceChanged.
func (e *entry) agree(digests hash.Digests) error {
	if len(digests) == 0 { // it was not read to its end, or nothing is hashed
		return nil
	}
	if e.contradicts(digests) {
		return errSourceChanged
	}
	e.digests = digests
	return nil
}

// contradicts reports whether digests are not those that were read of the source.
func (e *entry) contradicts(digests hash.Digests) bool {
	return digests != nil && e.digests != nil && !digests.Equal(e.digests)
}

// manifestPath is how a manifest of the transfer's destination names the entry.
func (e *entry) manifestPath(p *transfer) string {
	if p.target.Name != "" {
		return p.target.Name
	}
	return e.path
}

// unchanged returns errSourceChanged if the file is not what it was when it was
// described. It checks the name, not the open file: what was renamed over it counts.
func (e *entry) unchanged() error {
	e.clock.At(timing.Read, timing.Source)
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	now, err := dir.Lstat(e.name)
	e.dir.Release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errVanished
	case err == nil && !sameState(e.meta.info, now):
		return errSourceChanged
	}
	return err
}

// sameState reports whether two descriptions show the same file, unchanged.
func sameState(a, b fsys.Info) bool {
	return a.ID == b.ID && a.Size == b.Size && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}
