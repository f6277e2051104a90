//go:build unix

package fsys

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Dir is an open directory.
type Dir struct {
	Object
	caps   *capabilities
	files  atomic.Pointer[unnamedFiles] // of the directory's file system, once it was asked for
	listed atomic.Bool                  // by this descriptor
}

// capabilities remembers what the file systems of a tree have refused, so that a tree
// costs one refused call and not one per file, and the tree's id.
type capabilities struct {
	unnamed    sync.Map    // device number → *unnamedFiles
	look       sync.Mutex  // held between looking for a name and taking it
	noLinkPath atomic.Bool // linkat with AT_EMPTY_PATH, before Linux 6.10 privileged only

	tempID atomic.Pointer[string] // SetTempID
}

// unnamedFiles remembers whether one file system has files without a name.
type unnamedFiles struct {
	none      atomic.Bool // no O_TMPFILE, or no name for what it makes
	linkProbe sync.Once   // of the latter
}

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// OpenRoot opens the directory that a user named. Symbolic links in path are
// followed: the path is the user's own.
func (sys *FS) OpenRoot(path string) (*Dir, error) {
	if err := sys.fault(OpOpenDir, path); err != nil {
		return nil, err
	}
	fd, err := retryN(func() (int, error) { return unix.Open(path, openDirFlags, 0) })
	if err != nil {
		return nil, err
	}
	return &Dir{Object: Object{fd: fd, descriptor: sys.opened(path)}, caps: new(capabilities)}, nil
}

// OpenLookup opens the directory that a user named to open and describe entries of it
// by name. Search permission is enough on Linux and FreeBSD; a directory that grants no
// more cannot be listed or synced through the result.
func (sys *FS) OpenLookup(path string) (*Dir, error) {
	d, err := sys.OpenRoot(path)
	if err != unix.EACCES {
		return d, err
	}
	fd, again := retryN(func() (int, error) { return unix.Open(path, lookupFlags, 0) })
	if again != nil {
		return nil, err
	}
	return &Dir{Object: Object{fd: fd, pathOnly: lookupFlags != openDirFlags, descriptor: sys.opened(path)}, caps: new(capabilities)}, nil
}

// OpenDir opens the subdirectory name; a symbolic link is ELOOP or ENOTDIR.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	if err := d.fault(OpOpenDir, name); err != nil {
		return nil, err
	}
	fd, err := retryN(func() (int, error) {
		return unix.Openat(d.fd, name, openDirFlags|unix.O_NOFOLLOW, 0)
	})
	if err != nil {
		return nil, err
	}
	return &Dir{Object: Object{fd: fd, descriptor: d.opened(name)}, caps: d.caps}, nil
}

// Each calls yield for the names in the directory, without "." and "..", in the
// system's order, until it returns false. The name is valid during the call; ino is
// 0, and kind Unknown, where a listing does not tell. It begins anew each time: btrfs
// lists what was there when the directory was opened, or wound back. From the second
// time on it has a descriptor of its own: sshfs lists nothing when it was wound back.
func (d *Dir) Each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	if err := d.fault(OpList, ""); err != nil {
		return err
	}
	if d.pathOnly { // see OpenLookup; the kernel would report a bad descriptor
		return unix.EACCES
	}
	if d.listed.Swap(true) {
		again, err := d.OpenDir(".")
		if err != nil {
			return err
		}
		defer again.Close()
		return again.each(yield)
	}
	if _, err := unix.Seek(d.fd, 0, 0); err != nil {
		return err
	}
	return d.each(yield)
}

// badName reports whether a listing gives what is not one name: of a damaged or hostile
// file system, which by a slash in it would lead out of the directory.
func badName(name []byte) bool { return len(name) == 0 || bytes.IndexByte(name, '/') >= 0 }

// Lstat describes the entry name, not following a link.
func (d *Dir) Lstat(name string) (Info, error) {
	if err := d.fault(OpStat, name); err != nil {
		return Info{}, err
	}
	return d.lstat(name)
}

func (d *Dir) lstat(name string) (Info, error) {
	return statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW)
}

