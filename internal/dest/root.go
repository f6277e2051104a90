package dest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// This file creates the root of a destination, and removes it if nothing is copied.

// TakeOver makes a read-only root writable for the run. destDir.inspect does the same for other
// directories. The root can be the copy of a read-only directory.
func (d *Destination) TakeOver() error {
	info, err := d.Root.Stat()
	if err == nil && info.Mode&0o300 != 0o300 && !d.Root.Writable() && d.Root.Chmod(info.Mode|0o700) == nil {
		d.taken, d.mode = true, info.Mode
	}
	return err
}

// GiveBack undoes TakeOver.
func (d *Destination) GiveBack() {
	if !d.taken {
		return
	}
	d.taken = false
	if err := d.Root.Chmod(d.mode); err != nil {
		d.FailEnd(failure.StageMetadata, err)
	}
}

// maxAttempts limits the attempts at a step in which another run can interfere. Each failed
// attempt needs another run that begins or ends at the same instant.
const maxAttempts = 100

// Make creates the destination's directory and its parents. It opens the directory that it
// created, and refuses a symbolic link that replaced it. Other runs may create and remove the same
// directories at the same time: Make uses those that exist.
func (d *Destination) Make() error {
	err := fs.ErrNotExist
	for n := 0; n < maxAttempts && errors.Is(err, fs.ErrNotExist); n++ {
		d.removeMade()
		err = d.tryRoot()
	}
	return err
}

func (d *Destination) tryRoot() error {
	var err error
	if d.made, err = fsys.MakeDirs(filepath.Dir(d.Dir)); err != nil {
		return err
	}
	parent, err := d.FS.OpenTrustedRoot(filepath.Dir(d.Dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(d.Dir)
	mkdir := parent.MkdirUnfinished
	if d.Name != "" { // no later step changes the directory of a single file
		mkdir = parent.Mkdir
	}
	exists := mkdir(name)
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
		d.made = append(d.made, d.Dir)
		if err = madeByUs(root); err == nil && d.Name != "" { // the directory of a single file keeps the mode that the umask gives
			err = fsys.IgnoreRefusal(root.Chmod(0o777 &^ fsys.Umask()))
		}
	}
	if err != nil {
		root.Close()
		return err
	}
	d.Root = root
	d.Created = made && d.Name == "" // its mode is widened when its content is complete
	return nil
}

// madeByUs returns an error if another user has replaced the directory that this run has just
// created. It compares the owner of dir with that of a new file, because a server may map users.
func madeByUs(dir *fsys.Dir) error {
	ours, err := dir.OwnerOfNew()
	if err != nil {
		return err
	}
	if have, err := dir.Stat(); err != nil || have.UID == ours {
		return err
	}
	return failure.ErrExchanged
}

// removeMade removes the empty directories among those that this run created.
func (d *Destination) removeMade() {
	for _, dir := range slices.Backward(d.made) {
		parent, err := d.FS.OpenTrustedRoot(filepath.Dir(dir))
		if err != nil {
			break
		}
		_ = parent.RemoveDir(filepath.Base(dir)) // fails if another process has used or replaced the directory
		parent.Close()
	}
	d.made = nil
}

// SyncMade syncs the parents of the directories that were created for the destination, so that
// their names are durable.
func (d *Destination) SyncMade() error {
	for dir := d.Dir; dir != d.Anchor; {
		dir = filepath.Dir(dir)
		parent, err := d.FS.OpenTrustedRoot(dir)
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

// CheckName returns an error if the destination's path now leads to another directory or to none.
// The destination was then renamed, removed or unmounted, or another file system is mounted over it.
func (d *Destination) CheckName() error {
	have, err := d.Root.Stat()
	if err != nil {
		return err
	}
	named, err := d.FS.OpenTrustedRoot(d.Dir)
	if err != nil {
		return err
	}
	defer named.Close()
	now, err := named.Stat()
	if err == nil && now.ID != have.ID {
		err = fsys.ErrMoved
	}
	return err
}

// leaveMade leaves the directories that this run has created to another run, which uses them.
func (d *Destination) leaveMade() { d.made = nil }
