package fsys

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lookupFlags open a directory. macOS has no flag that needs only search permission.
const lookupFlags = openDirFlags

// list reads only names. os.File.ReadDir would call lstat, by path, for an entry of unknown
// kind, and drop the entry if that fails. Lstat determines the kinds. macOS has only a readdir
// by descriptor: getdirentries is private.
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
			return BareError(err)
		}
	}
}

// openObject uses O_SYMLINK, which opens a link itself. Objects that it does not open (fifos,
// sockets, devices, unreadable ones) are reached through their directory by their name.
func (d *Dir) openObject(name string) (Object, error) {
	info, err := d.lstat(name)
	if err != nil {
		return Object{}, err
	}
	switch info.Kind {
	case Regular, Directory, Symlink:
		o, err := d.openAt(name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != unix.EACCES && err != unix.EPERM {
			return o, err
		}
	}
	o, err := d.dup()
	o.entry = name
	return o, err
}

// mknodat is not supported: mkfifoat and mknodat are new in macOS 13 and are not in
// x/sys/unix. mkfifo, mknod and bind take paths, which this package never uses.
func mknodat(int, string, uint32, uint64) error { return unix.ENOTSUP }

// fsyncFD flushes to the device. fsync(2) of macOS only writes to the drive's cache, and its
// manual names F_FULLFSYNC for more. Network file systems do not have F_FULLFSYNC.
func fsyncFD(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	switch err {
	case unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.ENODEV:
		return unix.Fsync(fd)
	}
	return err
}

// fdatasyncFD writes to the drive's cache only, on purpose. macOS has no documented
// fdatasync(2).
func fdatasyncFD(fd int) error { return unix.Fsync(fd) }

// renameNoReplace calls renameatx_np of macOS (rename(2)). File systems that do not support it
// return ENOTSUP.
func renameNoReplace(dirfd int, oldName, newName string) error {
	return unix.RenameatxNp(dirfd, oldName, dirfd, newName, unix.RENAME_EXCL)
}

// preallocate uses F_PREALLOCATE of fcntl(2). It reserves all of the size or nothing, in any
// number of extents. Truncating the file frees the unused part.
func (f *File) preallocate(size int64) error {
	return unix.FcntlFstore(uintptr(f.fd), unix.F_PREALLOCATE, &unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  size,
	})
}
