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

// errNotDirectory is the error of opening an entry that is no directory as a directory.
const errNotDirectory = unix.ENOTDIR

// Dir is an open directory.
type Dir struct {
	Object
	caps   *capabilities
	files  atomic.Pointer[unnamedFiles] // the state of the directory's file system; nil until it is needed
	listed atomic.Bool                  // true if this descriptor has listed the directory before

	// doubles remembers the answer of keepsDoubles.
	doubles struct {
		sync.Once
		kept bool
	}
}

// capabilities is shared by all directories of a tree. It remembers operations that the file
// systems have refused, so that a tree costs one refused call and not one for each file. It
// also has the id in the tree's temporary names.
type capabilities struct {
	unnamed    sync.Map    // device number → *unnamedFiles
	look       sync.Mutex  // held from the check that a name is free until it is used
	doubles    sync.Mutex  // held while an AppleDouble file may have another name
	noLinkPath atomic.Bool // linkat with AT_EMPTY_PATH is refused, as for unprivileged users before Linux 6.10

	tempID atomic.Pointer[string] // the id that SetTempID has set
}

// unnamedFiles remembers whether one file system has files without a name.
type unnamedFiles struct {
	none         atomic.Bool // true if there is no O_TMPFILE, or if its files cannot get a name
	probe        sync.Once   // sets none and closeReports with the first file
	closeReports bool        // true if close may report lost writes
}

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func openRoot(path string) (Object, error) { return openPath(path, openDirFlags) }

// openPath opens a path that a user gave.
func openPath(path string, flags int) (Object, error) {
	fd, err := retryN(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
	return Object{fd: fd}, err
}

// openAt opens the entry name of a directory.
func (d *Dir) openAt(name string, flags int, mode uint32) (Object, error) {
	fd, err := retryN(func() (int, error) { return unix.Openat(d.fd, name, flags|unix.O_CLOEXEC, mode) })
	return Object{fd: fd}, err
}

// dup returns a second descriptor of the open object.
func (o *Object) dup() (Object, error) {
	fd, err := retryN(func() (int, error) { return unix.FcntlInt(uintptr(o.fd), unix.F_DUPFD_CLOEXEC, 0) })
	return Object{fd: fd}, err
}

// OpenLookup opens a directory that a user named, to open and describe entries of it by name.
// On Linux, search permission is enough. If the directory grants no more, the
// result cannot be listed or synced.
func (sys *FS) OpenLookup(path string) (*Dir, error) {
	d, err := sys.OpenRoot(path)
	if err != unix.EACCES {
		return d, err
	}
	o, again := openPath(path, lookupFlags)
	if again != nil {
		return nil, err
	}
	o.pathOnly, o.descriptor = lookupFlags != openDirFlags, sys.opened(path)
	return &Dir{Object: o, caps: new(capabilities)}, nil
}

// openDir opens a subdirectory. The error is ELOOP or ENOTDIR for a symbolic link.
func (d *Dir) openDir(name string) (Object, error) {
	return d.openAt(name, openDirFlags|unix.O_NOFOLLOW, 0)
}

// each rewinds the directory before it lists. btrfs lists the entries that existed when the
// directory was opened or rewound. From the second time on, each uses a new descriptor,
// because sshfs lists nothing after a rewind.
func (d *Dir) each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	if d.pathOnly { // see OpenLookup; the kernel would report a bad descriptor
		return unix.EACCES
	}
	if d.listed.Swap(true) {
		again, err := d.OpenDir(".")
		if err != nil {
			return err
		}
		defer again.Close()
		return again.list(yield)
	}
	if _, err := unix.Seek(d.fd, 0, 0); err != nil {
		return err
	}
	return d.list(yield)
}

// badName reports whether a listed name is not a single name, as from a damaged or hostile
// file system. A slash in it would lead out of the directory.
func badName(name []byte) bool { return len(name) == 0 || bytes.IndexByte(name, '/') >= 0 }

func (d *Dir) lstat(name string) (Info, error) {
	return statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW)
}

// Lstat describes the object at a path that a user named. It describes a symbolic link itself.
func (sys *FS) Lstat(path string) (Info, error) {
	if err := sys.fault(OpStat, path); err != nil {
		return Info{}, err
	}
	return statAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

func (d *Dir) readlink(name string) (string, error) {
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

func (d *Dir) openFile(name string) (Object, error) {
	o, err := d.openAt(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == unix.EAGAIN { // a lease, as Samba takes them
		return d.openLeased(name)
	}
	return o, err
}

func (d *Dir) mkdir(name string) error {
	return d.making(name, func(name string) error { return d.calls().mkdir(d.fd, name, 0o700) })
}

func (d *Dir) symlink(target, name string, _ Info) error {
	return d.making(name, func(name string) error { return unix.Symlinkat(target, d.fd, name) })
}

func (d *Dir) mknod(name string, info Info) error {
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
	err := mknodat(d.fd, name, format|0o600, info.Rdev)
	if err != unix.EIO {
		return err
	}
	if made, statErr := d.lstat(name); statErr != nil || made.Kind != Regular {
		return err
	}
	if err := retry(func() error { return d.remove(name) }); err != nil {
		return err
	}
	return unix.ENOTSUP
}

func (d *Dir) link(name string, to *Dir, newName string) error {
	return unix.Linkat(d.fd, name, to.fd, newName, 0)
}

func (d *Dir) rename(oldName string, to *Dir, newName string) error {
	return d.moving(oldName, func(oldName string) error { return d.calls().rename(d.fd, oldName, to.fd, newName) })
}

func (d *Dir) remove(name string) error { return unix.Unlinkat(d.fd, name, 0) }

func (d *Dir) removeDir(name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

// LacksInodes reports whether the directory's file system has no inode for another file.
func (d *Dir) LacksInodes() bool {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(d.fd, &st) })
	return err == nil && st.Files > 0 && st.Ffree == 0
}

// Writable reports whether the process may create and remove entries in the directory. root
// may, whatever the mode is, unless its capabilities were removed.
func (d *Dir) Writable() bool {
	return retry(func() error { return unix.Faccessat(d.fd, ".", unix.W_OK|unix.X_OK, 0) }) == nil
}

func (d *Dir) sync() error { return unlessRefused(fsyncFD(d.fd)) }

// unlessRefused returns nil for the error of a file system that cannot fsync a directory.
func unlessRefused(err error) error {
	if err == unix.EINVAL || errors.Is(err, os.ErrInvalid) {
		return nil
	}
	return err
}

func (d *Dir) renameExclusively(oldName, newName string) error {
	return d.moving(oldName, func(oldName string) error { return d.moveExclusively(oldName, newName) })
}

// moveExclusively is renameExclusively as the file system does it.
func (d *Dir) moveExclusively(oldName, newName string) error {
	err := retry(func() error { return d.calls().exclusiveRename(d.fd, oldName, newName) })
	if err == nil || !Unsupported(err) && err != unix.EINVAL {
		return err
	}
	err = retry(func() error { return d.calls().hardLink(d.fd, oldName, d.fd, newName, 0) })
	if err == nil {
		return retry(func() error { return d.remove(oldName) })
	}
	if !Unsupported(err) && err != unix.EPERM {
		return err
	}
	// Neither an exclusive rename nor hard links: check, then rename. This replaces a file
	// that another process creates in between, but none of this process.
	d.caps.look.Lock()
	defer d.caps.look.Unlock()
	if _, err := d.lstat(newName); err == nil {
		return unix.EEXIST
	} else if err != unix.ENOENT {
		return err
	}
	return d.renameHere(oldName, newName)
}
