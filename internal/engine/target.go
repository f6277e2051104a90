package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
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
