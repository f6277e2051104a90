package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// linkGroups has a group for each file of the source with several names. The run copies the first
// name that the walk meets, and links the others to it.
type linkGroups struct {
	mu           sync.Mutex
	groups       map[fsys.ID]*linkGroup // the groups that a worker works on now
	pendingLinks *pendingLinks          // all other groups
	warned       bool                   // it was reported that pendingLinks cannot be read
}

// linkGroup is one file with several names. One worker at a time works on it. Other workers add
// the names that they get to waiting, and that worker copies or links these, too.
type linkGroup struct {
	id        fsys.ID
	waiting   []*entry  // their directories are held
	seen      uint64    // number of names that were copied or linked, or failed
	broken    bool      // the content does not match a line of a source's manifest for one of the names
	primaries []primary // for each target: a name that exists there

	// The record from which pendingLinks made the group, so that it can be overwritten.
	place  int64
	length int // bytes
	era    int // pendingLinks.era when it was written; 0 if there is no record
}

// primary is a name at a destination that further names can be linked to. The walk holds its source
// directory until the last link is made. Otherwise the destination's directory would be completed,
// and its final mode could deny access.
type primary struct {
	dd       *destDir
	name     string
	digests  hash.Digests
	held     *walk.Dir
	size     int64     // of the source's file when it was copied
	mtime    fsys.Time // of the source's file when it was copied
	id       fsys.ID   // of the file at the destination
	expected bool      // a manifest of the source lists the name, with the right digest
	compared bool      // this run has written the file, or compared it with the source
}

// processLinked copies or links an entry with several names, and those of its
// group that are met meanwhile.
func (r *run) processLinked(e *entry) {
	clock := e.clock
	id, names := e.meta.info.ID, e.meta.info.Nlink
	g, err := r.links.enter(id, e, len(r.targets))
	if err != nil {
		r.report(Event{Kind: EventWarning, Path: e.path, Err: fmt.Errorf("not all hard links can be made; such files are copied: %w", err)})
	}
	var exchanged []*entry
	defer func() {
		for _, e := range exchanged {
			r.process(r.newEntry(job{dir: e.dir, name: e.name, kind: e.kind, planned: e.planned}, clock))
			e.dir.Done()
		}
	}()
	for waited := false; g != nil; waited = true {
		e.clock = clock // another worker may have got the name from the walk
		var err error
		if waited && r.ctx.Err() == nil {
			if err = r.openSource(e); err != nil {
				r.failSource(e, failure.StageOpen, err)
			}
		}
		same := e.meta.info.ID == id // false if another file got the name while the entry waited
		if err == nil && same && r.ctx.Err() == nil {
			r.copyEntry(e, g)
		}
		e.close()
		switch {
		case waited && !same:
			exchanged = append(exchanged, e)
		case waited:
			e.dir.Done()
		}
		if e = r.links.next(id, g, names); e == nil {
			return
		}
	}
}

// enter returns the group of a file for the caller to work on, or nil if another worker
// has the group: that worker copies e, too. An error means that the record of
// the group's earlier names cannot be read. enter returns only the first of these errors.
func (l *linkGroups) enter(id fsys.ID, e *entry, targets int) (*linkGroup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[id]; g != nil {
		e.close()
		e.dir.Hold()
		g.waiting = append(g.waiting, e)
		return nil, nil
	}
	g, err := l.pendingLinks.take(id)
	if g == nil {
		g = &linkGroup{id: id, primaries: make([]primary, targets)}
	}
	l.groups[id] = g
	if l.warned {
		err = nil
	}
	l.warned = l.warned || err != nil
	return g, err
}

// reportCopied warns of the names of a file that were copied before and that no manifest confirms.
// Under another of its names, the file does not match the source's manifest.
func (r *run) reportCopied(e *entry, g *linkGroup) {
	for _, l := range g.primaries {
		if l.dd != nil && !l.expected {
			err := fmt.Errorf("it is the same file as %s, which does not match the source's manifest, and was copied before", quoteName(e.path))
			r.report(Event{Kind: EventWarning, Path: l.held.Join(l.name), Target: l.dd.target.Given, Err: err})
		}
	}
}

// next returns the next waiting name of the group. If none waits, it returns nil, and the group
// becomes pending. If all names of the group were seen, next releases the group.
func (l *linkGroups) next(id fsys.ID, g *linkGroup, names uint64) *entry {
	l.mu.Lock()
	g.seen++
	if len(g.waiting) > 0 {
		e := g.waiting[0]
		g.waiting = g.waiting[1:]
		l.mu.Unlock()
		return e
	}
	delete(l.groups, id)
	complete := g.seen >= names
	if !complete {
		l.pendingLinks.put(g)
	}
	l.mu.Unlock()
	if complete { // after the unlock, because completing a directory takes time
		g.release()
	}
	return nil
}

