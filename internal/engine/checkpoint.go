package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// checkEvery is the default interval at which a destination's goroutines check whether a
// checkpoint is due, and flush the log.
const checkEvery = 50 * time.Millisecond

// makeCheckpoints makes the checkpoints of one destination until checkpointsEnded is closed:
// whenever one is due, and whenever the limit of unwritten small files asks for a flush.
func (t *target) makeCheckpoints(r *run) {
	clock := r.sheet.Aside()
	defer clock.Stop()
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
		if t.isDropped() {
			if t.group != nil {
				t.group.Leave() // otherwise workers would wait for its bytes
			}
			continue
		}
		if !asked && !t.log.Due(now) {
			continue
		}
		clock.At(timing.Flush, t.place())
		if err := t.checkpoint(r, asked); err != nil {
			t.dropFlushFailed(r, "", err)
			r.reportUnflushed(t, err)
		}
		clock.Did(0)
		clock.At(timing.Idle, timing.None)
	}
}

// flushLog writes the buffered records of the log to its file every checkEvery. It runs in its
// own goroutine, so that a checkpoint that waits for the device does not delay it.
func (t *target) flushLog(r *run) {
	ticker := time.NewTicker(r.opts.checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.checkpointsEnded:
			return
		case <-ticker.C:
		}
		if !t.isDropped() {
			t.log.Flush()
			r.reportLog(t)
		}
	}
}

// dropFlushFailed drops a destination after its device failed to take written data. Data that no
// earlier checkpoint covers may be lost. The caller must not flush again: the kernel reports a
// writeback error once, and success afterwards.
func (t *target) dropFlushFailed(r *run, path string, err error) {
	t.flushFailed.Store(true)
	t.drop(r, path, &flushError{err})
}

// flushError is the error of a flush or sync that drops a destination.
type flushError struct{ err error }

func (e *flushError) Error() string {
	return fmt.Sprintf("written data cannot be flushed to the device: %v", e.err)
}

func (e *flushError) Unwrap() error { return e.err }

// checkpoint makes everything durable that was copied since the last checkpoint, and records
// that in the log. If flush is set, it flushes the file system even if there is nothing to record.
func (t *target) checkpoint(r *run, flush bool) error {
	err := t.log.Checkpoint(func(g *resume.Group) error {
		if err := t.flushGroup(g, flush); err != nil {
			return err
		}
		if t.behind != nil && !g.Empty() {
			// The kernel reports a writeback error once. The goroutine that writes to this
			// device may have received it.
			t.behind.Drain()
		}
		if t.flushFailed.Load() {
			return errReported
		}
		return nil
	})
	if errors.Is(err, errReported) {
		return nil
	}
	if err == nil {
		r.reportLog(t)
	}
	return err
}

// flushGroup makes the files and names of a group durable. If the group has files, or if flush
// is set, it flushes the file system where that is reliable. It syncs the other files
// separately.
func (t *target) flushGroup(g *resume.Group, flush bool) (err error) {
	whole := t.wholeFS && (g.Files > 0 || flush)
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
		err = t.syncFS()
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
func (t *target) syncNames(g *resume.Group) error {
	if err := t.syncDirs(g.Dirs); err != nil {
		return err
	}
	return t.syncDrives()
}

// syncDirs syncs directories. in maps an arbitrary key of each directory to a path in it,
// relative to the destination's root.
func (t *target) syncDirs(in map[string]string) error {
	if len(in) == 0 {
		return nil
	}
	finder := newFinder(t.root)
	defer finder.Close()
	for _, path := range in {
		dir, _, err := finder.Parent(path)
		if err == nil {
			err = t.sync(dir)
		}
		// A directory whose final mode denies access was already synced before it got that
		// mode.
		if err != nil && !fsys.NotPermitted(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sync syncs one file or directory. If the drives are flushed later (--sync=end), the data
// only has to reach the drive, because syncDrives follows.
func (t *target) sync(o syncer) error {
	if t.drivesLater {
		return o.SyncToDrive()
	}
	return o.Sync()
}

// syncer is a file or directory.
type syncer interface {
	Sync() error
	SyncToDrive() error
}

// sync syncs a file at a destination. If the file system returns errors about other files as well,
// a failure is a *flushError, for which failTarget drops the destination. No checkpoint lists files
// from then on, because the syncs of the other files succeed.
func (s *fileSystem) sync(o syncer) error {
	err := s.target.sync(o)
	if err != nil && s.sharesSyncErrors {
		s.target.flushFailed.Store(true)
		return &flushError{err}
	}
	return err
}

// syncDrives flushes the drives' write caches, once after many files were synced separately.
// See docs/adr/0002.
func (t *target) syncDrives() error {
	if !t.drivesLater {
		return nil
	}
	for _, s := range t.fileSystems.all() {
		if !s.syncEach {
			continue
		}
		if err := s.dir.SyncDrive(); err != nil {
			return err
		}
	}
	return nil
}

// syncFS flushes the file systems that are mounted below the destination's root, and then the
// root's own.
func (t *target) syncFS() error {
	if err := t.syncMounts(); err != nil {
		return err
	}
	return syncFS(t.root)
}

// syncFS flushes the file system of d. On FAT, syncfs does not flush the cache of the drive,
// so the directory is synced, too.
func syncFS(d *fsys.Dir) error {
	err := d.SyncFS()
	if err == nil && !d.KeepsChangeTime() {
		err = d.Sync()
	}
	return err
}

// syncMounts flushes each file system below the root where syncfs is reliable. The files of
// others are synced separately.
func (t *target) syncMounts() error {
	for _, s := range t.fileSystems.all() {
		if s.dir != t.root && s.dir.SyncFSReliable() {
			if err := syncFS(s.dir); err != nil {
				return err
			}
		}
	}
	return nil
}
