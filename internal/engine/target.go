package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// target is one destination of a run.
type target struct {
	route.Destination
	index   int
	root    *fsys.Dir // nil in a dry run if it does not exist
	handle  *fsys.Handle
	created bool     // this run made root
	made    []string // the directories that this run made, root and its parents, outermost first
	// rootOurs: this run made root, or one that was interrupted: its metadata is
	// to be the source's.
	rootOurs bool
	rootMeta *metadata // the source's, when the root is ours and complete
	rootMode uint32    // what giveBack restores
	tookOver bool      // root was read-only and was made writable
	journal  *resume.Journal
	log      *resume.Log // nil in a dry run that finds no journal

	behind           *pipe.Device  // nil where nothing bounds what is unwritten
	group            *pipe.Group   // of it: files that are closed already
	flushAsked       chan struct{} // by the group
	checkpointsEnded chan struct{} // closed when no more checkpoints are made
	checkpointers    sync.WaitGroup
	deviceFailed     atomic.Bool // which was reported at the end
	unwritten        atomic.Bool // the device did not take something: nothing is known to be there
	warnedSuspect    bool        // of files that an interrupted run has left; guarded by mu
	unmarked         bool        // the copy is incomplete, and no marker says so: the journal stays
	finished         bool        // its manifests are written, and closeTarget can close it
	journalStays     bool        // then
	planned          bool        // a plan is at work there, whose journal only its merge may remove
	planIndex        int         // in that plan
	madeByPlan       bool        // a task of the plan that is merged has made root
	keepLog          atomic.Bool // something was not synced, or not removed: the journal stays

	durables    durables
	fileSystems fileSystems // those met: root's and what is mounted below
	system      *fileSystem // root's; nil in a dry run if root does not exist

	wholeFS     bool   // flush file systems completely, where syncfs is reliable
	drivesLater bool   // what is synced separately waits for syncDrives
	dev         uint64 // the device number of root

	catalog *catalog.Catalog // nil in a dry run
	backup  *backup          // nil if replaced files are not kept
	bag     targetBag

	present, left    int64        // regular files that are there, and that are conflicts; the collector's
	ignored          int64        // of those that are there, those that its history leaves out; the collector's
	toVerify         amount       // what verifying will read; the collector's
	digests          hash.Digests // of the file, in a copy of a single file; the collector's
	verified, cached int64        // files read back and found equal; those of them that perhaps came from memory

	space        space
	createdBytes atomic.Int64 // of files that this run has created
	presentBytes atomic.Int64 // of files that are there, those included

	counts Counts               // the collector's
	copied Copied               // the same
	shown  counters.Destination // to the user, while the copy runs

	lost   atomic.Pointer[dropError]
	mu     sync.Mutex
	warned map[string]bool // kinds of metadata that were warned about
}

// place is the destination as package timing names it.
func (t *target) place() timing.Place { return timing.Destination(t.index) }

type dropError struct{ err error }

// makeDirs is os.MkdirAll, except that it returns the directories that it made,
// outermost first, also with an error. If a name exists and cannot be read, the error says
// why, where os.MkdirAll says only that it exists.
func makeDirs(path string) (made []string, err error) {
	err = os.Mkdir(path, 0o777) //nolint:gosec // the umask decides
	if errors.Is(err, fs.ErrNotExist) && parentOf(path) != path {
		if made, err = makeDirs(parentOf(path)); err != nil {
			return made, err
		}
		err = os.Mkdir(path, 0o777) //nolint:gosec // as above
	}
	if err == nil {
		return append(made, path), nil
	}
	info, why := os.Stat(path)
	if why == nil && info.IsDir() {
		return made, nil
	}
	if errors.Is(err, fs.ErrExist) && why != nil {
		if _, gone := os.Lstat(path); gone != nil || !errors.Is(why, fs.ErrNotExist) { // else a link to nothing
			err = why
		}
	}
	return made, err
}

// open makes the destination's directory if need be, locks it and finds out
// what its file system can do.
func (t *target) open(r *run) error {
	if r.opts.DryRun {
		if !t.Exists {
			return nil
		}
	} else if !t.Exists && t.planned {
		return failure.Refuse("destination %s: %s", quote.Name(t.Given), resume.ErrNotPlanned.Error())
	} else if !t.Exists {
		return t.openNew(r)
	}
	return t.openExisting(r)
}

// openNew makes the directory and opens it. Another run may remove the directory that
// it made, as long as that is empty, so this run makes it again.
func (t *target) openNew(r *run) error {
	for range mostAttempts {
		if err := t.makeRoot(); err != nil {
			return fmt.Errorf("it cannot be made: %s", route.Reason(err))
		}
		err := t.openExisting(r)
		if !errors.Is(err, resume.ErrRootRemoved) {
			return err
		}
		t.handle.Close()
		t.root, t.handle, t.created, t.made = nil, nil, false, nil
	}
	return resume.ErrRootRemoved
}

// mostAttempts is how often a step is tried again that another run has interfered with.
// Each failure needs another run that begins or ends at that instant.
const mostAttempts = 100

