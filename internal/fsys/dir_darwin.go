package fsys

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lookupFlags open a directory: nothing here asks for less permission.
const lookupFlags = openDirFlags

// list reads names only: os.File.ReadDir would look an entry of unknown kind up
// by a path, and drop it when that fails. Kinds come from Lstat.
// Descriptor-based readdir is all that macOS offers: getdirentries is private.
func (d *Dir) list(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	o, err := d.dup()
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(o.fd), ".")
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

// openObject: O_SYMLINK opens a link itself. Objects that it does not open (fifos, sockets,
// devices, unreadable ones) are reached through their directory by their name.
func (d *Dir) openObject(name string) (Object, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Object{}, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
		o, err := d.openAt(name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != unix.EACCES && err != unix.EPERM {
			return o, err
		}
	}
	o, err := d.dup()
	o.entry = name
	return o, err
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

// fdatasyncFD stops there on purpose; macOS has no documented fdatasync(2).
func fdatasyncFD(fd int) error { return unix.Fsync(fd) }

// renameNoReplace: rename(2) of macOS; a file system without it says ENOTSUP.
func renameNoReplace(dirfd int, oldName, newName string) error {
	return unix.RenameatxNp(dirfd, oldName, dirfd, newName, unix.RENAME_EXCL)
}

// preallocate is F_PREALLOCATE of fcntl(2): all of it or nothing, in any number of
// extents. Truncating the file frees the unused part.
func (f *File) preallocate(size int64) error {
	return unix.FcntlFstore(uintptr(f.fd), unix.F_PREALLOCATE, &unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  size,
	})
}
