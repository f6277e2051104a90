package fsys

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// lookupFlags open a directory to reach entries by name only.
const lookupFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

var direntBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (d *Dir) each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	buf := direntBuffers.Get().(*[64 << 10]byte)
	defer direntBuffers.Put(buf)
	for {
		n, err := retryN(func() (int, error) { return unix.Getdents(d.fd, buf[:]) })
		if err != nil || n == 0 {
			return err
		}
		if more, err := eachDirent(buf[:n], yield); err != nil || !more {
			return err
		}
	}
}

// eachDirent reads linux_dirent64 records: ino, offset, record length, type, name. What
// is none is the error of a damaged file system.
func eachDirent(rest []byte, yield func(name []byte, ino uint64, kind Kind) (more bool)) (more bool, err error) {
	const header = 19
	for len(rest) > 0 {
		if len(rest) < header {
			return false, unix.EIO
		}
		ino := binary.NativeEndian.Uint64(rest)
		size := int(binary.NativeEndian.Uint16(rest[16:]))
		if size < header || size > len(rest) {
			return false, unix.EIO
		}
		name := rest[header:size]
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		if badName(name) { // Linux looks itself from 5.4 on
			return false, unix.EIO
		}
		if s := string(name); s != "." && s != ".." && !yield(name, ino, kindOfDirent(rest[18])) {
			return false, nil
		}
		rest = rest[size:]
	}
	return true, nil
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

// openLeased waits for the holder of a lease to give it up: the file is checked
// through a handle first, because waiting on a fifo would be for ever.
func (d *Dir) openLeased(name string) (int, error) {
	o, err := d.OpenObject(name)
	if err != nil {
		return -1, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return -1, err
	}
	if info.Kind != Regular {
		return -1, unix.EAGAIN
	}
	return retryN(func() (int, error) {
		return unix.Open(o.procPath(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
}

// OpenObject opens the entry name, whatever it is, to read and set metadata.
// Nothing happens to a device by it, and a link is not followed.
func (d *Dir) OpenObject(name string) (*Object, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, err
	}
	fd, err := retryN(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return &Object{fd: fd, pathOnly: true, descriptor: d.opened(name)}, nil
}

func mknodat(dirfd int, name string, mode uint32, rdev uint64) error {
	return unix.Mknodat(dirfd, name, mode, int(rdev))
}

func fsyncFD(fd int) error { return unix.Fsync(fd) }

// datasyncToDrive: Datasync flushes the drive's own cache.
const datasyncToDrive = false

func fdatasyncFD(fd int) error { return unix.Fdatasync(fd) }