// Lstat describes what a user named, and of a symbolic link the link itself.
func (sys *FS) Lstat(path string) (Info, error) {
	if err := sys.fault(OpStat, path); err != nil {
		return Info{}, err
	}
	return statAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

// Readlink returns the target of the symbolic link name, byte for byte.
func (d *Dir) Readlink(name string) (string, error) {
	if err := d.fault(OpReadlink, name); err != nil {
		return "", err
	}
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := retryN(func() (int, error) { return unix.Readlinkat(d.fd, name, buf) })
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// Open opens the file name for reading and describes it. It does not follow a
// link and does not wait for a writer of a fifo; the caller looks at the kind.
func (d *Dir) Open(name string) (*File, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := retryN(func() (int, error) { return unix.Openat(d.fd, name, flags, 0) })
	if err == unix.EAGAIN { // a lease, as Samba takes them
		fd, err = d.openLeased(name)
	}
	if err != nil {
		return nil, Info{}, err
	}
	f := &File{Object: Object{fd: fd, descriptor: d.opened(name)}}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, info, nil
}

// Mkdir creates the directory name with mode 0700.
func (d *Dir) Mkdir(name string) error {
	if err := d.fault(OpMkdir, name); err != nil {
		return err
	}
	err := retry(func() error { return unix.Mkdirat(d.fd, name, 0o700) })
	return d.made(err, OpMkdir, name, "")
}

// Symlink creates the symbolic link name; EEXIST if the name is taken.
func (d *Dir) Symlink(target, name string) error {
	if err := d.fault(OpSymlink, name); err != nil {
		return err
	}
	err := retry(func() error { return unix.Symlinkat(target, d.fd, name) })
	return d.made(err, OpSymlink, name, target)
}

// Mknod creates a fifo, socket or device like info with mode 0600; EEXIST if
// the name is taken. exFAT through FUSE makes a regular file instead, of which the
// kernel tells EIO; that is removed, so name must be one that is nobody else's.
func (d *Dir) Mknod(name string, info Info) error {
	if err := d.fault(OpMknod, name); err != nil {
		return err
	}
	var format uint32
	switch info.Kind {
	case Fifo:
		format = unix.S_IFIFO
	case Socket:
		format = unix.S_IFSOCK
	case CharDevice:
		format = unix.S_IFCHR
	case BlockDevice:
		format = unix.S_IFBLK
	default:
		return unix.EINVAL
	}
	err := retry(func() error { return mknodat(d.fd, name, format|0o600, info.Rdev) })
	var st unix.Stat_t
	if err == unix.EIO && unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := retry(func() error { return unix.Unlinkat(d.fd, name, 0) }); err != nil {
			return err
		}
		return unix.ENOTSUP
	}
	return d.made(err, OpMknod, name, "")
}

// Link gives the entry name of d the further name newName in to; EEXIST if that
// is taken. A symbolic link is linked itself.
func (d *Dir) Link(name string, to *Dir, newName string) error {
	if err := d.fault(OpLink, newName); err != nil {
		return err
	}
	err := retry(func() error { return unix.Linkat(d.fd, name, to.fd, newName, 0) })
	return d.moved(err, OpLink, name, to, newName)
}

// Rename gives oldName the name newName in the same directory and replaces what
// has that name, atomically. If both are links of one file, nothing happens, as
// rename(2) has it: oldName stays.
func (d *Dir) Rename(oldName, newName string) error {
	return d.MoveTo(oldName, d, newName)
}

// MoveTo is Rename into the directory to of the same file system.
func (d *Dir) MoveTo(oldName string, to *Dir, newName string) error {
	if err := d.fault(OpRename, newName); err != nil {
		return err
	}
	err := retry(func() error { return unix.Renameat(d.fd, oldName, to.fd, newName) })
	return d.moved(err, OpRename, oldName, to, newName)
}

// Remove removes the name of anything but a directory.
func (d *Dir) Remove(name string) error {
	if err := d.fault(OpRemove, name); err != nil {
		return err
	}
	return d.removed(retry(func() error { return unix.Unlinkat(d.fd, name, 0) }), name)
}

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error {
	if err := d.fault(OpRemove, name); err != nil {
		return err
	}
	return d.removed(retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }), name)
}

// Writable reports whether we may make and remove entries in the directory, which
// root may whatever its mode is, unless its capabilities were taken away.
func (d *Dir) Writable() bool {
	return retry(func() error { return unix.Faccessat(d.fd, ".", unix.W_OK|unix.X_OK, 0) }) == nil
}

// Sync forces the directory's names to the device.
func (d *Dir) Sync() error {
	if err := d.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := d.flushed(Flush{Op: OpSync}); done {
		return err
	}
	err := retry(func() error { return fsyncFD(d.fd) })
	if err == unix.EINVAL || errors.Is(err, os.ErrInvalid) { // a file system that cannot fsync a directory
		return nil
	}
	return err
}

// TakeOver makes a directory of ours usable by its owner (rwx) and opens it:
// the answer to EACCES from OpenDir. It returns the bits that it had.
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
		return nil, 0, unix.ENOTDIR
	}
	if err := o.Chmod(info.Mode | 0o700); err != nil {
		return nil, 0, err
	}
	sub, err := d.OpenDir(name)
	return sub, info.Mode, err
}
