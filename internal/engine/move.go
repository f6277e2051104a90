package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/source"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// This file moves the data of one regular file: the source is read once, and each temporary gets
// the final name when it is complete.

// mover is the part of a run that copies data.
type mover struct {
	comparer
	pairs sync.Map // pairKey → *pair
}

// moveData reads the file once and writes it to all movers. It commits nothing if the file changed
// while it was read.
func (r *mover) moveData(e *entry, movers []*transfer) error {
	e.activity.At(timing.Source)
	err := e.Open(&r.cache)
	if err == nil {
		err = r.fill(e, movers)
	}
	if err == nil {
		r.failBroken(e)
	}
	for _, p := range movers {
		if err == nil && p.open() {
			r.endStep(e, p, r.commit(e, p))
		}
		p.abort() // does nothing after a commit
	}
	if err != nil && !errors.Is(err, source.ErrChanged) { // otherwise describeAgain uncounts
		r.uncount(e)
	}
	return err
}

// fill reads the file once and writes it into new temporaries or, at the first attempt,
// into those that an interrupted run has left. An error is about the source.
func (r *mover) fill(e *entry, movers []*transfer) error {
	set := r.sets.Get().(*hash.Set)
	defer r.sets.Put(set)
	set.Reset()
	start, err := r.continueLeft(e, movers, set)
	if err != nil {
		return err
	}
	if e.Evict != nil {
		e.Evict.Restart()
	}
	sinks := r.openSinks(e, movers, start)
	if len(sinks) == 0 {
		return nil
	}
	opts := pipe.MoveOptions{Start: start}
	if e.Evict != nil {
		opts.Read = e.Evict.Read
	}
	if size := e.Meta.Info.Size; size > resume.LeastPartial {
		opts.MarkEvery = resume.MarkEvery
		evict := opts.Read
		opts.Read = func(off int64) {
			e.shown.Reached(off, size)
			if evict != nil {
				evict(off)
			}
		}
	}
	if start == 0 || e.unread != start { // otherwise checkKept has counted them
		r.uncount(e) // the comparison has counted the same bytes
		r.countKept(e, start)
	}
	e.resumed = start
	total, err := r.moveBytes(e, sinks, set, opts)
	e.counted += max(total-start, 0)
	if e.Evict != nil {
		e.Evict.End(total)
	}
	if err != nil {
		if r.ctx.Err() != nil {
			r.leavePartial(e, movers, total, set)
		}
		return err
	}
	for _, p := range movers {
		if p.open() && p.sink.Err != nil {
			r.failTransfer(e, p, failure.StageWrite, p.sink.Err)
		}
	}
	e.activity.At(timing.Source)
	if err := e.Unchanged(); err != nil {
		return err
	}
	if !anyOpen(movers) { // reading stopped when the last destination failed
		return nil
	}
	// Files in /proc have the size 0, and those in sysfs a page, whatever their content is.
	if size := e.Meta.Info.Size; total != size && size != 0 && !(total < size && e.File.SizeSaysNothing()) {
		return fmt.Errorf("it ended after %d of %d bytes", total, size)
	}
	if err := e.recordDigests(set.Digests()); err != nil {
		return err
	}
	e.Meta.Info.Size = total
	return nil
}

// continueLeft continues the temporaries that an interrupted run has left, if it can. It
// returns the offset from which the source is to be read.
func (r *mover) continueLeft(e *entry, movers []*transfer, set *hash.Set) (start int64, err error) {
	if e.attempts > 1 || e.Meta.Info.Size <= resume.LeastPartial || r.opts.Reflink == ReflinkAlways {
		return 0, nil
	}
	start, err = r.continuePartial(e, movers, set)
	if err != nil {
		return 0, err
	}
	if start == 0 {
		set.Reset() // continuePartial may have written to some of the digests
	}
	if start%fsys.DirectAlignment != 0 && e.Direct {
		_, err = e.File.SetDirect(false)
	}
	return start, err
}

