//go:build unix

package fsys

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// File is an open regular file.
type File struct {
	Object
	direct   atomic.Bool // SetDirect
	uncached atomic.Bool // SetUncached
}

// ReadAt reads at the offset off until p is full or the file ends; 0 bytes
// without an error is the end.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	if f.direct.Load() {
		return readAligned(p, off, f.pread, f.size, unix.EIO)
	}
	total := 0
	for total < len(p) {
		n, err := f.pread(p[total:], off+int64(total))
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

// ReadSomeAt is one read: fewer bytes than p has room for are no sign of the end.
func (f *File) ReadSomeAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	return f.pread(p, off)
}

func (f *File) size() (int64, error) {
	var st unix.Stat_t
	err := retry(func() error { return f.fstat(&st) })
	return st.Size, err
}

// WriteAt writes all of p at the offset off.
func (f *File) WriteAt(p []byte, off int64) error {
	if err := f.fault(OpWrite, ""); err != nil {
		return err
	}
	for len(p) > 0 {
		n, err := f.pwrite(p, off)
		if err != nil {
			return err
		}
		if n == 0 { // no system documents it; a loop would never end
			return unix.EIO
		}
		if err := f.wrote(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Truncate sets the file's size in bytes; what it adds is a hole.
func (f *File) Truncate(size int64) error {
	if err := f.fault(OpTruncate, ""); err != nil {
		return err
	}
	return f.truncated(retry(func() error { return unix.Ftruncate(f.fd, size) }), size)
}

// Sync forces the file's data and metadata to the device.
func (f *File) Sync() error {
	if err := f.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := f.flushed(Flush{Op: OpSync}); done {
		return err
	}
	return retry(func() error { return fsyncFD(f.fd) })
}

// Datasync forces the file's data, and what is needed to find it, to the device:
// less than Sync, which takes the times along. On macOS that is fsync(2), which
// stops at the drive's own cache: it bounds what waits in memory and promises no
// more.
func (f *File) Datasync() error {
	if err := f.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := f.flushed(Flush{Op: OpSync, DataOnly: true, ToDrive: datasyncToDrive}); done {
		return err
	}
	return retry(func() error { return fdatasyncFD(f.fd) })
}

// Dup returns a second descriptor of the same open file, with a life of its own.
// An error of writing is told to one of the two only, and SetDirect acts on both
// but is known to one: call it before.
func (f *File) Dup() (*File, error) {
	if err := f.fault(OpOpen, ""); err != nil {
		return nil, err
	}
	fd, err := retryN(func() (int, error) { return unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	dup := &File{Object: Object{fd: fd, descriptor: f.opened("")}}
	dup.direct.Store(f.direct.Load())
	dup.uncached.Store(f.uncached.Load())
	return dup, nil
}

// NextData returns the bounds [data, hole) of the first stretch of data at or
// after off, and end == true if there is none. An error for which Unsupported
// holds means that the file system, or the system, cannot tell.
func (f *File) NextData(off int64) (data, hole int64, end bool, err error) {
	if err := f.fault(OpHoles, ""); err != nil {
		return 0, 0, false, err
	}
	if !tellsHoles {
		return 0, 0, false, unix.ENOTSUP
	}
	data, err = unix.Seek(f.fd, off, seekData)
	if err == unix.ENXIO {
		return 0, 0, true, nil
	}
	if err == unix.EINVAL { // FreeBSD's way of saying that it cannot tell
		err = unix.ENOTSUP
	}
	if err != nil {
		return 0, 0, false, err
	}
	hole, err = unix.Seek(f.fd, data, seekHole)
	return data, hole, false, err
}
