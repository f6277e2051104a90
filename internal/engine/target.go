package engine

import (
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
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
	// rootOurs: this run, or an interrupted one that it continues, created root. Root then gets
	// the source's metadata.
	rootOurs bool
	rootMeta *metadata.Values // the source's, when the root is ours and complete
	rootMode uint32           // what giveBack restores
	tookOver bool             // root was read-only and was made writable
	journal  *resume.Journal
	log      *resume.Log // nil in a dry run that finds no journal

	behind           *pipe.Device  // limits the unwritten data of the device; nil for no limit
	group            *pipe.Group   // the unwritten data of closed files; nil if each file is synced separately
	flushAsked       chan struct{} // receives when group needs a flush
	checkpointsEnded chan struct{} // closed when no more checkpoints are made
	checkpointers    sync.WaitGroup
	deviceFailed     atomic.Bool // failEnd has reported that the device failed
	unmarked         bool        // the copy is incomplete, and no marker says so: the journal stays
	finished         bool        // its manifests are written, and closeTarget can close it
	journalStays     bool        // if finished: closeTarget keeps the journal
	planned          bool        // the run belongs to a plan; only its merge may remove the journal
	planIndex        int         // index of the destination in that plan
	madeByPlan       bool        // a task of the plan that is merged has made root
	keepJournal      atomic.Bool // something was not synced, or not removed: the journal stays

	syncList    dest.SyncList    // what flush may sync one by one
	fileSystems dest.FileSystems // found so far: root's, and those that are mounted below it

	id fsys.ID // of root

	leftAlone *nameSet // paths of conflicts of the attempt whose finish record a task replaces; nil for none

	catalog *catalog.Catalog // nil in a dry run into a directory that does not exist
	names   *catalog.Catalog // the same, never nil; only for the names of manifests. nil in a task
	backup  *backup          // nil if replaced files are not kept
	bag     targetBag

	space dest.Space
	shown counters.Destination // for the progress display

	report func(event.Event)     // as run.report
	onDrop func()                // called when the destination is dropped
	totals *counters.Set         // of the source
	lost   atomic.Pointer[error] // why it was dropped
	warned kindSet               // warnings that were reported: kinds of metadata, and kindSuspect
}

// place returns the name of the destination in package timing.
func (t *target) place() timing.Place { return timing.Destination(t.index) }

// isOwnWork reports whether have describes an entry that this run can have created. The run has just
// created an entry of that name. If the result is false, another user has replaced it by a directory,
// or by a link to a file outside. isOwnWork does not compare owners on file systems mounted below.
func (t *target) isOwnWork(have fsys.Info) bool {
	return (have.Kind == fsys.Directory || have.Nlink <= 1) && (have.UID == t.log.Owner || have.ID.Dev != t.id.Dev)
}

// flush flushes to the device everything that was written.
func (t *target) flush() error {
	if t.fileSystems.Sync == dest.SyncNone {
		return nil
	}
	whole, err := t.fileSystems.Flush(&t.syncList)
	if whole || err != nil {
		return err
	}
	if err := t.root.Sync(); err != nil {
		return err
	}
	return t.syncMadeDirs()
}

// syncMadeDirs syncs the parents of the directories that were created for the destination, so that
// their names are durable.
func (t *target) syncMadeDirs() error {
	for dir := t.Dir; dir != t.Anchor; {
		dir = filepath.Dir(dir)
		parent, err := t.FS.OpenTrustedRoot(dir)
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

// checkName returns an error if the destination's path now leads to another directory or to none.
// The destination was then renamed, removed or unmounted, or another file system is mounted over it.
func (t *target) checkName() error {
	have, err := t.root.Stat()
	if err != nil {
		return err
	}
	d, err := t.FS.OpenTrustedRoot(t.Dir)
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