// release ends the holds of the primaries' directories.
func (g *linkGroup) release() {
	for _, l := range g.primaries {
		if l.held != nil {
			l.held.Done()
		}
	}
	g.primaries = nil
}

// linkable reports whether the transfer's name can become a link of the group's primary
// at its destination: the primary has the content that the source's file has now.
func (g *linkGroup) linkable(e *entry, p *transfer) bool {
	if g == nil || e.meta.info.ID != g.id { // another file replaced the source's file while it was read
		return false
	}
	l := &g.primaries[p.target.index]
	if l.dd == nil {
		return false
	}
	if src := e.meta.info; src.Size != l.size || src.Mtime != l.mtime || e.contradicts(l.digests) {
		l.forget() // the file has changed since
		return false
	}
	return l.digests == nil || e.expected.Met(l.digests) // otherwise the file is read, which reports the mismatch
}

// linkTo links the transfer's name to the group's primary if the action creates, replaces or keeps
// an entry. It returns the result of the transfer. The result outNothing means that it made no link
// and the caller must treat the entry as one without other names.
func (r *run) linkTo(e *entry, p *transfer, g *linkGroup, act action) (targetResult, error) {
	if act != actCreate && act != actReplace && act != actKeep {
		return targetResult{}, nil
	}
	primary := &g.primaries[p.target.index]
	if act == actReplace && p.have.Kind == fsys.Regular && g.toCompare(p) != nil {
		return targetResult{}, nil
	}
	if act == actKeep && p.have.ID != primary.id {
		if mustCompareFirst(e, p, g) {
			return targetResult{}, nil
		}
		if apart, err := r.isApart(e, p, g); err != nil || !apart {
			return targetResult{}, err
		}
	}
	if p.have.ID != primary.id || !p.exists {
		if other, err := r.contradictsHistory(e, p, primary.digests); err != nil {
			return targetResult{}, err
		} else if other {
			return targetResult{done: outConflict, conflict: errListed}, nil
		}
	}
	done, err := r.link(e, p, g)
	if err != nil || done == outNothing || e.kind != fsys.Regular {
		return targetResult{done: done}, err
	}
	return targetResult{done: done, content: content{digests: primary.digests, fresh: done == outLinked}}, nil
}

// isApart reports whether the file that a transfer keeps is not the group's primary, and can be
// replaced by a link to it that later runs see.
func (r *run) isApart(e *entry, p *transfer, g *linkGroup) (bool, error) {
	if !g.linkable(e, p) || p.have.ID == g.primaries[p.target.index].id {
		return false, nil
	}
	if r.opts.DryRun { // the other questions need a temporary link
		return true, nil
	}
	if p.have.Nlink >= minLinkLimit {
		if full, err := hasAllLinks(p, p.dir.TempName()); err != nil || full {
			return false, inStage(failure.StageCreate, err)
		}
	}
	return p.showsLinks()
}

// toCompare returns the group's primary at the transfer's destination if it has to be compared
// before it may replace a file. Only its size and time show that it is up to date. It may have
// other content, and the file that is replaced may be the only right one.
func (g *linkGroup) toCompare(p *transfer) *primary {
	if l := &g.primaries[p.target.index]; !l.compared {
		return l
	}
	return nil
}

// mustCompareFirst reports whether a file that is kept cannot be replaced by a link to the group's
// primary yet, because it or the primary was not compared with the source.
func mustCompareFirst(e *entry, p *transfer, g *linkGroup) bool {
	return e.kind == fsys.Regular && (!p.content.fresh || g.toCompare(p) != nil)
}

// showsLinks is the function showsLinks for the file system of the transfer's directory.
func (p *transfer) showsLinks() (bool, error) {
	shown, err := p.dd.system.showsLinks.get(func() (bool, error) { return showsLinks(p.dir) })
	if err != nil {
		err = inStage(failure.StageCreate, fmt.Errorf("checking whether the file system shows hard links: %w", err))
	}
	return shown, err
}

// showsLinks reports whether all names of one file have the same inode number on dir's file
// system. On sshfs each name has its own.
func showsLinks(dir *fsys.Dir) (bool, error) {
	file, err := dir.Create(true)
	if err != nil {
		return false, err
	}
	defer file.Abort()
	name := dir.TempName()
	if err := dir.Link(file.Name(), dir, name); err != nil {
		if fsys.LinkRefused(err) {
			err = nil // the file system refuses links, so it shows none
		}
		return false, err
	}
	defer dir.Remove(name) //nolint:errcheck // a later run removes the link, because its name is that of a temporary
	first, err := dir.Lstat(file.Name())
	if err != nil {
		return false, err
	}
	second, err := dir.Lstat(name)
	return first.ID == second.ID, err
}

