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

// tendEvery is the time between two checks whether a checkpoint is due.
const tendEvery = 50 * time.Millisecond

// tend makes the checkpoints of one destination, when they are due and when too
// much that only a flush of the file system writes is unwritten.
func (t *target) tend(r *run) {
	clock := r.sheet.Aside()
	defer clock.Stop()
	ticker := time.NewTicker(r.opts.tendEvery)
	defer ticker.Stop()
	for {
		asked, now := false, time.Time{}
		select {
		case <-t.untended:
			return
		case <-t.flushAsked:
			asked = true
		case now = <-ticker.C:
		}
		if t.isDropped() {
			if t.group != nil {
				t.group.Leave() // nobody is to wait for it
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

// writeDown keeps the log written, also while a checkpoint waits for the device.
func (t *target) writeDown(r *run) {
	ticker := time.NewTicker(r.opts.tendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.untended:
			return
		case <-ticker.C:
		}
		if !t.isDropped() {
			t.log.Flush()
			r.reportLog(t)
		}
	}
}

// dropUnwritten gives up a destination that did not take what was written. What
// was not in a checkpoint before is not known to be there; it is not forced again,
// because the system tells such an error once, and then says that all is well.
func (t *target) dropUnwritten(r *run, path string, err error) {
	t.unwritten.Store(true)
	t.drop(r, path, fmt.Errorf("what was written cannot be forced to the device: %w", err))
}

// checkpoint flushes to the device what was copied so far, and records that it is there.
// flush asks for everything, whether there is something to record or not.
func (t *target) checkpoint(r *run, flush bool) error {
	err := t.log.Checkpoint(func(g *resume.Group) error {
		if err := t.force(g, flush); err != nil {
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

// force makes the group durable.
func (t *target) force(g *resume.Group, flush bool) (err error) {
	whole := t.wholeFS && (g.Files > 0 || flush)
	if whole {
		// Completely, because many files are meant; a few are synced separately,
		// because the file system has other programs' data, too.
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
		err = t.forceNames(g)
	}
	return err
}

// forceNames makes the names of files durable that were synced separately.
func (t *target) forceNames(g *resume.Group) error {
	if err := t.syncDirs(g.Dirs); err != nil {
		return err
	}
	return t.syncDrives()
}

// syncDirs forces the names of files that were forced each by itself. in has a
// path in each of the directories.
func (t *target) syncDirs(in map[string]string) error {
	if len(in) == 0 {
		return nil
	}
	look := newFinder(t.root)
	defer look.Close()
	for _, path := range in {
		dir, _, err := look.Parent(path)
		if err == nil {
			err = t.sync(dir)
		}
		// One that its final mode has closed to us was forced before that.
		if err != nil && !fsys.NotPermitted(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sync forces a file or a directory by itself: with --sync=end as far as the drive,
// because syncDrives follows.
func (t *target) sync(o interface {
	Sync() error
	SyncToDrive() error
}) error {
	if t.drivesLater {
		return o.SyncToDrive()
	}
	return o.Sync()
}

// syncDrives flushes the drives' own caches of what was forced each by itself: once for
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
