package dest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// Journals are the records at a destination that let another run continue an interrupted one.
type Journals struct {
	Journal *resume.Journal // nil until the root is open, and in a dry run
	Earlier *resume.Reader  // records of interrupted runs; nil in a dry run that finds no journal
	Log     *resume.Writer  // writer of the log; nil in a dry run

	// RootOurs: this run, or an interrupted one that it continues, created Root. Root then gets
	// the source's metadata.
	RootOurs bool
	Keep     atomic.Bool // true if something was not synced, or not removed: the journal stays
}

// CloseLogs closes the log and those of interrupted runs. It may be called again.
func (j *Journals) CloseLogs() {
	if j.Log != nil {
		j.Log.Close()
	}
	if j.Earlier != nil {
		j.Earlier.Close()
	}
}

// NewSpill creates a temporary file in the journal for the lines of a manifest that exceed the
// memory limit.
func (j *Journals) NewSpill() (extsort.Spill, error) {
	p, err := j.Journal.Create()
	if err != nil {
		return nil, err
	}
	return &fsys.Spill{Pending: p}, nil
}

// WorthKeeping reports whether a stopped run leaves records that the next run needs.
func (j *Journals) WorthKeeping() bool { return j.Earlier.Interrupted || j.Log.Worked() }

// Owner returns the user that new files at the destination belong to.
func (j *Journals) Owner() uint32 {
	if j.Log == nil { // a dry run has no log
		uid, _ := fsys.Identity()
		return uid
	}
	return j.Log.Owner
}

// IsOwnWork reports whether have describes an entry that this run can have created. The run has just
// created an entry of that name. If the result is false, another user has replaced it by a directory,
// or by a link to a file outside. IsOwnWork does not compare owners on file systems mounted below.
func (d *Destination) IsOwnWork(have fsys.Info) bool {
	return (have.Kind == fsys.Directory || have.Nlink <= 1) && (have.UID == d.Owner() || have.ID.Dev != d.ID.Dev)
}

// RemoveLeftovers removes the temporaries of interrupted runs that this one has not
// continued.
func (d *Destination) RemoveLeftovers() error {
	find := fsys.NewFinder(d.Root, fsys.FinderLimit())
	defer find.Close()
	return d.Earlier.RemoveAllLeftovers(find)
}

// TimeStamps describes the time stamps of the file system of a device. ok is false if the run
// has not met that file system.
func (f *FileSystems) TimeStamps(device uint64) (stamps resume.TimeStamps, ok bool) {
	s := f.On(device)
	if s == nil {
		return stamps, false
	}
	return s.TimeStamps(), true
}

// TimeStamps describes the time stamps of the file system.
func (s *FileSystem) TimeStamps() resume.TimeStamps {
	return resume.TimeStamps{ChangeTimes: s.ChangeTimes, Granularity: s.Granularity, Slack: s.Slack}
}

// ReportLog reports, once, that the log has failed.
func (d *Destination) ReportLog() {
	err := d.Log.Failure()
	inPlan := err != nil && d.Log.Clock() != nil // the log of a task, on the file system of the plan
	if inPlan {
		err = fmt.Errorf("the log of the task, in the plan, cannot be written: %w", err)
	}
	switch {
	case err == nil:
	case inPlan && fsys.DestinationLost(err):
		d.Drop("", errors.New(err.Error())) // Drop adds the free space of the destination to an error that wraps ENOSPC
	case fsys.DestinationLost(err):
		d.Drop("", err)
	case !inPlan && d.FileSystems.Root() != nil && d.FileSystems.Root().SharesSyncErrors(): // the error may be about the files that the log lists
		d.DropUnflushed("", err)
	case !d.Dropped():
		if gone, cause := d.IsGone(err); gone && !inPlan {
			d.Drop("", cause)
			return
		}
		d.FailEnd(failure.StageJournal, err)
	}
}
