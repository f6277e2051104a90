package engine

import (
	"errors"
	"time"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// checkEvery is the default interval of the checks whether a checkpoint is due.
const checkEvery = 50 * time.Millisecond

// makeCheckpoints makes the checkpoints of one destination until checkpointsEnded is closed:
// whenever one is due, and whenever the limit of unwritten small files asks for a flush.
func (t *target) makeCheckpoints(r *reporter) {
	ticker := time.NewTicker(r.opts.checkEvery)
	defer ticker.Stop()
	for {
		asked, now := false, time.Time{}
		select {
		case <-t.checkpointsEnded:
			return
		case <-t.flushAsked:
			asked = true
		case now = <-ticker.C:
		}
		if t.Dropped() {
			if t.group != nil {
				t.group.Leave() // otherwise workers would wait for its bytes
			}
			continue
		}
		if !asked && !t.log.Due(now) {
			t.reportLog()
			continue
		}
		if err := t.checkpoint(asked); err != nil {
			t.DropUnflushed("", err)
		}
	}
}

// checkpoint makes everything durable that was copied since the last checkpoint, and records
// that in the log. If flush is set, it flushes the file system even if there is nothing to record.
func (t *target) checkpoint(flush bool) error {
	err := t.log.Checkpoint(func(g *resume.Group) error {
		if err := t.flushGroup(g, flush); err != nil {
			return err
		}
		if t.behind != nil && !g.Empty() {
			// The kernel reports a writeback error once. The goroutine that writes to this
			// device may have received it.
			t.behind.Drain()
		}
		if t.FileSystems.Failed.Load() {
			return dest.ErrReported
		}
		return nil
	})
	if errors.Is(err, dest.ErrReported) {
		return nil
	}
	if err == nil {
		t.reportLog()
	}
	return err
}

// flushGroup makes the files and names of a group durable. If the group has files, or if flush
// is set, it flushes the file system where that is reliable. It syncs the other files
// separately.
func (t *target) flushGroup(g *resume.Group, flush bool) (err error) {
	whole := t.FileSystems.Whole() && (g.Files > 0 || flush)
	if whole {
		// A flush of the file system is faster for many files. For a few it is slower, because
		// it also writes data of other programs.
		var mark int64
		if t.group != nil {
			mark = t.group.Mark()
		}
		if t.behind != nil {
			t.behind.Hold()
		}
		err = t.FileSystems.SyncFS()
		if t.behind != nil {
			t.behind.Release()
		}
		if t.group != nil {
			t.group.Flushed(mark)
		}
	}
	if err == nil {
		err = g.SyncParts(whole)
	}
	if err == nil {
		err = t.syncNames(g)
	}
	return err
}

// syncNames syncs the directories of a group and then the drives.
func (t *target) syncNames(g *resume.Group) error { return t.FileSystems.SyncDirs(g.Dirs) }
