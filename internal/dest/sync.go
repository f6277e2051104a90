package dest

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// FlushError is the error of a flush or sync after which the destination is dropped: written data may
// be lost. The caller must not flush again. The kernel reports a writeback error once, and success
// afterwards.
type FlushError struct{ Err error }

func (e *FlushError) Error() string {
	return fmt.Sprintf("written data cannot be flushed to the device: %v", e.Err)
}

func (e *FlushError) Unwrap() error { return e.Err }

// Syncer is a file or directory.
type Syncer interface {
	Sync() error
	SyncToDrive() error
}

// SyncOne syncs one file or directory. If the drives are flushed later (--sync=end), the data
// only has to reach the drive, because syncDrives follows.
func (f *FileSystems) SyncOne(o Syncer) error {
	if f.drivesLater {
		return o.SyncToDrive()
	}
	return o.Sync()
}

// SyncOne syncs a file. If the file system returns errors about other files as well, a failure is a
// *FlushError. No checkpoint lists files from then on, because the syncs of the other files succeed.
func (s *FileSystem) SyncOne(o Syncer) error {
	err := s.of.SyncOne(o)
	if err != nil && s.sharesSyncErrors {
		s.of.Failed.Store(true)
		return &FlushError{err}
	}
	return err
}

// SyncChanged is SyncOne, unless the file is flushed with the whole file system.
func (s *FileSystem) SyncChanged(o *fsys.File) error {
	if !s.SyncEach {
		return nil
	}
	return s.SyncOne(o)
}

// SharesSyncErrors reports whether a sync of one file returns errors about others.
func (s *FileSystem) SharesSyncErrors() bool { return s.sharesSyncErrors }

// SyncDirs syncs directories, and then the drives. in maps an arbitrary key of each directory to a path
// in it, relative to the destination's root.
func (f *FileSystems) SyncDirs(in map[string]string) error {
	if len(in) > 0 {
		finder := fsys.NewFinder(f.root, fsys.FinderLimit())
		defer finder.Close()
		for _, path := range in {
			dir, _, err := finder.Parent(path)
			if err == nil {
				err = f.SyncOne(dir)
			}
			// A directory whose final mode denies access was already synced before it got that
			// mode.
			if err != nil && !fsys.NotPermitted(err) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return f.syncDrives()
}

// syncDrives flushes the drives' write caches, once after many files were synced separately.
// See docs/adr/0002.
func (f *FileSystems) syncDrives() error {
	if !f.drivesLater {
		return nil
	}
	for _, s := range f.all() {
		if !s.SyncEach {
			continue
		}
		if err := s.dir.SyncDrive(); err != nil {
			return err
		}
	}
	return nil
}

// SyncFS flushes the file systems that are mounted below the destination's root, and then the
// root's own.
func (f *FileSystems) SyncFS() error {
	if err := f.syncMounts(); err != nil {
		return err
	}
	return syncFS(f.root)
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
func (f *FileSystems) syncMounts() error {
	for _, s := range f.all() {
		if s.dir != f.root && s.dir.SyncFSReliable() {
			if err := syncFS(s.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush flushes to the device what was written, except the root directory itself. list has what can be
// synced separately. The run needs this flush even if every file was synced separately, because
// symbolic links cannot be synced. If whole is true, the root was flushed, too.
func (f *FileSystems) Flush(list *SyncList) (whole bool, err error) {
	if f.root == nil { // the destination was dropped while it was examined
		return false, nil
	}
	if !f.File && f.root.SyncFSReliable() {
		done, err := list.sync(f.root)
		if err != nil {
			return false, err
		}
		if !done {
			return true, f.SyncFS()
		}
	}
	return false, f.syncMounts()
}