// openSinks creates the temporaries and returns the sinks that can be written. If start is not 0,
// the temporaries exist already and are continued at that offset.
func (r *mover) openSinks(e *entry, movers []*transfer, start int64) (sinks []*pipe.Sink) {
	for _, p := range movers {
		if !p.open() {
			continue
		}
		e.activity.At(p.target.Place())
		err := p.sink.Err
		if start == 0 {
			err = r.create(e, p)
		}
		if err == nil {
			if p.bypass = p.sink.Clone || r.cache.PrepareNew(p.sink.File, e.Meta.Info.Size, quoteName(p.target.Given), p.target.WritesBehind(e.Meta.Info.Size)); !p.bypass {
				p.sink.Behind = p.target.WriteBehind(&p.sink.File.File, e.Path, e.Meta.Info.Size)
			}
			err = p.track(e, start)
		}
		if err != nil {
			r.failTransfer(e, p, failure.StageCreate, err)
			continue
		}
		sinks = append(sinks, &p.sink)
	}
	return sinks
}

// commit completes the temporary and gives it the final name. The checks that need the digests
// come first, then the metadata, and the sync if each file is synced. The name comes last, so a
// file with its final name is complete.
func (r *mover) commit(e *entry, p *transfer) error {
	if err := r.accepts(e, p, e.digests, true); err != nil || !p.open() {
		return err
	}
	s := &p.sink
	e.activity.At(p.target.Place())
	if s.Finish(e.Meta.Info.Size); s.Err != nil {
		return inStage(failure.StageWrite, s.Err)
	}
	p.bypass = p.bypass || s.Behind != nil // then the device's goroutine has counted the bytes
	p.stopBeside()
	fresh, err := p.dd.freshInfo(s.File)
	if err == nil {
		_, err = p.dd.system.Apply(&s.File.Object, &e.Meta, fresh, true, p.dd.inherits)
	}
	if err != nil {
		return inStage(failure.StageMetadata, err)
	}
	if p.dd.system.SyncEach {
		if err := p.dd.system.SyncOne(s.File); err != nil {
			p.target.Journals.Keep.Store(true)
			return inStage(failure.StageSync, err)
		}
	}
	if err = p.target.records.BeforeChange(e.manifestPath(p)); err != nil {
		return inStage(failure.StageJournal, err)
	}
	if p.exists {
		if err = r.beforeReplacing(p); err == nil {
			err = s.File.CommitReplacing(p.name)
		}
	} else if err = s.File.Commit(p.name); errors.Is(err, fs.ErrExist) {
		return r.nameTaken(e, p)
	}
	if err != nil {
		return inStage(failure.StageCommit, err)
	}
	p.finish(targetResult{done: p.created(), Content: policy.Content{Digests: e.digests, Fresh: true}})
	p.forget()
	if !p.bypass {
		p.target.AddUnwritten(e.Meta.Info.Size)
	}
	return nil
}

// freshInfo returns the owner, group and mode that a new file in the directory has before the run
// sets any. It stats the first file that was created with a mode. Later files with the same mode
// get the same owner and group.
func (dd *destDir) freshInfo(f *fsys.Pending) (fsys.Info, error) {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if !dd.ownerSet || dd.askedMode != f.Mode() {
		info, err := f.Stat()
		if err != nil {
			return info, err
		}
		dd.owner = fsys.Info{Kind: fsys.Regular, UID: info.UID, GID: info.GID, Mode: info.Mode}
		dd.ownerSet, dd.askedMode = true, f.Mode()
	}
	return dd.owner, nil
}

// firstMode returns the mode with which a file without a name is created.
func (p *transfer) firstMode(e *entry) uint32 {
	p.dd.mu.Lock()
	fresh, known := p.dd.owner, p.dd.ownerSet
	p.dd.mu.Unlock()
	if !known {
		return metadata.PrivateMode
	}
	return p.dd.system.FirstMode(&e.Meta, fresh, p.dd.inherits)
}
