package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// abandon ends a plan without a merge. At each destination it removes the temporaries of tasks
// and the empty directories that they made, and removes the mark of the plan. Files that were
// copied stay. Previous manifests get their names back if no task has begun. Otherwise they stay
// aside, because files that they list may be replaced: the next copy finds them there and
// compares what they list. A destination that cannot be reached does not stop the work at the
// others.
func (o *MergeOptions) abandon(ctx context.Context, s *MergeSummary) (err error) {
	if s.Shards, err = o.Plan.Progress(ctx); err != nil {
		return o.planError(ctx, err)
	}
	index, alive, err := o.Plan.FindAlive(ctx, o.Attempts)
	if err != nil {
		return o.planError(ctx, err)
	}
	if alive {
		return failure.Refuse("a task is at work on shard %d; stop all tasks of the plan first", index)
	}
	if s.Already, err = o.Plan.IsClosed(); err != nil || s.Already {
		return o.planError(ctx, err)
	}
	before, err := o.keepTasksOut(ctx, s)
	if err != nil {
		return err
	}
	merging, err := o.Plan.IsMerging()
	if err != nil {
		return o.planError(ctx, err)
	}
	ids := o.Plan.TempIDs(s.Shards)
	var failed []error
	for i, given := range o.Copy.Targets {
		a := &abandoning{options: o, target: i, given: given, ids: ids, merging: merging, untouched: s.Shards.Count(shard.NotBegun) == len(s.Shards)}
		if err := a.run(ctx); err != nil {
			failed = append(failed, err)
		}
		s.Removed += a.removed
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(failed) == len(o.Copy.Targets) && !before { // nothing was changed, so the plan can still be merged
		if err := o.Plan.TakeBackAbandoned(); err != nil {
			return o.planError(ctx, err)
		}
	}
	return o.notAbandoned(failed)
}

// keepTasksOut records that no task may begin any more, and reports whether that was recorded
// before. A task begins its attempt and then checks the record. keepTasksOut makes the record and then
// checks for new attempts. So at least one of them notices the other, and no task copies to
// destinations that other copies use.
func (o *MergeOptions) keepTasksOut(ctx context.Context, s *MergeSummary) (before bool, err error) {
	if err := o.Plan.CheckAbandoned(); err != nil {
		if errors.Is(err, shard.ErrAbandoned) {
			return true, nil
		}
		return false, o.planError(ctx, err)
	}
	if err := o.Plan.SetAbandoned(); err != nil {
		return false, failure.Refuse("the directory of the plan cannot be written: %s", err.Error())
	}
	now, err := o.Plan.Progress(ctx)
	if err != nil {
		return false, o.planError(ctx, err)
	}
	for i, state := range now {
		if state.Attempts != s.Shards[i].Attempts {
			if err := o.Plan.TakeBackAbandoned(); err != nil {
				return false, o.planError(ctx, err)
			}
			return false, failure.Refuse("a task has begun shard %d; stop all tasks of the plan first", i)
		}
	}
	s.Shards = now
	return false, nil
}

// notAbandoned returns one error for the failures of all destinations. A failed destination does
// not keep the others closed to other copies. The error is a refusal only if all destinations
// failed.
func (o *MergeOptions) notAbandoned(failed []error) error {
	switch len(failed) {
	case 0:
		return nil
	case len(o.Copy.Targets):
		return failed[0]
	}
	text := make([]string, len(failed))
	for i, err := range failed {
		text[i] = err.Error()
	}
	return errors.New(strings.Join(text, "; ") + "; the other destinations are open to other copies")
}

// abandoning ends a plan at one destination.
type abandoning struct {
	options *MergeOptions
	target  int // in the plan
	given   string
	ids     map[string]bool // in the names of temporaries
	merging bool            // a merge has begun, so that empty directories belong to the copy
	// untouched: no task has begun.
	untouched bool
	root      *fsys.Dir
	removed   int64
}

func (a *abandoning) run(ctx context.Context) (err error) {
	refuse := func(err error) error {
		return failure.Refuse("destination %s: %s", quoteName(a.given), err.Error())
	}
	if a.root, err = a.options.Copy.FS.OpenTrustedRoot(a.given); err != nil {
		return refuse(err)
	}
	defer a.root.Close()
	journal, err := resume.OpenPlannedJournal(a.root, a.options.Plan.Plan.ID)
	switch {
	case errors.Is(err, resume.ErrNotPlanned):
		if _, found, readErr := resume.ReadPlanMark(a.root); readErr == nil && !found && a.wasMarked() {
			return nil // it was abandoned or merged before
		}
		return refuse(err)
	case errors.Is(err, fsys.ErrLocked):
		return refuse(errors.New("another sealift is at work there"))
	case err != nil:
		return refuse(err)
	}
	defer journal.Close()
	if err := a.end(ctx, journal); err != nil {
		return fmt.Errorf("destination %s: %w", quoteName(a.given), err)
	}
	return nil
}

// end removes what the tasks have left, and then the mark of the plan.
func (a *abandoning) end(ctx context.Context, journal *resume.Journal) error {
	if err := a.clean(ctx); err != nil {
		return err
	}
	if a.untouched {
		asides, err := resume.ReadAsides(a.root, resume.JournalName(""))
		if err == nil {
			err = catalog.MoveBack(a.root, asides, journal)
		}
		if err != nil {
			return fmt.Errorf("the previous manifest cannot get its name back: %w", err)
		}
	}
	made, err := journal.RootMarked()
	if err == nil {
		err = journal.Remove()
	}
	if err == nil && made && !a.merging { // the plan created it with mode 0700: set the usual mode of a directory
		err = fsys.IgnoreRefusal(a.root.Chmod(0o777 &^ fsys.Umask()))
	}
	if err == nil {
		err = a.root.Sync()
	}
	return err
}

// wasMarked reports whether the directory is the one that had the mark of the plan.
func (a *abandoning) wasMarked() bool {
	info, err := a.root.Stat()
	return err == nil && info.ID.Ino == a.options.Plan.Plan.Targets[a.target].Ino
}

// clean removes temporaries and empty directories, the deepest first.
func (a *abandoning) clean(ctx context.Context) error {
	dirs, err := a.options.Plan.OpenDirs()
	if err != nil {
		return err
	}
	defer dirs.Close()
	finder := fsys.NewFinder(a.root, fsys.FinderLimit())
	defer finder.Close()
	var way []*shard.Directory // the last directory and its ancestors, the root first
	leaveUnless := func(stays func(dir string) bool) error {
		for len(way) > 0 && !stays(way[len(way)-1].Path) {
			last := way[len(way)-1]
			way = way[:len(way)-1]
			if err := a.leave(finder, last); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d, err := dirs.Next()
		if errors.Is(err, io.EOF) {
			return leaveUnless(func(string) bool { return false })
		}
		if err != nil {
			return err
		}
		if err := leaveUnless(func(dir string) bool { return isBelow(d.Path, dir) }); err != nil {
			return err
		}
		way = append(way, d)
	}
}

// isBelow reports whether file is below dir.
func isBelow(file, dir string) bool {
	return dir == "" || strings.HasPrefix(file, dir+"/")
}

// leave cleans a directory when everything below it is cleaned. It does nothing if the
// directory does not exist or was replaced by another entry.
func (a *abandoning) leave(finder *fsys.Finder, d *shard.Directory) error {
	dir, close, err := a.open(finder, d.Path)
	if dir == nil || err != nil {
		return err
	}
	defer close()
	empty := true
	var temporaries []string
	err = dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if id, ok := fsys.TempID(string(name)); ok && a.ids[id] {
			temporaries = append(temporaries, string(name))
		} else {
			empty = false
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s: %w", quoteName(d.Path), err)
	}
	for _, name := range temporaries {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", quoteName(path.Join(d.Path, name)), err)
		}
		a.removed++
	}
	if !empty || a.merging || d.Path == "" || !d.Absent.Of(a.target) {
		return nil
	}
	parent, name, err := finder.Parent(d.Path)
	if err == nil {
		err = parent.RemoveDir(name)
	}
	if err == nil {
		a.removed++
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // another process has put something into it
		return nil
	}
	return err
}

// open opens a directory of the destination. It returns nil if there is none.
func (a *abandoning) open(finder *fsys.Finder, file string) (_ *fsys.Dir, close func(), err error) {
	if file == "" {
		return a.root, func() {}, nil
	}
	parent, name, err := finder.Parent(file)
	if err == nil {
		var dir *fsys.Dir
		if dir, err = parent.OpenDir(name); err == nil {
			return dir, dir.Close, nil
		}
	}
	if fsys.NoSuchFile(err) || fsys.IsSymlinkRefusal(err) || errors.As(err, new(*fsys.KindError)) {
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("%s: %w", quoteName(file), err)
}
