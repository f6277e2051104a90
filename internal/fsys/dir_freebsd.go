package fsys

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From FreeBSD's sys/fcntl.h; x/sys/unix has none of them. O_PATH came with
// FreeBSD 13.1: open(2), HISTORY.
const (
	oPath       = 0x00400000
	oEmptyPath  = 0x02000000
	atEmptyPath = 0x4000
)

// lookupFlags open a directory to reach entries by name only.
const lookupFlags = oPath | unix.O_DIRECTORY | unix.O_CLOEXEC

// list reads struct dirent of FreeBSD 12, with inode numbers of 64 bits: getdirentries(2). It
// reads field by field, because the last record is shorter than the structure, and a pointer
// to the structure would reach beyond the buffer.
func (d *Dir) list(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := retryN(func() (int, error) { return unix.Getdirentries(d.fd, buf, nil) })
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			ino := binary.NativeEndian.Uint64(rest[unsafe.Offsetof(unix.Dirent{}.Fileno):])
			size := binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):])
			length := binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Namlen):])
			name := rest[unsafe.Offsetof(unix.Dirent{}.Name):][:length]
			if ino != 0 && badName(name) {
				return unix.EIO
			}
			kind := kindOfDirent(rest[unsafe.Offsetof(unix.Dirent{}.Type)])
			if s := string(name); ino != 0 && s != "." && s != ".." && !yield(name, ino, kind) {
				return nil
			}
			rest = rest[size:]
		}
	}
}

// openObject uses O_PATH with O_NOFOLLOW, which opens a link itself.
func (d *Dir) openObject(name string) (Object, error) {
	o, err := d.openAt(name, oPath|unix.O_NOFOLLOW, 0)
	o.pathOnly = true
	return o, err
}

// mknodat creates fifos and devices, as mknod(2) allows. Only bind(2) creates sockets, and it
// takes a path and no directory.
func mknodat(dirfd int, name string, mode uint32, rdev uint64) error {
	switch mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return unix.ENOTSUP
	case unix.S_IFIFO:
		rdev = 0 // mknod(2): EINVAL otherwise
	}
	return unix.Mknodat(dirfd, name, mode, rdev)
}

func fsyncFD(fd int) error { return unix.Fsync(fd) }

// fdatasyncFD calls fsync(2): x/sys has no fdatasync(2) for this system.
func fdatasyncFD(fd int) error { return unix.Fsync(fd) }

// renameNoReplace is not supported: FreeBSD 14 has no exclusive rename. renameNew uses a hard
// link instead.
func renameNoReplace(int, string, string) error { return unix.ENOTSUP }

// keepsDoubles is nil: the kernel has no AppleDouble files.
var keepsDoubles func(fd int) bool

// preallocate is not supported: posix_fallocate(2) changes the size, and ZFS
// refuses it.
func (f *File) preallocate(int64) error { return unix.ENOTSUP }
