package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lap"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/tally"
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

// copyRegular decides, compares where content decides, and moves the data once
// for all destinations that need it.
func (r *run) copyRegular(e *entry) {
	for _, p := range e.passages {
		if p.done != outNothing || !p.again && p.act != actUndecided {
			continue
		}
		p.again = false
		e.clock.At(lap.Create, p.target.place())
		v, err := r.lookUp(p, e.meta.info, nil)
		if err != nil {
			r.failPassage(e, p, failure.StageCreate, err)
			continue
		}
		r.judge(e, p, v)
	}
	e.clock.At(lap.Read, lap.Source)
	if !r.opts.DryRun {
		r.openCache(e)
		if err := r.readXattrs(&e.file.Object, e.path, &e.meta); err != nil {
			r.failSource(e, failure.StageMetadata, err)
			return
		}
	}
	compared, err := r.compare(e)
	if err != nil {
		r.failSource(e, failure.StageRead, err)
		return
	}
	if len(compared) > 0 && e.digests != nil && !r.keepsPromise(e, e.digests) {
		for _, p := range e.passages {
			if p.open() || p.digests != nil && slices.Contains(compared, p) {
				p.act, p.done, p.digests = actNone, outNothing, nil
			}
		}
	}
	for _, p := range e.passages {
		if p.open() && p.act == actKeep {
			e.clock.At(lap.Create, p.target.place())
			r.unshare(e, p)
		}
	}
	r.moveData(e)
	for _, p := range e.passages {
		if p.open() && p.act == actKeep {
			r.keep(e, p)
		}
	}
}

// manifestPath is how a manifest of the passage's destination names the entry.
func (e *entry) manifestPath(p *passage) string {
	if p.target.name != "" {
		return p.target.name
	}
	return e.path
}

// sharesInode reports whether bringing the metadata of an entry that is up to date
// to the source's would change other names too: one of its own takes its place then.
// That the source has as many names does not say that these are the copies of them.
func (r *run) sharesInode(e *entry, p *passage) (bool, error) {
	src, have := e.meta.info, p.have
	names := uint64(1)
	if e.meta.unread { // a new one would lack attributes that this one may have
		names = max(src.Nlink, 1)
	}
	if r.opts.DryRun || have.Nlink <= names {
		return false, nil
	}
	if r.differs(p.target, src, have) {
		return true, nil
	}
	if e.kind == fsys.Symlink || r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return false, nil
	}
	o, err := p.dir.OpenObject(p.name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	list, err := o.Xattrs(r.wantsXattr)
	if err != nil && refused(err) { // setting them tells
		return false, nil
	}
	if err != nil {
		return false, err
	}
	differs := func(a, b []fsys.Xattr) bool {
		return slices.ContainsFunc(a, func(x fsys.Xattr) bool {
			kind := xattrKind(x.Name)
			if p.target.cannot(kind) || kind == kindACL && p.target.forgetsModes { // nor would a new one have it
				return false
			}
			return !bytes.Equal(valueOf(b, x.Name), x.Value) || valueOf(b, x.Name) == nil
		})
	}
	return differs(e.meta.xattrs, list) || !e.meta.unread && differs(list, e.meta.xattrs), nil
}

// unshare gives the passage a file of its own where sharesInode says so.
func (r *run) unshare(e *entry, p *passage) {
	shares, err := r.sharesInode(e, p)
	if err != nil {
		r.failPassage(e, p, failure.StageMetadata, err)
	} else if shares {
		p.act = actReplace
	}
}

// differs reports whether what is at the destination lacks metadata that could be set,
// extended attributes aside.
func (r *run) differs(t *target, src, have fsys.Info) bool {
	owned := src.UID == have.UID && src.GID == have.GID
	switch {
	case !owned && r.privileged && r.opts.Preserve&PreserveOwner != 0 && !t.forgetsOwners && !t.cannot(kindOwner):
		return true
	case src.Kind != fsys.Symlink && r.modeFor(src, have, false, owned) != have.Mode && !t.forgetsModes && !t.cannot(kindMode):
		return true
	}
	return r.opts.Preserve&PreserveTimes != 0 && !t.sameTime(src.Mtime, have.Mtime)
}

