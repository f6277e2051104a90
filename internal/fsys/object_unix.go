//go:build unix

package fsys

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Object is an open file, directory or other thing whose metadata can be read
// and set through its descriptor.
type Object struct {
	fd int
	// pathOnly marks a descriptor opened with O_PATH (Linux), on which the
	// f-calls fail with EBADF; /proc/self/fd/N stands for the object then.
	pathOnly bool
	// entry, if not empty, is the object's name in the directory fd: macOS has
	// no O_PATH, and not everything there can be opened.
	entry string //nolint:unused // outside macOS

	descriptor *Descriptor // nil without an FS
}

func (o *Object) procPath() string { return o.calls().procFD + strconv.Itoa(o.fd) }

// Stat describes the object.
func (o *Object) Stat() (Info, error) {
	if err := o.fault(OpStat, ""); err != nil {
		return Info{}, err
	}
	return o.stat()
}

// Chown sets owner and group.
func (o *Object) Chown(uid, gid uint32) error {
	if err := o.fault(OpChown, ""); err != nil {
		return err
	}
	return o.set(retry(func() error { return o.chown(int(uid), int(gid)) }), OpChown)
}

// Chmod sets the permission bits, with setuid, setgid and sticky.
func (o *Object) Chmod(mode uint32) error {
	if err := o.fault(OpChmod, ""); err != nil {
		return err
	}
	return o.set(retry(func() error { return o.chmod(mode) }), OpChmod)
}

// SetTimes sets access and modification time, to the nanosecond where the file
// system can. btime is set as well where the system can set it.
func (o *Object) SetTimes(atime, mtime, btime Time) error {
	if err := o.fault(OpTimes, ""); err != nil {
		return err
	}
	return o.set(retry(func() error { return o.setTimes(atime, mtime, btime) }), OpTimes)
}

// Xattrs returns the extended attributes whose names keep accepts, ACLs
// included. A file system that has none: an error for which Unsupported holds; where
// they must not be listed, one for which NotPermitted holds. If the values of some are
// refused, ErrUnread comes with the others.
func (o *Object) Xattrs(keep func(name string) bool) ([]Xattr, error) {
	if err := o.fault(OpGetXattr, ""); err != nil {
		return nil, err
	}
	return o.xattrs(keep)
}

// refusedValue reports whether an attribute that is listed must not or cannot be
// read. That its value is refused does not mean that the file system has none.
func refusedValue(err error) bool { return NotPermitted(err) || Unsupported(err) }

func unreadError(name string, err error) error {
	return fmt.Errorf("%w: %q: %v", ErrUnread, name, err) // not %w: it is not what Unsupported is about
}

// SetXattr creates or replaces one extended attribute.
func (o *Object) SetXattr(name string, value []byte) error {
	if err := o.fault(OpSetXattr, name); err != nil {
		return err
	}
	return o.xattrSet(retry(func() error { return o.setxattr(name, value) }), name, value)
}

// RemoveXattr removes one extended attribute; it is no error if there is none.
func (o *Object) RemoveXattr(name string) error {
	if err := o.fault(OpSetXattr, name); err != nil {
		return err
	}
	err := retry(func() error { return o.removexattr(name) })
	if err == errNoXattr {
		return nil
	}
	return o.xattrSet(err, name, nil)
}

// Close gives the descriptor back. What was written is committed by other means,
// so there is nothing to report.
func (o *Object) Close() { _ = o.close() }

// close reports what only close tells of lost writes, as NFS does.
func (o *Object) close() error {
	o.descriptor.closed()
	err := unix.Close(o.fd)
	if err == unix.EINTR { // the descriptor is gone all the same
		return nil
	}
	return err
}

// infoOf's conversions differ in width between systems.
func infoOf(st *unix.Stat_t) Info {
	info := Info{
		ID:     ID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, //nolint:unconvert // 32 bits elsewhere
		Mode:   uint32(st.Mode) & 0o7777,                     //nolint:unconvert // 16 bits on macOS
		Nlink:  uint64(st.Nlink),                             //nolint:unconvert // 16 bits on macOS
		UID:    st.Uid,
		GID:    st.Gid,
		Rdev:   uint64(st.Rdev), //nolint:unconvert // 32 bits on macOS
		Size:   st.Size,
		Blocks: int64(st.Blocks), //nolint:unconvert // unsigned elsewhere
	}
	switch uint32(st.Mode) & unix.S_IFMT { //nolint:unconvert // 16 bits on macOS
	case unix.S_IFREG:
		info.Kind = Regular
	case unix.S_IFDIR:
		info.Kind = Directory
	case unix.S_IFLNK:
		info.Kind = Symlink
	case unix.S_IFIFO:
		info.Kind = Fifo
	case unix.S_IFSOCK:
		info.Kind = Socket
	case unix.S_IFCHR:
		info.Kind = CharDevice
	case unix.S_IFBLK:
		info.Kind = BlockDevice
	default:
		info.Kind = Irregular
	}
	setTimesOf(&info, st)
	return info
}

func timeOf(ts unix.Timespec) Time {
	return Time{Sec: int64(ts.Sec), Nsec: int64(ts.Nsec)} //nolint:unconvert // 32 bits elsewhere
}

func timespecs(atime, mtime Time) [2]unix.Timespec {
	var ts [2]unix.Timespec
	setTimespec(&ts[0], atime)
	setTimespec(&ts[1], mtime)
	return ts
}

// retry calls f until it is not interrupted by a signal: Go's runtime sends
// itself signals, and FUSE and NFS answer them with EINTR.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func retryN(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
