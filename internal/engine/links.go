package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/links"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file copies the files of the source that have several names. The walk only collects these
// names. Afterwards, one worker copies all names of one file, in path order, so the result does not
// depend on the order in which the workers meet them.

// linker is the part of a run that copies entries, and all names of a file together.
type linker struct {
	copier
	linked *links.Names // names of files with several, until the walk has ended
}

// collectLinked adds a name of a file with several names to those that copyLinked copies. It
// returns false if the name cannot be stored. The caller then copies it as an ordinary file.
func (r *linker) collectLinked(e *entry) bool {
	err := r.linked.Add(e.Meta.Info.ID, e.Path, e.Item)
	if err != nil && r.warned.add("hard links") {
		r.report(event.Event{Kind: event.Warning, Path: e.Path, Err: fmt.Errorf("not all hard links can be made; such files are copied: %w", err)})
	}
	return err == nil
}

// copyLinked copies the collected names. The other workers have ended.
func (r *linker) copyLinked() {
	r.linksLikely.Store(false)
	files := make(chan links.File, 64) // so that no worker waits for each of many small files
	var workers sync.WaitGroup
	if !r.linked.Empty() {
		for range r.opts.Workers {
			workers.Go(func() { r.groupWorker(files) })
		}
	}
	err := r.linked.Each(func(f links.File) error {
		files <- f
		return r.ctx.Err()
	})
	close(files)
	workers.Wait()
	left := r.linked.Close()
	if err != nil && r.ctx.Err() == nil {
		r.report(event.Event{Kind: event.Failed, Err: fmt.Errorf("%d names of files with hard links were not copied: %w", left, err)})
	}
}

func (r *linker) groupWorker(files <-chan links.File) {
	activity := r.sampler.Activity()
	defer activity.At(timing.None)
	shown := r.counters.NewWorker()
	for f := range files {
		if r.ctx.Err() == nil {
			if first := f.Names[0]; first.Kind == fsys.Regular {
				shown.Begin(first.Dir.Join(first.Name))
			}
			if len(f.Names) > 1 {
				r.copyGroup(f.ID, f.Names, activity, shown)
			} else if e := r.newEntry(f.Names[0], activity, shown); r.openEntry(e) { // its other names are outside the source
				r.copyAlone(e)
			}
			shown.End()
		}
		for _, j := range f.Names {
			j.Dir.Done()
		}
		activity.At(timing.Source)
	}
}

// linkGroup is a file of the source with several names, while a worker copies it.
type linkGroup struct {
	id        fsys.ID
	names     []*entry     // names in the order of their paths
	digests   hash.Digests // digests of the file, as soon as it was read under any name
	primaries []primary    // primary links, one for each target
	files     map[fsys.ID]*linkedFile
}

// primary is a name at one destination that this run has written or compared equal. The names that
// the run creates or replaces there become links of it.
type primary struct {
	name    *transfer // transfer of the name; nil if there is none
	id      fsys.ID   // identity of the file; zero if a dry run would write it
	unknown error     // error of reading the identity; no name becomes a link then
	changes bool      // true if the run creates or replaces a name at this destination
}

// linkedFile is an existing file at destinations that names of the group lead to.
type linkedFile struct {
	names     uint64    // number of names of the group in this round
	equal     *transfer // a name under which it was compared equal; nil if there is none
	refreshed bool      // true if its metadata is up to date
}

// fileOf returns the existing file of a transfer. It returns nil if there is none, or no group.
func (g *linkGroup) fileOf(p *transfer) *linkedFile {
	if g == nil || !p.exists {
		return nil
	}
	return g.files[p.have.ID]
}

// addFile counts the name of a transfer that was just observed.
func (g *linkGroup) addFile(p *transfer) {
	if g == nil || !p.exists {
		return
	}
	f := g.fileOf(p)
	if f == nil {
		f = &linkedFile{}
		if g.files == nil {
			g.files = map[fsys.ID]*linkedFile{}
		}
		g.files[p.have.ID] = f
	}
	f.names++
}