// keep settles a file that is up to date.
func (r *run) keep(e *entry, p *passage) {
	p.done = outUpToDate
	if r.opts.DryRun {
		return
	}
	e.clock.At(lap.Commit, p.target.place())
	changed, err := r.refresh(p, &e.meta)
	if err != nil {
		p.done = outNothing
		r.failPassage(e, p, failure.StageMetadata, err)
		return
	}
	if changed {
		p.done = outRefreshed
	}
}

// moveData reads the file once and writes it wherever it has to be, again from
// the start if it changes meanwhile.
func (r *run) moveData(e *entry) {
	var movers []*passage
	for _, p := range e.passages {
		if p.open() && (p.act == actCreate || p.act == actReplace) {
			movers = append(movers, p)
		}
	}
	if len(movers) == 0 {
		return
	}
	if r.opts.DryRun {
		for _, p := range movers {
			p.done = created(p.act)
		}
		return
	}
	for attempt := 1; ; attempt++ {
		changed, err := r.tryMove(e, movers, attempt == 1)
		if err == nil && !changed {
			break
		}
		for _, p := range movers {
			r.giveUp(e, p)
		}
		r.counters.Bytes.Add(-e.counted)
		e.counted = 0
		switch {
		case err != nil:
			r.failSource(e, failure.StageRead, err)
			return
		case attempt == maxAttempts:
			r.failSource(e, failure.StageCheck, errChanged)
			return
		}
		if err = r.readXattrs(&e.file.Object, e.path, &e.meta); err != nil {
			r.failSource(e, failure.StageMetadata, err)
			return
		}
	}
	for _, p := range movers {
		if p.open() && !r.keepsPromise(e, e.digests) {
			p.act = actNone
		}
		if p.open() {
			r.commit(e, p)
		}
		r.giveUp(e, p) // nothing after a commit
	}
}

// giveUp ends the passage's temporary, unless it is committed or kept.
func (r *run) giveUp(e *entry, p *passage) {
	if p.sink.File != nil {
		p.target.ledger.unfollow(p)
		if p.sink.Behind != nil {
			p.sink.Behind.Finish()
		}
		if p.sink.File.Abort() {
			p.target.keepLog.Store(true) // for a later run, which removes it
		}
		r.forget(e, p)
	}
	p.sink = pipe.Sink{}
}

// forget notes that the passage's temporary is not there any more.
func (r *run) forget(e *entry, p *passage) {
	if !p.noted {
		return
	}
	p.noted = false
	if err := p.target.ledger.done(e.manifestPath(p)); err != nil {
		p.target.ledger.fail(err)
	}
}

func created(act action) outcome {
	if act == actReplace {
		return outReplaced
	}
	return outCreated
}

// tryMove is one reading of the file into new temporaries, or into those that an
// interrupted run has left, if resume allows it. changed says that what was read
// is not one state of the file.
func (r *run) tryMove(e *entry, movers []*passage, resume bool) (changed bool, err error) {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	var start int64
	if resume && e.meta.info.Size > leastPartial && r.opts.Reflink != ReflinkAlways {
		if start, err = r.continuePartial(e, movers, set); err != nil {
			return false, err
		}
		if start == 0 {
			set.Reset() // what was tried has left its traces
		}
		if start%fsys.DirectAlignment != 0 && e.direct {
			if _, err := e.file.SetDirect(false); err != nil {
				return false, err
			}
		}
	}
	if e.evict != nil {
		e.evict.Restart()
	}
	var sinks []*pipe.Sink
	for _, p := range movers {
		if !p.open() {
			continue
		}
		e.clock.At(lap.Create, p.target.place())
		err := p.sink.Err
		if start == 0 {
			err = r.create(e, p)
		}
		if err != nil {
			r.failPassage(e, p, failure.StageCreate, err)
			continue
		}
		if p.bypass = p.sink.Clone || r.createCache(p.target, p.sink.File, e.meta.info.Size); !p.bypass {
			r.writeBehind(e, p)
		}
		if err := p.target.ledger.follow(e, p, start); err != nil {
			r.failPassage(e, p, failure.StageCreate, err)
			continue
		}
		e.clock.Count(lap.Create, p.target.place(), 0)
		sinks = append(sinks, &p.sink)
	}
	if len(sinks) == 0 {
		return false, nil
	}
	course := pipe.Course{Start: start}
	if e.meta.info.Size > leastPartial {
		course.MarkEvery = markEvery
	}
	if e.evict != nil {
		course.Read = e.evict.Read
	}
	e.resumed = start
	r.countMoved(e, start)
	total, err := r.transfer(e, movers, sinks, set, course)
	e.counted += max(total-start, 0)
	if e.evict != nil {
		e.evict.End(total)
	}
	if err != nil {
		if r.ctx.Err() != nil {
			r.leavePartial(e, movers, total, set)
		}
		return false, err
	}
	for _, p := range movers {
		if p.open() && p.sink.Err != nil {
			r.failPassage(e, p, failure.StageWrite, p.sink.Err)
		}
	}
	if changed, err := e.changed(); changed || err != nil {
		return changed, err
	}
	if !anyOpen(movers) { // reading stopped when the last destination failed
		return false, nil
	}
	if size := e.meta.info.Size; total != size && size != 0 && !(total < size && e.file.SizeSaysNothing()) {
		return false, fmt.Errorf("it ended after %d of %d bytes", total, size)
	}
	e.digests = set.Digests()
	e.meta.info.Size = total // more than 0 for what says 0, as in /proc, less than a page in sysfs
	return false, nil
}

