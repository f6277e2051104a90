package engine

import (
	"errors"
	"hash/maphash"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/record"
)

// This file gives names to what the run has written, and keeps the files that had them.

// placer is the part of a run that gives names at destinations.
type placer struct {
	reporter
	shared    placeMode           // what the mode of the run has to say
	mayCommit func(*target) error // nil if the run may replace or remove a name; the caller must do so immediately
	names     maphash.Seed        // seed of all name sets
	unlinked  sharedSet[fsys.ID]  // identities of files that have lost one of several names in this run
}

// nameTaken finds out why a name exists that did not exist before. If another process created it,
// the error is errNameTaken, and the caller decides about the transfer again. If the file system
// folds two names of the source together, the error fails the transfer.
func (r *placer) nameTaken(e *entry, p *transfer) error {
	alias, err := p.dd.collision(p.dir, p.name, e.Dir, e.Meta.Info)
	if err == nil {
		p.alias = alias
		return errNameTaken
	}
	if errors.As(err, new(*collisionError)) { // an earlier manifest may list another entry under this name
		r.collector.record(p.target, record.Outcome{Path: e.manifestPath(p), Dropped: true})
	}
	return inStage(failure.StageCheck, err)
}

// putInPlace replaces the file of the transfer's name by a complete temporary. If there is a
// backup directory, the replaced file is kept there.
func (r *placer) putInPlace(p *transfer, temp string) error {
	err := r.beforeReplacing(p)
	if err == nil {
		err = p.dir.Rename(temp, p.name)
	}
	if err != nil && p.dir.Remove(temp) != nil {
		p.target.Journals.Keep.Store(true) // a later run removes the temporary
	}
	return err
}

// keepOld links the file that a transfer is about to replace into the backup directory, if
// there is one. Files that this run created are not kept.
func (r *placer) keepOld(p *transfer) error {
	if p.target.Backups == nil || !p.exists || p.made {
		return nil
	}
	p.backedUp = true
	if r.opts.DryRun {
		return nil
	}
	return p.target.Backups.Keep(p.dd.backup, p.dir, p.name)
}

// beforeReplacing must be called immediately before a transfer replaces an existing file. It
// checks that this task may still commit, and keeps the old file. It checks again afterwards,
// because keeping a file can take long.
func (r *placer) beforeReplacing(p *transfer) error {
	err := r.mayCommit(p.target)
	if err == nil {
		err = r.keepOld(p)
	}
	if p.have.Nlink > 1 {
		r.unlinked.add(p.have.ID)
	}
	if err == nil && p.target.Backups != nil {
		err = r.mayCommit(p.target)
	}
	return err
}