// copyGroup copies all names of one file of the source, and sends the result of each to the
// collector.
func (r *linker) copyGroup(id fsys.ID, names []walk.Item, activity *timing.Activity, shown *counters.Worker) {
	g := &linkGroup{id: id}
	for _, j := range names {
		e := r.newEntry(j, activity, shown)
		e.group = g
		if !r.openEntry(e) {
			continue
		}
		if r.findExpected(e); e.broken {
			r.sendResult(e)
			continue
		}
		r.newTransfers(e)
		e.release()
		g.names = append(g.names, e)
	}
	for err := r.attemptGroup(g); err != nil; err = r.attemptGroup(g) {
		for _, e := range g.names {
			if e.attempts < maxAttempts || anyOpen(e.transfers) { // otherwise it was complete before the file changed again
				r.failEntry(e, r.describeAgain(e))
			}
		}
	}
	for _, e := range g.names {
		r.endName(e)
	}
}

// endName sends the result of one name to the collector.
func (r *linker) endName(e *entry) {
	r.sendResult(e)
	if !e.tracked {
		r.entries.Put(e)
	}
}

// attemptGroup takes all names through the steps, each step for all names. A name that leads to
// another file now is copied alone. The error is source.ErrChanged or nil.
func (r *linker) attemptGroup(g *linkGroup) error {
	g.names = slices.DeleteFunc(g.names, func(e *entry) bool {
		if e.Meta.Info.ID == g.id {
			e.attempts++
			return false
		}
		e.group = nil
		r.acquire(e)
		r.repeat(e, r.attempt(e))
		e.Close()
		e.release()
		r.endName(e)
		return true
	})
	g.digests, g.primaries = nil, make([]primary, len(r.targets))
	isOpen := func(e *entry) bool { return anyOpen(e.transfers) }
	if i := slices.IndexFunc(g.names, isOpen); i >= 0 {
		changed := func(e *entry) bool { return isOpen(e) && !source.SameState(e.Meta.Info, g.names[i].Meta.Info) }
		if slices.ContainsFunc(g.names, changed) {
			return source.ErrChanged
		}
	}
	for round := 0; round < maxAttempts && slices.ContainsFunc(g.names, isOpen); round++ {
		g.files = nil
		for _, step := range entrySteps {
			if err := r.eachName(g, step); err != nil {
				return err
			}
		}
	}
	if r.ctx.Err() == nil {
		for _, e := range g.names {
			r.failOpen(e)
		}
	}
	return nil
}

// eachName takes one step for all names. The names share the digests of the file, so a line or a
// reading that contradicts them is noticed under each name, in whatever order the names come. The
// error is source.ErrChanged or nil.
func (r *linker) eachName(g *linkGroup, step func(*copier, *entry) error) error {
	for _, e := range g.names {
		if !anyOpen(e.transfers) || r.ctx.Err() != nil {
			continue
		}
		if e.digests == nil {
			e.digests = g.digests
		}
		r.acquire(e)
		err := step(&r.copier, e)
		r.note(e)
		e.Close()
		e.release()
		if errors.Is(err, source.ErrChanged) {
			return err
		}
		if e.digests != nil {
			g.digests = e.digests
		}
		r.failEntry(e, err)
	}
	for _, e := range g.names {
		if e.digests == nil {
			e.digests = g.digests
		}
		r.failBroken(e)
	}
	return nil
}

// refutes reports whether the source's manifests list other digests for a name of the file.
func (g *linkGroup) refutes(digests hash.Digests) bool {
	return g != nil && slices.ContainsFunc(g.names, func(e *entry) bool { return !e.expected.Met(digests) })
}

// note chooses primaries among the files that equal the source, and notes at which destinations
// names are created or replaced. Policy "never" leaves files alone that this copy did not make, so
// they are no primaries.
func (r *copier) note(e *entry) {
	for _, p := range e.transfers {
		l := &e.group.primaries[p.target.Index]
		done := p.result.done
		stays := p.state == stateKeeping || p.state == stateFinished && done == outLeft && p.exists && e.Kind == fsys.Regular
		switch {
		case p.state == stateMoving:
			l.changes = true
			if l.name == p { // it is replaced after all
				l.name = nil
			}
		case l.name != nil || p.target.Dropped():
		case stays && p.equalsSource(e):
			l.name, l.id = p, p.have.ID
		case p.state == stateFinished && (done == outCreated || done == outReplaced):
			var have fsys.Info
			var err error
			if p.dir != nil && !r.opts.DryRun {
				have, err = p.dir.Lstat(p.name)
			}
			if err != nil {
				p.target.Fail(e.Path, failure.StageCheck, err)
			}
			l.name, l.id, l.unknown = p, have.ID, err
		}
	}
}

