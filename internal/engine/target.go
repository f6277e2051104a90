package engine

import (
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// targets are the destinations of a run.
type targets []*target

// target is one destination of a run.
type target struct {
	*dest.Destination
	// rootOurs: this run, or an interrupted one that it continues, created root. Root then gets
	// the source's metadata.
	rootOurs bool
	rootMeta *metadata.Values // metadata of the source, when the root is ours and complete
	journal  *resume.Journal
	earlier  *resume.Reader // records of interrupted runs; nil in a dry run that finds no journal
	log      *resume.Writer // writer of the log; nil in a dry run

	behind           *pipe.Device  // limits the unwritten data of the device; nil for no limit
	group            *pipe.Group   // the unwritten data of closed files; nil if each file is synced separately
	flushAsked       chan struct{} // receives when group needs a flush
	checkpointsEnded chan struct{} // a channel that is closed after the last checkpoint
	checkpointers    sync.WaitGroup
	unmarked         bool        // true if the copy is incomplete without a marker: the journal stays
	finished         bool        // true if its manifests are written, and closeTarget can close it
	journalStays     bool        // true if finished, and closeTarget keeps the journal
	keepJournal      atomic.Bool // true if something was not synced, or not removed: the journal stays

	records record.Books // records that the run writes about its files
	outer   *fsys.Dir    // the directory above the root that has the records; nil if that is the root
}

// place returns the name of the destination in package timing.
func (t *target) Place() timing.Place { return timing.Destination(t.Index) }

// isOwnWork reports whether have describes an entry that this run can have created. The run has just
// created an entry of that name. If the result is false, another user has replaced it by a directory,
// or by a link to a file outside. isOwnWork does not compare owners on file systems mounted below.
func (t *target) isOwnWork(have fsys.Info) bool {
	return (have.Kind == fsys.Directory || have.Nlink <= 1) && (have.UID == t.owner() || have.ID.Dev != t.ID.Dev)
}

// owner returns the user that new files at the destination belong to.
func (t *target) owner() uint32 {
	if t.log == nil { // a dry run has no log
		uid, _ := fsys.Identity()
		return uid
	}
	return t.log.Owner
}

// closeLogs closes the log and those of interrupted runs. It may be called again.
func (t *target) closeLogs() {
	if t.log != nil {
		t.log.Close()
	}
	if t.earlier != nil {
		t.earlier.Close()
	}
}

// flush flushes to the device everything that was written.
func (t *target) flush() error {
	if t.FileSystems.Sync == dest.SyncNone {
		return nil
	}
	whole, err := t.FileSystems.Flush(&t.SyncList)
	if whole || err != nil {
		return err
	}
	if err := t.Root.Sync(); err != nil {
		return err
	}
	return t.SyncMade()
}

// conflict reports an entry that is left unchanged at one destination because of a conflict.
func (t *target) conflict(path string, c *policy.Conflict) {
	t.Report(event.Event{Kind: event.Conflict, Path: path, Target: t.Given, Err: c, Hint: c.Hint(), Next: c.Next})
}
