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

// each reads struct dirent as of FreeBSD 12 (64-bit inode numbers): getdirentries(2).
// Field by field: the last record is shorter than the structure, and a pointer
// to that would reach beyond the buffer.
func (d *Dir) each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
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

func kindOfDirent(t byte) Kind {
	switch t {
	case unix.DT_REG:
		return Regular
	case unix.DT_DIR:
		return Directory
	case unix.DT_LNK:
		return Symlink
	case unix.DT_FIFO:
		return Fifo
	case unix.DT_SOCK:
		return Socket
	case unix.DT_CHR:
		return CharDevice
	case unix.DT_BLK:
		return BlockDevice
	}
	return Unknown
}

// openLeased: FreeBSD has no leases to wait for.
func (d *Dir) openLeased(string) (int, error) { return -1, unix.EAGAIN }

// OpenObject opens the entry name, whatever it is, to read and set metadata.
// Nothing happens to a device by it, and a link is not followed: O_PATH with
// O_NOFOLLOW opens the link itself.
func (d *Dir) OpenObject(name string) (*Object, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, err
	}
	fd, err := retryN(func() (int, error) {
		return unix.Openat(d.fd, name, oPath|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return &Object{fd: fd, pathOnly: true, descriptor: d.opened(name)}, nil
}

// mknodat makes fifos and devices, as mknod(2) allows; a socket only comes from
// bind(2), which takes a path and no directory.
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

// datasyncToDrive: Datasync flushes the drive's own cache.
const datasyncToDrive = false

// fdatasyncFD: x/sys has no fdatasync(2) for this system.
func fdatasyncFD(fd int) error { return unix.Fsync(fd) }
