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

// checkEvery is the time between two checks whether a checkpoint is due.
const checkEvery = 50 * time.Millisecond

// makeCheckpoints makes the checkpoints of one destination until checkpointsEnded is closed:
// when they are due, and when its group of small files asks for a flush.
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
				t.group.Leave() // no worker must wait for its bytes
			}
			continue
		}
		if !asked && !t.log.Due(now) {
			continue
		}
		clock.At(timing.Flush, t.place())
		if err := t.checkpoint(r, asked); err != nil {
			t.dropUnwritten(r, "", err)
			r.reportUnwritten(t, err)
		}
		clock.Did(0)
		clock.At(timing.Idle, timing.None)
	}
}

// flushLog hands the log to the system every checkEvery, also while a checkpoint waits for
// the device.
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

// dropUnwritten drops a destination whose device did not take what was written. Data that
// no earlier checkpoint covers may be lost. It is not flushed again, because the kernel
// reports such an error once and success afterwards.
func (t *target) dropUnwritten(r *run, path string, err error) {
	t.unwritten.Store(true)
	t.drop(r, path, fmt.Errorf("what was written cannot be flushed to the device: %w", err))
}

// checkpoint flushes to the device what was copied so far, and records that it is there.
// flush asks for everything, whether there is something to record or not.
func (t *target) checkpoint(r *run, flush bool) error {
	err := t.log.Checkpoint(func(g *resume.Group) error {
		if err := t.flushGroup(g, flush); err != nil {
			return err
		}
		if t.behind != nil && !g.Empty() {
			// The kernel reports a writeback error once, and that may have been to the
			// device's goroutine.
			t.behind.Drain()
		}
		if t.unwritten.Load() {
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

// flushGroup makes the group durable.
func (t *target) flushGroup(g *resume.Group, flush bool) (err error) {
	whole := t.wholeFS && (g.Files > 0 || flush)
	if whole {
		// One flush of the file system is cheaper for many files; for a few it is not,
		// because it also writes other programs' data.
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

// syncNames makes the names of files durable that were synced separately.
func (t *target) syncNames(g *resume.Group) error {
	if err := t.syncDirs(g.Dirs); err != nil {
		return err
	}
	return t.syncDrives()
}

// syncDirs makes the names of files durable that were synced separately. in has a path in
// each of the directories.
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
		// A directory whose final mode denies access was synced before it got the mode.
		if err != nil && !fsys.NotPermitted(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sync syncs one file or directory: with --sync=end only as far as the drive, because
// syncDrives follows.
func (t *target) sync(o interface {
	Sync() error
	SyncToDrive() error
}) error {
	if t.drivesLater {
		return o.SyncToDrive()
	}
	return o.Sync()
}

// syncDrives flushes the drives' own caches after files were synced separately: once for
// many files, see docs/adr/0002.
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

// syncFS flushes the destination's file system, and those mounted in it.
func (t *target) syncFS() error {
	if err := t.syncMounts(); err != nil {
		return err
	}
	return syncFS(t.root)
}

// syncFS flushes one file system. FAT's own way does not flush the device's cache.
func syncFS(d *fsys.Dir) error {
	err := d.SyncFS()
	if err == nil && !d.KeepsChangeTime() {
		err = d.Sync()
	}
	return err
}

// syncMounts flushes the file systems below the root, where that reaches their devices.
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