// equalsSource reports whether this run, or the journal of an interrupted one, has shown that the
// existing file equals the source.
func (p *transfer) equalsSource(e *entry) bool {
	return e.Kind != fsys.Regular || p.content.Fresh || p.content.Known
}

// compareSkipped compares the files that were skipped by size and time, if the run creates or
// replaces a name of the group at the same destination.
func (r *copier) compareSkipped(e *entry) error {
	if e.group == nil {
		return nil
	}
	for p := range e.in(stateKeeping) {
		if e.group.primaries[p.target.Index].changes && !p.equalsSource(e) {
			p.compareInstead()
		}
	}
	return r.compare(e)
}

// linkSeparate makes separate files that equal the source links of the primaries. It precedes every
// name that is created or replaced. After a kill, the next run still finds a name to create or replace.
func (r *copier) linkSeparate(e *entry) error {
	r.link(e, stateKeeping)
	return nil
}

// link makes the names in state from links of the primaries: in stateMoving those that are created or
// replaced, in stateKeeping separate files that equal the source. A name without a primary is copied, and
// becomes one.
func (r *copier) link(e *entry, from state) {
	if e.group == nil || r.failBroken(e) {
		return
	}
	for p := range e.in(from) {
		l := &e.group.primaries[p.target.Index]
		twice := !r.rules.completes && (p.decision.Suspect || p.content.Known) // two attempts have each made a name of the file
		separate := (l.changes || twice) && p.have.ID != l.id && p.equalsSource(e)
		if l.name == nil || from == stateKeeping && !separate || !e.mayLinkTo(l) {
			continue
		}
		e.activity.At(p.target.Place())
		r.endStep(e, p, r.linkTo(e, p, l))
		if p.state == stateMoving {
			l.name = nil // it has as many links as the file system allows
		}
	}
}

// mayLinkTo reports whether the digests of the primary are those that the source and its manifests
// have for the entry. If not, the source is read under this name, which reports the mismatch.
func (e *entry) mayLinkTo(l *primary) bool {
	digests := l.digests()
	return digests == nil || !e.contradicts(digests) && e.expected.Met(digests)
}

// digests returns the digests of the primary's content.
func (l *primary) digests() hash.Digests {
	if l.name.state == stateFinished {
		return l.name.result.Digests
	}
	return l.name.content.Digests
}

// linkTo makes the transfer's name a link of the primary, and finishes the transfer. If the file
// system refuses the link, the transfer stays as it is.
func (r *copier) linkTo(e *entry, p *transfer, l *primary) error {
	digests := l.digests()
	if err := r.accepts(e, p, digests, true); err != nil || !p.open() {
		return err
	}
	linked := targetResult{done: outLinked, Content: policy.Content{Digests: digests, Fresh: e.Kind == fsys.Regular}}
	if r.opts.DryRun {
		err := r.keepOld(p)
		p.finish(linked)
		return err
	}
	if l.unknown != nil {
		return inStage(failure.StageCreate, fmt.Errorf("linking to %s: %w", quoteName(l.name.name), l.unknown))
	}
	from, err := l.name.dd.handle.Acquire()
	if err != nil {
		return inStage(failure.StageCreate, err)
	}
	defer l.name.dd.handle.Release()
	if first, err := from.Lstat(l.name.name); err != nil || first.ID != l.id {
		if err == nil {
			err = errExchanged
		}
		return inStage(failure.StageCreate, fmt.Errorf("linking to %s: %w", quoteName(l.name.name), err))
	}
	name := p.name
	if p.exists {
		name = p.dir.TempName()
	}
	if err := p.target.records.BeforeChange(e.manifestPath(p)); err != nil {
		return inStage(failure.StageJournal, err)
	}
	err = from.Link(l.name.name, p.dir, name)
	switch {
	case err == nil && p.exists:
		if err := r.putInPlace(p, name); err != nil {
			return inStage(failure.StageCommit, err)
		}
		_ = p.dir.Remove(name) // still there if both were links of one file already
	case errors.Is(err, fs.ErrExist) && !p.exists:
		return r.nameTaken(e, p)
	case fsys.LinkRefused(err):
		p.target.Warn("hard links", fmt.Errorf("not all hard links can be made there; such files are copied: %w", err))
		return nil
	case err != nil:
		return inStage(failure.StageCreate, err)
	}
	p.finish(linked)
	return nil
}

// process opens one entry of the source, and copies it to all destinations. The caller holds the
// entry's directory, and must not use the entry afterwards.
func (r *linker) process(e *entry) {
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
