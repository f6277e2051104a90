package fsys

import (
	"errors"
	"runtime"
)

// OpenRoot opens the directory that a user named. Symbolic links in path are
// followed: the path is the user's own.
func (sys *FS) OpenRoot(path string) (*Dir, error) {
	if err := sys.fault(OpOpenDir, path); err != nil {
		return nil, err
	}
	o, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	o.descriptor = sys.opened(path)
	return &Dir{Object: o, caps: new(capabilities)}, nil
}

// OpenDir opens the subdirectory name. IsSymlinkRefusal reports true for the error if name is
// a symbolic link, a junction, or no directory.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	if err := d.fault(OpOpenDir, name); err != nil {
		return nil, err
	}
	o, err := d.openDir(name)
	if err != nil {
		return nil, err
	}
	o.descriptor = d.opened(name)
	return &Dir{Object: o, caps: d.caps}, nil
}

// Each calls yield for each name in the directory, without "." and "..", in the system's
// order, until yield returns false. The name is valid during the call. ino is 0 and kind is
// Unknown if the listing does not contain them. On Windows, a name that is not valid UTF-16 is
// passed in WTF-8, as in package os. Each call lists the directory from its beginning.
func (d *Dir) Each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	if err := d.fault(OpList, ""); err != nil {
		return err
	}
	return d.each(yield)
}

// Lstat describes the entry name. It does not follow a symbolic link.
func (d *Dir) Lstat(name string) (Info, error) {
	if err := d.fault(OpStat, name); err != nil {
		return Info{}, err
	}
	return d.lstat(name)
}

// Readlink returns the target of the symbolic link name, byte for byte on Unix.
func (d *Dir) Readlink(name string) (string, error) {
	if err := d.fault(OpReadlink, name); err != nil {
		return "", err
	}
	return d.readlink(name)
}

// Open opens the file name for reading and describes it. It does not follow a
// link and does not wait for a writer of a fifo; the caller checks the kind.
func (d *Dir) Open(name string) (*File, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	o, err := d.openFile(name)
	if err != nil {
		return nil, Info{}, err
	}
	o.descriptor = d.opened(name)
	return describe(o)
}

// OpenObject opens the entry name, of any kind, to read and set metadata. It does not follow a
// symbolic link, and opening has no effect on a device.
func (d *Dir) OpenObject(name string) (*Object, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, err
	}
	o, err := d.openObject(name)
	if err != nil {
		return nil, err
	}
	o.descriptor = d.opened(name)
	return &o, nil
}

// Mkdir creates the directory name with mode 0700. On Windows, the parent's ACL determines who
// may use it.
func (d *Dir) Mkdir(name string) error {
	err := d.do(OpMkdir, name, func() error { return d.mkdir(name) })
	return d.made(err, OpMkdir, name, "")
}

// MkdirUnfinished is Mkdir for a directory that is recognized as unfinished until its mode is set:
// see IsUnfinished.
func (d *Dir) MkdirUnfinished(name string) error {
	err := d.do(OpMkdir, name, func() error { return d.mkdirUnfinished(name) })
	return d.made(err, OpMkdir, name, "")
}

// Symlink creates the symbolic link name. The error is EEXIST if the name exists. On Windows,
// the link is one to a directory if like describes a link to a directory, otherwise one to a file;
// it needs a privilege or the developer mode. Other systems ignore like.
func (d *Dir) Symlink(target, name string, like Info) error {
	err := d.do(OpSymlink, name, func() error { return d.symlink(target, name, like) })
	return d.made(err, OpSymlink, name, target)
}

// Mknod creates a fifo, socket or device like info with mode 0600. The error is EEXIST if the
// name exists. exFAT through FUSE creates a regular file instead, and the kernel returns EIO.
// Mknod removes that file, so no other process may use the name.
func (d *Dir) Mknod(name string, info Info) error {
	err := d.do(OpMknod, name, func() error { return d.mknod(name, info) })
	return d.made(err, OpMknod, name, "")
}

