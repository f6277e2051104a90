package dest

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
)

// Opening says how a run opens its destinations.
type Opening struct {
	Settings // for the file systems; File and Report are set for each destination
	// Planned: the run belongs to a plan, which has made the root. The journal stays.
	Planned bool
	Handles func() *fsys.Handles
	Journal func(root *fsys.Dir, name string) (*resume.Journal, error)
}

// OpenRoot creates the destination's directory if it does not exist. It locks the directory and probes
// its file system.
func (d *Destination) OpenRoot(o *Opening) error {
	switch {
	case d.Exists:
		return d.openExisting(o)
	case o.DryRun:
		return nil
	case o.Planned:
		return d.refuseJournal(resume.ErrNotPlanned)
	}
	return d.openNew(o)
}

// openNew creates the directory and opens it. If another run created the directory first, that run
// may remove it while it is empty. openNew then tries again.
func (d *Destination) openNew(o *Opening) error {
	for range maxAttempts {
		if err := d.Make(); err != nil {
			return fmt.Errorf("it cannot be made: %s", route.Reason(err))
		}
		err := d.openExisting(o)
		if !errors.Is(err, resume.ErrRootRemoved) {
			return err
		}
		d.Handle.Close()
		d.Root, d.Handle, d.Created = nil, nil, false
		d.leaveMade()
	}
	return resume.ErrRootRemoved
}

// openExisting locks the directory and probes its file system.
func (d *Destination) openExisting(o *Opening) error {
	var err error
	if d.Root == nil {
		if d.Root, err = d.Open(); err != nil {
			return failure.InStep("it cannot be opened", err)
		}
	}
	d.Handle = o.Handles().Root(d.Root)
	if o.DryRun {
		if mark, found, err := resume.ReadPlanMark(d.Root); d.Name == "" && (found || err != nil) {
			return d.refuseJournal(cmp.Or(err, error(&resume.PlanError{PlanMark: mark})))
		}
		return d.Probe(o)
	}
	if d.Name == "" {
		if err := d.TakeOver(); err != nil {
			return failure.InStep("it cannot be examined", err)
		}
	}
	name := resume.JournalName(d.Name)
	if d.Journal, err = o.Journal(d.Root, name); err != nil {
		return d.refuseJournal(err)
	}
	d.Writes = true
	if d.RootOurs, err = d.Journal.RootMarked(); err != nil {
		return failure.InStep("the journal cannot be read", err)
	}
	info, err := d.Root.Stat()
	if err != nil {
		return failure.InStep("it cannot be examined", err)
	}
	if !d.RootOurs && (d.Created || d.Name == "" && info.IsUnfinished()) { // IsUnfinished: a run was killed before it marked the root
		d.RootOurs = true
		if err := resume.MarkRoot(d.Root, name, o.Sync != SyncNone); err != nil {
			return failure.InStep("the journal cannot be written", err)
		}
	}
	return d.Probe(o)
}

// refuseJournal returns a refusal if err, the error of opening the journal, means that the run must
// not write to the destination.
func (d *Destination) refuseJournal(err error) error {
	switch {
	case errors.Is(err, fsys.ErrLocked):
		d.leaveMade() // the other run uses them
		return failure.Refuse("another sealift is at work in %s", quote.Name(d.Given))
	case errors.As(err, new(*resume.PlanError)):
		return failure.Refuse("destination %s: %s; if that directory is lost, sealift merge --abandon %s ends it", quote.Name(d.Given), err, quote.Name(d.Given))
	case errors.Is(err, resume.ErrNotPlanned):
		return failure.Refuse("destination %s: %s", quote.Name(d.Given), err.Error())
	}
	return fmt.Errorf("the journal cannot be made in it: %w", err)
}

// Probe finds out what the root's file system can do, and how it is flushed. Those mounted below
// are probed when their first directory is opened.
func (d *Destination) Probe(o *Opening) error {
	info, err := d.Root.Stat()
	if err != nil {
		return failure.InStep("it cannot be examined", err)
	}
	d.ID = info.ID
	var probe *fsys.Pending
	if d.Log != nil && fsys.WritesMoveTimes { // other tasks have to wait while a task creates or removes an entry of the root
		probe = d.Log.Clock()
	}
	s := o.Settings
	s.File, s.Report = d.Name != "", func(kind string, err error) { d.Warn(kind, err) }
	err = d.FileSystems.Open(s, d.Root, info, probe)
	return failure.InStep("no file can be made in it", err)
}

// LeaveAsFound removes what this run made at a destination that was dropped before anything
// was copied to it. The root must not stay without the record that this run created it: no later
// run would give it the source's metadata.
func (d *Destination) LeaveAsFound(planned bool) {
	d.CloseLogs()
	d.Earlier, d.Log = nil, nil
	d.Undo(planned)
	if d.Journal != nil {
		d.Journal.Close()
		d.Journal, d.Writes = nil, false
	}
}

// Undo removes what OpenRoot has created, when nothing will be copied.
func (d *Destination) Undo(planned bool) {
	if d.Journal != nil {
		if planned || !d.Created && (d.RootOurs || d.Journal.HoldsLogs()) {
			return
		}
		_ = d.Journal.Remove()
		d.Journal.Close()
	}
	d.removeMade()
}
