package fsys

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lookupFlags open a directory: nothing here asks for less permission.
const lookupFlags = openDirFlags

// each reads names only: os.File.ReadDir would look an entry of unknown kind up
// by a path, and drop it when that fails. Kinds come from Lstat.
// Descriptor-based readdir is all that macOS offers: getdirentries is private.
func (d *Dir) each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	fd, err := retryN(func() (int, error) { return unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if badName([]byte(name)) {
				return unix.EIO
			}
			if !yield([]byte(name), 0, Unknown) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return bare(err)
		}
	}
}

// bare takes the system's error out of package os's wrapping.
func bare(err error) error {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// openLeased: macOS has no leases to wait for.
func (d *Dir) openLeased(string) (int, error) { return -1, unix.EAGAIN }

// OpenObject opens the entry name, whatever it is, to read and set metadata.
// Nothing happens to a device by it, and a link is not followed: O_SYMLINK
// opens the link itself. What is not opened (fifos, sockets, devices, anything
// unreadable) is reached through its directory by its one name.
func (d *Dir) OpenObject(name string) (*Object, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return nil, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
		fd, err := retryN(func() (int, error) {
			return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		})
		if err != unix.EACCES && err != unix.EPERM {
			if err != nil {
				return nil, err
			}
			return &Object{fd: fd, descriptor: d.opened(name)}, nil
		}
	}
	fd, err := retryN(func() (int, error) { return unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	return &Object{fd: fd, entry: name, descriptor: d.opened(name)}, nil
}

// mknodat refuses: mkfifoat and mknodat came with macOS 13 and are not in
// x/sys/unix; mkfifo, mknod and bind take paths, which this package never does.
func mknodat(int, string, uint32, uint64) error { return unix.ENOTSUP }

// fsyncFD reaches the device: fsync(2) of macOS stops at the drive's cache and
// names F_FULLFSYNC for more. Network file systems do not have it.
func fsyncFD(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	switch err {
	case unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.ENODEV:
		return unix.Fsync(fd)
	}
	return err
}

// datasyncToDrive: Datasync leaves data in the drive's own cache.
const datasyncToDrive = true

// fdatasyncFD stops there on purpose; macOS has no documented fdatasync(2).
func fdatasyncFD(fd int) error { return unix.Fsync(fd) }
