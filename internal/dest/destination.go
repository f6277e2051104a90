package dest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// Destination is one destination of a run. It reports what goes wrong there. Several goroutines may
// call the methods that report.
type Destination struct {
	route.Destination
	Index  int
	Root   *fsys.Dir // root of the destination; nil in a dry run if it does not exist
	ID     fsys.ID   // identity of Root
	Handle *fsys.Handle

	Created bool     // true if this run has created Root
	Writes  bool     // true if the run writes here: it has a journal
	made    []string // the directories that this run has created, Root and its parents, outermost first
	mode    uint32   // mode of Root, which GiveBack restores
	taken   bool     // true if Root was read-only and was made writable

	FileSystems FileSystems
	SyncList    SyncList // list of paths that a flush may sync one by one
	Space       Space
	Journals
	flusher
	Backups  *Backups // directory of replaced files; nil if they are not kept
	Progress counters.Destination

	report func(event.Event)
	onDrop func()
	totals *counters.Set // counters of the source

	lost         atomic.Pointer[error] // the reason why the destination was dropped
	deviceFailed atomic.Bool           // true if FailEnd has reported that the device failed
	warned       sync.Map              // kinds of warnings that were reported → true
}

// New returns a destination that is not open. report gets events of any goroutine. onDrop is called
// when the destination is dropped. source has the totals of the source.
func New(d route.Destination, index int, report func(event.Event), onDrop func(), source *counters.Set) *Destination {
	return &Destination{Destination: d, Index: index, report: report, onDrop: onDrop, totals: source}
}

// Place returns the name of the destination in package timing.
func (d *Destination) Place() timing.Place { return timing.Destination(d.Index) }

// Report reports an event.
func (d *Destination) Report(e event.Event) { d.report(e) }

// Lost returns why the destination was dropped. It is nil if it was not.
func (d *Destination) Lost() error {
	if lost := d.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// HasWarned reports whether Warn was called with the kind.
func (d *Destination) HasWarned(kind string) bool {
	_, has := d.warned.Load(kind)
	return has
}

// ErrReported ends a step because of an error that was reported.
var ErrReported = errors.New("reported")

// Drop stops the run from writing to the destination, and reports why, once.
func (d *Destination) Drop(path string, err error) {
	err = d.Space.Explain(err, d.Root, path, d.Created, d.totals)
	if d.lost.CompareAndSwap(nil, &err) {
		text := err.Error()
		d.Progress.Dropped.Store(&text)
		d.report(event.Event{Kind: event.DestinationLost, Path: path, Target: d.Given, Err: err})
		d.onDrop()
	}
}

// IsGone reports whether err, which an operation in the destination returned, means that the whole
// destination is lost. The error number is not enough: XFS that has shut down returns the same
// number as a bad sector, and a removed destination the same as a removed file.
func (d *Destination) IsGone(err error) (gone bool, cause error) {
	failed := fsys.DeviceFailed(err)
	switch {
	case fsys.DestinationLost(err):
		return true, err
	case !d.Writes || !failed && !errors.Is(err, fs.ErrNotExist) && !fsys.NotPermitted(err):
		return false, err // a dry run drops no destination
	case d.CheckName() != nil || failed && !d.canCreate():
		return true, fmt.Errorf("%w, and nothing can be made there any more", err)
	}
	return false, err
}

// canCreate reports whether a file can be created in the destination.
func (d *Destination) canCreate() bool {
	_, err := d.Root.OwnerOfNew()
	return err == nil
}

// Dropped reports whether the run has stopped writing to the destination.
func (d *Destination) Dropped() bool { return d.lost.Load() != nil }

// Warn reports metadata that the destination does not hold, once for each kind.
func (d *Destination) Warn(kind string, err error) { d.WarnOf(kind, "", err) }

// WarnOf is Warn with the path of an entry.
func (d *Destination) WarnOf(kind, path string, err error) {
	if _, again := d.warned.LoadOrStore(kind, true); !again {
		d.report(event.Event{Kind: event.Warning, Path: path, Target: d.Given, Err: err})
	}
}

// FailEnd reports an error that concerns a whole destination. A failed device, or one that became
// read-only, is reported only once: here, or when the destination is dropped.
func (d *Destination) FailEnd(stage failure.Stage, err error) {
	if fsys.DeviceFailed(err) {
		lost := d.lost.Load()
		if lost != nil && fsys.DeviceFailed(*lost) || d.deviceFailed.Swap(true) {
			return
		}
	}
	if lost := d.lost.Load(); lost != nil && fsys.ReadOnly(err) && fsys.ReadOnly(*lost) {
		return
	}
	d.report(event.OfFile(event.Failed, "", d.Given, stage, err))
}

// Fail reports an error at one destination, and drops the destination if the error
// concerns more than the entry.
func (d *Destination) Fail(path string, stage failure.Stage, err error) {
	if d.Dropped() || errors.Is(err, ErrReported) {
		return
	}
	if unflushed, ok := errors.AsType[*FlushError](err); ok {
		d.Drop(path, unflushed)
		return
	}
	if gone, err := d.IsGone(err); gone {
		d.Drop(path, err)
		return
	}
	making := stage == failure.StageCreate || stage == failure.StageCommit
	if name := path[strings.LastIndexByte(path, '/')+1:]; making && fsys.NameRefused(name, err) {
		err = fmt.Errorf("the destination does not accept this name: %w", err)
	}
	d.report(event.OfFile(event.Failed, path, d.Given, stage, err))
}

// Mismatch reports a file at a destination whose content does not match its expected digest.
func (d *Destination) Mismatch(path string, err error) {
	d.report(event.OfFile(event.Mismatch, path, d.Given, failure.StageVerify, err))
}

// DropUnflushed drops a destination after its device failed to take written data. Data that no
// earlier checkpoint covers may be lost. The caller must not flush again: the kernel reports a
// writeback error once, and success afterwards.
func (d *Destination) DropUnflushed(path string, err error) {
	d.FileSystems.Failed.Store(true)
	d.Drop(path, &FlushError{Err: err})
}