// Link creates newName in the directory to as a further hard link to the entry name of d. The
// error is EEXIST if newName exists. Link does not follow a symbolic link.
func (d *Dir) Link(name string, to *Dir, newName string) error {
	err := d.do(OpLink, newName, func() error { return d.link(name, to, newName) })
	return d.moved(err, OpLink, name, to, newName)
}

// Rename renames oldName to newName in the same directory and replaces an existing newName,
// atomically. If both are links of one file, rename(2) does nothing and oldName stays; Windows
// removes oldName.
func (d *Dir) Rename(oldName, newName string) error {
	return d.MoveTo(oldName, d, newName)
}

// MoveTo is Rename into the directory to, on the same file system. Windows denies access if
// the entry is a directory and anything below it is open.
func (d *Dir) MoveTo(oldName string, to *Dir, newName string) error {
	err := d.do(OpRename, newName, func() error { return d.rename(oldName, to, newName) })
	return d.moved(err, OpRename, oldName, to, newName)
}

// RenameNew is Rename that never replaces. The error is EEXIST if newName exists.
func (d *Dir) RenameNew(oldName, newName string) error {
	if err := d.fault(OpRename, newName); err != nil {
		return err
	}
	return d.renameNew(oldName, newName)
}

// renameNew is RenameNew for Sealift's own temporaries.
func (d *Dir) renameNew(oldName, newName string) error {
	return d.moved(d.renameExclusively(oldName, newName), OpRename, oldName, d, newName)
}

// Remove removes the name of anything but a directory.
func (d *Dir) Remove(name string) error {
	return d.removed(d.do(OpRemove, name, func() error { return d.remove(name) }), name)
}

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error {
	return d.removed(d.do(OpRemove, name, func() error { return d.removeDir(name) }), name)
}

// Sync flushes the directory's names to the device. On Windows, this does nothing on FAT, and if
// the directory cannot be opened for writing.
func (d *Dir) Sync() error { return d.flush(Flush{Op: OpSync}, d.sync) }

// SyncFS flushes the complete file system of the directory to its device, including data of
// other programs. It returns errors of writes since the directory was opened (Linux 5.8).
func (d *Dir) SyncFS() error { return d.flush(Flush{Op: OpSyncFS}, d.syncFS) }

// SyncFSReliable reports whether SyncFS reaches the device and reports errors. If not,
// every file needs a separate sync.
func (d *Dir) SyncFSReliable() bool {
	if disk := d.disk(); disk != nil {
		return disk.FlushesAll()
	}
	return d.syncFSReliable()
}

// SharesSyncErrors reports whether a failed sync of one file may be about the data of others. That
// is so for a FUSE daemon of a block device, such as ntfs-3g and exfat-fuse. It writes all files
// through one descriptor of the device, for which the kernel reports an error of writeback once.
func (d *Dir) SharesSyncErrors() bool { return d.disk() == nil && d.sharesSyncErrors() }

// datasyncToDrive reports whether Datasync leaves data in the drive's own cache, as on macOS.
const datasyncToDrive = runtime.GOOS == "darwin"

// TakeOver gives the owner of a directory all permissions (rwx) and opens it, after OpenDir
// has returned EACCES. It returns the previous permission bits. On Windows, ACLs control
// access, and Chmod cannot change them. It is an error if another process exchanges the directory
// meanwhile: the caller would give the previous permissions to the other one.
func (d *Dir) TakeOver(name string) (*Dir, uint32, error) {
	o, err := d.OpenObject(name)
	if err != nil {
		return nil, 0, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Kind != Directory {
		return nil, 0, errNotDirectory
	}
	if err := o.Chmod(info.Mode | 0o700); err != nil {
		return nil, 0, err
	}
	sub, err := d.OpenDir(name)
	if err != nil {
		return nil, 0, err
	}
	if now, err := sub.Stat(); err != nil || now.ID != info.ID {
		sub.Close()
		return nil, 0, errors.Join(errOtherDirectory, err, o.Chmod(info.Mode))
	}
	return sub, info.Mode, nil
}

// errOtherDirectory means that another process has given the name of a directory to a different one.
var errOtherDirectory = errors.New("it was exchanged for another directory meanwhile")
