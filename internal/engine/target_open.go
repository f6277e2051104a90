package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
)

// This file opens the root of a destination and creates it if it does not exist. If nothing is
// copied, it removes the directories that it created.

// openTargets lets the mode open and examine the destinations.
func (r *run) openTargets() error {
	r.targetsLeft.Store(int64(len(r.route.Destinations)))
	return r.mode.openTargets(r)
}

// openTargets locks and examines the destinations, all of them before anything
// is written to one.
func (treeCopy) openTargets(r *run) error {
	for _, t := range r.targets {
		r.activity.At(t.Place())
		err := inStep("its bag cannot be read", r.inspect(t))
		if err == nil {
			err = t.open(r)
		}
		if err == nil {
			err = inStep("its bag cannot be opened", t.openOuter())
		}
		if err == nil {
			err = inStep("its manifests cannot be read", t.openRecords(r))
		}
		if err == nil {
			err = inStep("the backup directory cannot be opened", t.openBackup(r))
		}
		var refused *failure.RefusedError
		if errors.As(err, &refused) {
			for _, t := range r.targets {
				t.undo(r)
			}
			return err
		}
		if err != nil {
			t.Drop("", err)
			t.leaveAsFound(r)
		}
	}
	for _, t := range r.targets { // no destination is refused any more, so the journals may be written
		if t.Dropped() || t.Root == nil { // a dry run does not make it
			continue
		}
		r.activity.At(t.Place())
		if err := t.openLog(r); err != nil {
			what := "written"
			if r.opts.DryRun {
				what = "read"
			}
			t.Drop("", fmt.Errorf("the journal cannot be %s: %w", what, err))
			t.leaveAsFound(r)
			continue
		}
		t.records.Resume(r.mode.interrupted(t))
	}
	return nil
}

// openBackup opens the directory of replaced files, unless no file is replaced.
func (t *target) openBackup(r *run) error {
	if r.opts.Policy == policy.Never {
		return nil
	}
	return t.OpenBackups(r.opts.Sync != dest.SyncNone)
}

// inStep adds the step that failed to an error, unless it is a refusal, which has a complete text.
func inStep(what string, err error) error {
	if err == nil || errors.As(err, new(*failure.RefusedError)) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// open creates the destination's directory if it does not exist. It locks the directory and probes
// its file system.
func (t *target) open(r *run) error {
	switch {
	case t.Exists:
		return t.openExisting(r)
	case r.opts.DryRun:
		return nil
	case r.rules.planned:
		return t.refuseJournal(resume.ErrNotPlanned)
	}
	return t.openNew(r)
}

// openNew creates the directory and opens it. If another run created the directory first, that run
// may remove it while it is empty. openNew then tries again.
func (t *target) openNew(r *run) error {
	for range maxRootAttempts {
		if err := t.Make(); err != nil {
			return fmt.Errorf("it cannot be made: %s", route.Reason(err))
		}
		err := t.openExisting(r)
		if !errors.Is(err, resume.ErrRootRemoved) {
			return err
		}
		t.Handle.Close()
		t.Root, t.Handle, t.Created = nil, nil, false
		t.LeaveMade()
	}
	return resume.ErrRootRemoved
}

// maxRootAttempts limits the attempts at a step in which another run can interfere. Each failed
// attempt needs another run that begins or ends at the same instant.
const maxRootAttempts = 100

// openExisting locks the directory and probes its file system.
func (t *target) openExisting(r *run) error {
	var err error
	if t.Root == nil {
		if t.Root, err = t.Open(); err != nil {
			return inStep("it cannot be opened", err)
		}
	}
	t.Handle = r.newHandles().Root(t.Root)
	if r.opts.DryRun {
		if mark, found, err := resume.ReadPlanMark(t.Root); t.Name == "" && (found || err != nil) {
			return t.refuseJournal(cmp.Or(err, error(&resume.PlanError{PlanMark: mark})))
		}
		return t.probe(r)
	}
	if t.Name == "" {
		if err := t.TakeOver(); err != nil {
			return inStep("it cannot be examined", err)
		}
	}
	name := resume.JournalName(t.Name)
	if t.Journal, err = r.mode.openJournal(t.Root, name); err != nil {
		return t.refuseJournal(err)
	}
	t.Writes = true
	if t.RootOurs, err = t.Journal.RootMarked(); err != nil {
		return inStep("the journal cannot be read", err)
	}
	info, err := t.Root.Stat()
	if err != nil {
		return inStep("it cannot be examined", err)
	}
	if !t.RootOurs && (t.Created || t.Name == "" && info.IsUnfinished()) { // IsUnfinished: a run was killed before it marked the root
		t.RootOurs = true
		if err := resume.MarkRoot(t.Root, name, r.opts.Sync != dest.SyncNone); err != nil {
			return inStep("the journal cannot be written", err)
		}
	}
	return t.probe(r)
}

// refuseJournal returns a refusal if err, the error of opening the journal, means that the run must
// not write to the destination.
func (t *target) refuseJournal(err error) error {
	switch {
	case errors.Is(err, fsys.ErrLocked):
		t.LeaveMade() // the other run uses them
		return failure.Refuse("another sealift is at work in %s", quoteName(t.Given))
	case errors.As(err, new(*resume.PlanError)):
		return failure.Refuse("destination %s: %s; if that directory is lost, sealift merge --abandon %s ends it", quoteName(t.Given), err, quoteName(t.Given))
	case errors.Is(err, resume.ErrNotPlanned):
		return failure.Refuse("destination %s: %s", quoteName(t.Given), err.Error())
	}
	return fmt.Errorf("the journal cannot be made in it: %w", err)
}

// probe finds out what the root's file system can do, and how it is flushed. Those mounted below
// are probed when their first directory is opened.
func (t *target) probe(r *run) error {
	info, err := t.Root.Stat()
	if err != nil {
		return inStep("it cannot be examined", err)
	}
	t.ID = info.ID
	var probe *fsys.Pending
	if t.Log != nil && fsys.WritesMoveTimes { // other tasks have to wait while a task creates or removes an entry of the root
		probe = t.Log.Clock()
	}
	err = t.FileSystems.Open(dest.Settings{
		Rules: &r.metadata.Rules, Sync: r.opts.Sync, DryRun: r.opts.DryRun, File: t.Name != "",
		SharesSyncErrors: r.opts.sharesSyncErrors, Report: func(kind string, err error) { t.Warn(kind, err) },
	}, t.Root, info, probe)
	return inStep("no file can be made in it", err)
}

// leaveAsFound removes what this run made at a destination that was dropped before anything
// was copied to it. The root must not stay without the record that this run created it: no later
// run would give it the source's metadata.
func (t *target) leaveAsFound(r *run) {
	t.CloseLogs()
	t.Earlier, t.Log = nil, nil
	t.undo(r)
	if t.Journal != nil {
		t.Journal.Close()
		t.Journal, t.Writes = nil, false
	}
	t.records = record.Books{}
}

// undo removes what open has created, when nothing will be copied.
func (t *target) undo(r *run) {
	t.records.Close()
	if t.Journal != nil {
		if r.rules.planned || !t.Created && (t.RootOurs || t.Journal.HoldsLogs()) {
			return
		}
		_ = t.Journal.Remove()
		t.Journal.Close()
	}
	t.RemoveMade()
}
