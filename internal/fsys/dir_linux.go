package fsys

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// lookupFlags open a directory to reach entries by name only.
const lookupFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

var direntBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (d *Dir) list(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
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

// eachDirent reads linux_dirent64 records: ino, offset, record length, type, name. A
// malformed record is the error of a damaged file system.
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
		name, _, _ := bytes.Cut(rest[header:size], []byte{0})
		if badName(name) { // since 5.4, the kernel checks names, too
			return false, unix.EIO
		}
		if s := string(name); s != "." && s != ".." && !yield(name, ino, kindOfDirent(rest[18])) {
			return false, nil
		}
		rest = rest[size:]
	}
	return true, nil
}

// openLeased opens a file after the holder of a lease has released it. It first checks through
// a handle that the name is that of a file, because waiting on a fifo could last for ever.
func (d *Dir) openLeased(name string) (Object, error) {
	o, err := d.OpenObject(name)
	if err != nil {
		return Object{}, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return Object{}, err
	}
	if info.Kind != Regular {
		return Object{}, unix.EAGAIN
	}
	return openPath(o.procPath(), unix.O_RDONLY)
}

func (d *Dir) openObject(name string) (Object, error) {
	o, err := d.openAt(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	o.pathOnly = true
	return o, err
}

func mknodat(dirfd int, name string, mode uint32, rdev uint64) error {
	return unix.Mknodat(dirfd, name, mode, int(rdev))
}

func fsyncFD(fd int) error { return unix.Fsync(fd) }

func fdatasyncFD(fd int) error { return unix.Fdatasync(fd) }