// countMoved counts bytes that need not be moved any more.
func (r *run) countMoved(e *entry, n int64) {
	tally.Grow(&r.counters.Bytes, n)
	e.counted += n
}

func anyOpen(passages []*passage) bool {
	for _, p := range passages {
		if p.open() {
			return true
		}
	}
	return false
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

// commit completes the temporary and gives it the final name.
func (r *run) commit(e *entry, p *passage) {
	s, place := &p.sink, p.target.place()
	e.clock.At(lap.Commit, place)
	if s.Finish(e.meta.info.Size); s.Err != nil {
		r.failPassage(e, p, failure.StageWrite, s.Err)
		return
	}
	p.target.ledger.unfollow(p)
	if s.Behind != nil {
		s.Behind.Finish()
		s.Behind = nil
		p.bypass = true // it is accounted for
	}
	fresh, err := p.dd.freshInfo(s.File)
	if err == nil {
		_, err = r.apply(p.target, &s.File.Object, &e.meta, fresh, true, p.dd.inherits)
	}
	if err != nil {
		r.failPassage(e, p, failure.StageMetadata, err)
		return
	}
	if p.target.syncEach.Load() {
		if err := p.target.sync(s.File); err != nil {
			p.target.keepLog.Store(true)
			r.failPassage(e, p, failure.StageSync, err)
			return
		}
	}
	if err = p.target.clearWay(r, p.act, e.manifestPath(p)); err != nil {
		r.failPassage(e, p, failure.StageJournal, err)
		return
	}
	if p.act == actReplace {
		err = s.File.CommitReplacing(p.name)
	} else {
		err = s.File.Commit(p.name)
		if errors.Is(err, fs.ErrExist) {
			r.nameTaken(e, p)
			return
		}
	}
	if err != nil {
		r.failPassage(e, p, failure.StageCommit, err)
		return
	}
	p.digests, p.done = e.digests, created(p.act)
	e.clock.Count(lap.Commit, place, 0)
	r.forget(e, p)
	r.wrote(e, p)
}

// nameTaken finds out why a name that was free is taken: the passage is decided
// anew, or fails because names fall together.
func (r *run) nameTaken(e *entry, p *passage) {
	if err := p.dd.collision(p.dir, p.name, e.dir, e.meta.info); err != nil {
		r.failPassage(e, p, failure.StageCheck, err)
		return
	}
	p.again = true
}

// freshInfo is what a new file in the directory has before anything is set. The
// first one is asked for its owner and group; the others get the same.
func (dd *destDir) freshInfo(f *fsys.Pending) (fsys.Info, error) {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if !dd.ownerSet {
		info, err := f.Stat()
		if err != nil {
			return info, err
		}
		dd.owner = fsys.Info{Kind: fsys.Regular, UID: info.UID, GID: info.GID, Mode: info.Mode}
		dd.ownerSet = true
	}
	return dd.owner, nil
}