// openExisting locks the directory and finds out what its file system can do.
func (t *target) openExisting(r *run) error {
	var err error
	if t.root == nil {
		if t.root, err = t.Open(); err != nil {
			return err
		}
	}
	t.handle = r.newHandles().Root(t.root)
	if r.opts.DryRun {
		if mark, found, err := resume.ReadPlanMark(t.root); t.Name == "" && (found || err != nil) {
			return t.refuseJournal(cmp.Or(err, error(&resume.PlanError{PlanMark: mark})))
		}
		return t.probe(r)
	}
	if t.Name == "" {
		if err := t.takeOver(); err != nil {
			return err
		}
	}
	name := resume.JournalName(t.Name)
	if t.journal, err = r.mode.openJournal(t.root, name); err != nil {
		return t.refuseJournal(err)
	}
	if t.created {
		t.rootOurs, err = true, resume.MarkRoot(t.root, name, r.opts.Sync != SyncNone)
	} else {
		t.rootOurs, err = t.journal.RootMarked()
	}
	if err != nil {
		return err
	}
	t.rootOurs = t.rootOurs || t.madeByPlan
	t.drivesLater = r.opts.Sync == SyncEnd
	t.wholeFS = r.opts.Sync != SyncFile && t.Name == "" && t.root.SyncFSReliable()
	return t.probe(r)
}

// refuseJournal makes a refusal of the error with which the journal was opened, if it is one.
func (t *target) refuseJournal(err error) error {
	if errors.Is(err, fsys.ErrLocked) {
		t.leaveToOther()
		return failure.Refuse("another sealift is at work in %s", quote.Name(t.Given))
	}
	if planned, ok := errors.AsType[*resume.PlanError](err); ok {
		return failure.Refuse("destination %s: %s", quote.Name(t.Given), planned.Error())
	}
	if errors.Is(err, resume.ErrNotPlanned) {
		return failure.Refuse("destination %s: %s", quote.Name(t.Given), err.Error())
	}
	return fmt.Errorf("the journal cannot be made in it: %w", err)
}

// probe finds out what the root's file system can do. Those mounted below are probed
// when their first directory is opened.
func (t *target) probe(r *run) error {
	info, err := t.root.Stat()
	if err != nil {
		return err
	}
	t.dev = info.ID.Dev
	t.system, err = t.meet(r, t.root, info)
	return err
}

// takeOver makes a read-only root of ours writable for the run, as other directories
// are made: the copy of a read-only directory, for instance.
func (t *target) takeOver() error {
	info, err := t.root.Stat()
	if err == nil && info.Mode&0o300 != 0o300 && !t.root.Writable() && t.root.Chmod(info.Mode|0o700) == nil {
		t.tookOver, t.rootMode = true, info.Mode
	}
	return err
}

// giveBack undoes takeOver.
func (t *target) giveBack(r *run) {
	if !t.tookOver {
		return
	}
	t.tookOver = false
	if err := t.root.Chmod(t.rootMode); err != nil {
		r.failEnd(t, failure.StageMetadata, err)
	}
}

// makeRoot makes the destination's directory, with its parents, and opens just that
// one: a symbolic link that has its name is refused. Other runs may make and remove the
// same directories at the same time: those that exist are used.
func (t *target) makeRoot() error {
	err := fs.ErrNotExist
	for n := 0; n < mostAttempts && errors.Is(err, fs.ErrNotExist); n++ {
		t.removeMade()
		err = t.tryRoot()
	}
	return err
}