// link makes the transfer's name a further link of the group's primary there. It returns
// outNothing if the primary has as many links as the file system allows.
func (r *run) link(e *entry, p *transfer, g *linkGroup) (outcome, error) {
	l := &g.primaries[p.target.index]
	if p.exists && p.have.ID == l.id {
		return outUpToDate, nil
	}
	if r.opts.DryRun {
		return outLinked, r.keepOld(p)
	}
	from, err := l.dd.handle.Acquire()
	if err != nil {
		return outNothing, inStage(failure.StageCreate, err)
	}
	defer l.dd.handle.Release()
	if first, err := from.Lstat(l.name); err != nil || first.ID != l.id {
		if err == nil {
			err = errExchanged
		}
		return outNothing, inStage(failure.StageCreate, fmt.Errorf("linking to %s: %w", quoteName(l.name), err))
	}
	name := p.name
	if p.exists {
		name = p.dir.TempName()
	}
	if err := p.target.catalog.BeforeChange(e.manifestPath(p)); err != nil {
		return outNothing, inStage(failure.StageJournal, err)
	}
	if err := r.mayCommit(); err != nil {
		return outNothing, err
	}
	err = from.Link(l.name, p.dir, name)
	switch {
	case err == nil && p.exists:
		if err := r.putInPlace(p, name); err != nil {
			return outNothing, inStage(failure.StageCommit, err)
		}
		_ = p.dir.Remove(name) // still there if both were links of one file already
	case errors.Is(err, fs.ErrExist) && !p.exists:
		return outNothing, r.nameTaken(e, p)
	case fsys.LinkRefused(err):
		p.target.warn(r, kindLinks, fmt.Errorf("not all hard links can be made there; such files are copied: %w", err))
		l.forget()
		return outNothing, nil
	case err != nil:
		return outNothing, inStage(failure.StageCreate, err)
	}
	e.clock.Did(0)
	return outLinked, nil
}

// minLinkLimit is a number of links that every file system allows for one file. NTFS has the lowest
// limit, 1024.
const minLinkLimit = 1000

// hasAllLinks reports whether the file at the transfer's name has as many links as the file system
// allows. The run leaves that file unchanged. If the source's file has more names than one file can
// have here, the destination has several copies of it. Every run would otherwise move names from one
// copy to another. temp is a free name.
func hasAllLinks(p *transfer, temp string) (bool, error) {
	err := p.dir.Link(p.name, p.dir, temp)
	if err == nil {
		return false, p.dir.Remove(temp)
	}
	if fsys.LinkRefused(err) {
		return true, nil
	}
	return false, err
}

// contradicted reports whether the content that was read under this name differs from the content
// that other names were linked to. The file then changed without a change of its times, and
// contradicted forgets the primaries with the old content.
func (g *linkGroup) contradicted(e *entry) (anyOther bool) {
	for _, p := range e.transfers {
		l := &g.primaries[p.target.index]
		same := p.result.done == outLinked || p.result.done == outUpToDate
		if l.dd != nil && same && e.contradicts(p.result.digests) {
			l.forget()
			anyOther = true
		}
	}
	return anyOther
}

// forget removes the primary, so that the next name is copied instead of linked to it.
func (l *primary) forget() {
	l.held.Done()
	*l = primary{}
}

// afterLinked makes a name that was copied or found equal the group's primary at each destination
// that has no primary.
func (r *run) afterLinked(e *entry, g *linkGroup) {
	if e.broken && !g.broken {
		g.broken = true
		r.reportCopied(e, g)
	}
	if e.meta.info.ID != g.id { // exchanged while it was read
		return
	}
	for _, p := range e.transfers {
		l, res := &g.primaries[p.target.index], &p.result
		// Policy "never" must not add links to a file that existed before the copy. A suspect file with
		// the source's content is one that an interrupted run has made.
		ours := res.done != outLeft || res.known || p.decision.suspect && res.fresh
		if l.dd != nil || !ours || res.done == outNothing || res.done == outConflict {
			continue
		}
		have := fsys.Info{}                                                             // empty in a dry run
		planned := r.opts.DryRun && res.done != outUpToDate && res.done != outRefreshed // a dry run has not created the file
		if p.dir != nil && !planned {
			var err error
			if have, err = p.dir.Lstat(p.name); err != nil {
				r.failTarget(p.target, e.path, failure.StageCheck, err)
				continue // the next name is copied, too
			}
		}
		e.dir.Hold()
		*l = primary{dd: p.dd, name: strings.Clone(p.name), digests: res.digests, held: e.dir, size: e.meta.info.Size, mtime: e.meta.info.Mtime, id: have.ID, expected: e.expected.Any(), compared: res.done.written() || res.fresh || e.kind != fsys.Regular}
	}
}
