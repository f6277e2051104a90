package engine

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file ends a plan at its destinations: after a merge, or without one.

// close opens the destinations of a merged plan to other copies, if the merge was killed before it
// has done so.
func (o *MergeOptions) close(end *shard.End) error {
	closed, err := o.Plan.Closed()
	if err != nil || closed || o.DryRun {
		return err
	}
	for i, given := range o.Copy.Targets {
		if err := o.closeDestination(given, i < len(end.Made) && end.Made[i]); err != nil {
			return failure.Refuse("destination %s: %s", quoteName(given), route.Reason(err))
		}
	}
	return o.Plan.SetClosed()
}

// closeDestination removes the journal with the mark of the plan. If the plan made the destination, it
// sets the mode and times of its root, which are the last metadata that a merge sets: see closeTarget.
func (o *MergeOptions) closeDestination(given string, made bool) error {
	root, err := o.Copy.FS.OpenTrustedRoot(given)
	if err != nil {
		return err
	}
	defer root.Close()
	journal, err := resume.OpenPlannedJournal(root, o.Plan.Plan.ID)
	if errors.Is(err, resume.ErrNotPlanned) { // the mark is removed, and perhaps a later copy is at work
		if journal, err = resume.OpenJournal(root, resume.JournalName("")); err == nil && journal.HoldsLogs() {
			journal.Close()
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	if err := journal.Remove(); err != nil || !made {
		return err
	}
	source, err := o.Copy.FS.OpenRoot(o.Copy.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	from, err := source.Stat()
	if err == nil && o.Copy.Preserve&metadata.PreserveMode != 0 {
		err = root.Chmod(from.Mode)
	}
	if err == nil && o.Copy.Preserve&metadata.PreserveTimes != 0 {
		err = fsys.IgnoreRefusal(root.SetTimes(from.Atime, from.Mtime, from.Btime))
	}
	return err
}

// abandon ends a plan without a merge, at all destinations. One that cannot be reached does not keep
// the others closed to other copies.
func (o *MergeOptions) abandon(ctx context.Context, s *MergeSummary) error {
	if err := o.Plan.SetEnd(shard.End{Abandoned: true}); err != nil {
		return failure.Refuse("the directory of the plan cannot be written: %s", err)
	}
	var failed []error
	untouched := s.Shards.Count(shard.NotBegun) == len(s.Shards)
	for _, given := range o.Copy.Targets {
		removed, err := Abandon(ctx, o.Copy.FS, given, o.Plan.Plan.ID, untouched)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("destination %s: %w", quoteName(given), err)
		}
		failed = append(failed, err)
		s.Removed += removed
	}
	return errors.Join(failed...)
}

// Abandon ends a plan at one destination: it removes the temporaries of the plan's attempts, and then
// the mark and the journal, so that a copy can go on alone. Tasks stop at the next directory. Copied
// files stay. Previous manifests get their names back if no task has begun. Otherwise they stay aside,
// because files that they list may be replaced: the next copy compares what they list. id is that of
// the plan, or "" for any plan.
func Abandon(ctx context.Context, system *fsys.FS, given, id string, untouched bool) (removed int64, err error) {
	root, err := system.OpenTrustedRoot(given)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	mark, found, err := resume.ReadPlanMark(root)
	if err == nil && id == "" && !found {
		err = resume.ErrNotPlanned
	}
	if err != nil || !found || id != "" && mark.ID != id {
		return 0, err // it was abandoned before
	}
	journal, err := resume.OpenPlannedJournal(root, mark.ID)
	if errors.Is(err, fsys.ErrLocked) {
		err = errors.New("another sealift is at work there")
	}
	if err != nil {
		return 0, err
	}
	defer journal.Close()
	if removed, err = removeTemporaries(ctx, root, mark.ID); err != nil {
		return removed, err
	}
	if untouched {
		asides, err := resume.ReadAsides(root, resume.JournalName(""))
		if err == nil {
			err = catalog.MoveBack(root, asides, journal)
		}
		if err != nil {
			return removed, fmt.Errorf("the previous manifest cannot get its name back: %w", err)
		}
	}
	made, err := journal.RootMarked()
	if err == nil {
		err = journal.Remove()
	}
	if err == nil && made { // the plan created it with mode 0700: set the usual mode of a directory
		err = fsys.IgnoreRefusal(root.Chmod(0o777 &^ fsys.Umask()))
	}
	return removed, errors.Join(err, root.Sync())
}

// removeTemporaries removes what the attempts of a plan have left at a destination.
func removeTemporaries(ctx context.Context, root *fsys.Dir, id string) (removed int64, err error) {
	info, err := root.Stat()
	if err != nil {
		return 0, err
	}
	again, err := root.OpenDir(".")
	if err != nil {
		return 0, err
	}
	v := &leftTemporaries{id: id}
	walk.Walk(ctx, walk.NewRoot(fsys.NewHandles(fsys.FinderLimit()).Root(again), info, v), walk.Options{Workers: 1})
	if ctx.Err() != nil {
		v.err = context.Cause(ctx)
	}
	return v.removed, v.err
}

// leftTemporaries is the visitor of a walk that removes the temporaries of a plan.
type leftTemporaries struct {
	id      string
	removed int64
	err     error
}

func (v *leftTemporaries) Enter(*walk.Dir) bool { return true }

func (v *leftTemporaries) Entry(d *walk.Dir, name string, _ fsys.Kind) {
	if !shard.OwnsTemp(v.id, name) {
		return
	}
	dir, err := d.Acquire()
	if err == nil {
		err = dir.Remove(name)
		d.Release()
		v.removed++
	}
	if err != nil && !fsys.NoSuchFile(err) {
		v.Failed(d, name, err)
	}
}

func (v *leftTemporaries) Leave(*walk.Dir) {}

func (v *leftTemporaries) Failed(d *walk.Dir, name string, err error) {
	v.err = errors.Join(v.err, fmt.Errorf("%s: %w", quoteName(path.Join(d.Path(), name)), err))
}