func (t *target) tryRoot() error {
	var err error
	if t.made, err = makeDirs(parentOf(t.Dir)); err != nil {
		return err
	}
	parent, err := t.FS.OpenRoot(parentOf(t.Dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(t.Dir)
	exists := parent.Mkdir(name)
	if exists != nil && !errors.Is(exists, fs.ErrExist) {
		return exists
	}
	made := exists == nil
	root, err := parent.OpenDir(name)
	if err != nil {
		if fsys.IsSymlinkRefusal(err) {
			err = exists
		}
		return err
	}
	if made {
		t.made = append(t.made, t.Dir)
		if err = madeByUs(root); err == nil && t.Name != "" { // only a place for the file; the umask decides
			err = fsys.IgnoreRefusal(root.Chmod(0o777 &^ fsys.Umask()))
		}
	}
	if err != nil {
		root.Close()
		return err
	}
	t.root = root
	t.created = made && t.Name == "" // widened when its contents are complete
	return nil
}

// leaveToOther leaves what this run made to the run that has the lock. That run reads
// the mark in its journal before it ends; without it the root would keep mode 0700.
func (t *target) leaveToOther() {
	t.made = nil
	if !t.created {
		return
	}
	_ = resume.MarkRoot(t.root, resume.JournalName(t.Name), false)
}

// madeByUs returns an error if another user has put a directory in the place of the one
// that this run has just made. A new file shows which owner this run's files get: a server
// may map users.
func madeByUs(dir *fsys.Dir) error {
	p, err := dir.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	ours, err := p.Stat()
	if err != nil {
		return err
	}
	if have, err := dir.Stat(); err != nil || have.UID == ours.UID {
		return err
	}
	return errExchanged
}

// leaveAsFound removes what this run made at a destination that was dropped before anything
// was copied to it. If the root stayed without the mark that this run made it, it would
// never get the source's metadata.
func (t *target) leaveAsFound() {
	if t.log != nil {
		t.log.Close()
		t.log = nil
	}
	t.undo()
	if t.journal != nil {
		t.journal.Close()
		t.journal = nil
	}
	t.catalog = nil
}

// undo takes back what open has made, because nothing will be copied.
func (t *target) undo() {
	if t.catalog != nil {
		t.catalog.Close()
	}
	if t.journal != nil {
		if t.planned || !t.created && (t.rootOurs || t.journal.HoldsLogs()) {
			return
		}
		_ = t.journal.Remove()
		t.journal.Close()
	}
	t.removeMade()
}

// removeMade removes the directories that this run made, as far as they are empty.
func (t *target) removeMade() {
	for _, dir := range slices.Backward(t.made) {
		parent, err := t.FS.OpenRoot(parentOf(dir))
		if err != nil {
			break
		}
		_ = parent.RemoveDir(filepath.Base(dir)) // fails if another process has put something into it, or in its place
		parent.Close()
	}
	t.made = nil
}

// isOwnWork reports whether what was found under a name can be what this run has just
// made there, and not a link to a file outside, or a directory, that another user
// has put in its place. What is mounted below can have other owners.
func (t *target) isOwnWork(have fsys.Info) bool {
	return (have.Kind == fsys.Directory || have.Nlink <= 1) && (have.UID == t.log.Owner || have.ID.Dev != t.dev)
}

// drop stops the run from writing to the destination, and reports why, once. If no
// destination is left, the run ends.
func (t *target) drop(r *run, path string, err error) {
	err = r.withSpace(t, err)
	if t.lost.CompareAndSwap(nil, &dropError{err}) {
		text := err.Error()
		t.shown.Dropped.Store(&text)
		r.report(Event{Kind: EventTargetLost, Path: path, Target: t.Given, Err: err})
		r.targetsLeft.Add(-1)
		if r.targetsLeft.Load() == 0 {
			r.cancel(errNoTarget)
		}
	}
}

// isGone reports whether err, of something in the destination, concerns all of it.
// The error numbers do not show that: XFS that has shut down answers like a bad sector, and
// a removed destination like a file that another process has removed.
func (t *target) isGone(err error) (gone bool, cause error) {
	failed := fsys.DeviceFailed(err)
	switch {
	case fsys.DestinationLost(err):
		return true, err
	case t.journal == nil || !failed && !errors.Is(err, fs.ErrNotExist) && !fsys.NotPermitted(err):
		return false, err // without a journal it is a dry run
	case t.checkName() != nil || failed && !t.canCreate():
		return true, fmt.Errorf("%w, and nothing can be made there any more", err)
	}
	return false, err
}

// canCreate reports whether a file can be created in the destination.
func (t *target) canCreate() bool {
	p, err := t.root.Create(false)
	if err == nil {
		p.Abort()
	}
	return err == nil
}

func (t *target) isDropped() bool { return t.lost.Load() != nil }

// warn reports metadata that the destination does not hold, once for each kind.
func (t *target) warn(r *run, kind string, err error) {
	t.mu.Lock()
	warned := t.warned[kind]
	if t.warned == nil {
		t.warned = map[string]bool{}
	}
	t.warned[kind] = true
	t.mu.Unlock()
	if !warned {
		r.report(Event{Kind: EventWarning, Target: t.Given, Err: err})
	}
}

// flush flushes to the device everything that was written.
func (t *target) flush(r *run) error {
	if r.opts.Sync == SyncNone {
		return nil
	}
	// Also if every file was synced separately: symbolic links cannot be.
	if t.Name == "" && t.root.SyncFSReliable() {
		few, err := t.durables.sync(t.root)
		if err != nil {
			return err
		}
		if !few {
			return t.syncFS()
		}
	}
	if err := t.syncMounts(); err != nil {
		return err
	}
	if err := t.root.Sync(); err != nil {
		return err
	}
	return t.syncWay()
}

// syncWay flushes the names of the directories that were made for the destination.
func (t *target) syncWay() error {
	for dir := t.Dir; dir != t.Anchor; {
		dir = parentOf(dir)
		parent, err := t.FS.OpenRoot(dir)
		if err != nil {
			return err
		}
		err = parent.Sync()
		parent.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// checkName returns an error if the destination's name has come to lead elsewhere: it
// was renamed, removed, unmounted, or something was mounted over it.
func (t *target) checkName() error {
	have, err := t.root.Stat()
	if err != nil {
		return err
	}
	d, err := t.FS.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	now, err := d.Stat()
	if err == nil && now.ID != have.ID {
		err = fsys.ErrMoved
	}
	return err
}

func parentOf(dir string) string { return filepath.Dir(filepath.Clean(dir)) }
