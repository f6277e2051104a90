package fsys

import (
	"strings"

	"golang.org/x/sys/unix"
)

const errNoXattr = unix.ENOATTR

// setTimesOf sets the times of info. Btime stays zero on file systems that return -1 because
// they store none: stat(2).
func setTimesOf(info *Info, st *unix.Stat_t) {
	info.Atime, info.Mtime, info.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
	if st.Btim.Sec != -1 {
		info.Btime = timeOf(st.Btim)
	}
}

func setTimespec(ts *unix.Timespec, t Time) { *ts = unix.Timespec{Sec: t.Sec, Nsec: t.Nsec} }

func (o *Object) fstat(st *unix.Stat_t) error { return unix.Fstat(o.fd, st) }

// The at-calls with AT_EMPTY_PATH work on any descriptor, O_PATH or not:
// chmod(2), chown(2), utimensat(2).

func (o *Object) chown(uid, gid int) error {
	return unix.Fchownat(o.fd, "", uid, gid, atEmptyPath)
}

func (o *Object) chmod(mode uint32) error {
	return chmodAsLinux(mode, func(mode uint32) error { return unix.Fchmodat(o.fd, "", mode, atEmptyPath) })
}

// setTimes sets btime as utimensat(2) describes. A modification time before the creation
// time moves the creation time to it, so two calls set both. A
// creation time after the modification time cannot be set.
func (o *Object) setTimes(atime, mtime, btime Time) error {
	if btime != (Time{}) && btime.Compare(mtime) < 0 {
		ts := timespecs(atime, btime)
		if err := unix.UtimesNanoAt(o.fd, "", ts[:], atEmptyPath); err != nil {
			return err
		}
	}
	ts := timespecs(atime, mtime)
	return unix.UtimesNanoAt(o.fd, "", ts[:], atEmptyPath)
}

// withXattrs runs f on a descriptor that the extattr calls accept: not one of
// O_PATH. Only files and directories are opened for it: opening a fifo or a
// device has effects, and a link cannot be opened.
func (o *Object) withXattrs(f func(fd int) error) error {
	if !o.pathOnly {
		return f(o.fd)
	}
	info, err := o.stat()
	if err != nil {
		return err
	}
	if info.Kind != Regular && info.Kind != Directory {
		return unix.ENOTSUP
	}
	fd, err := retryN(func() (int, error) {
		return unix.Openat(o.fd, "", oEmptyPath|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// xattrs returns the attributes of the name space for users as "user.x", as Linux does and as
// x/sys/unix expects. Those of the other name space, extattr(2), belong to the file system: ACLs,
// for example.
func (o *Object) xattrs(keep func(string) bool) (list []Xattr, err error) {
	err = o.withXattrs(func(fd int) error {
		listed, err := grow(func(buf []byte) (int, error) { return unix.FlistxattrNS(fd, unix.EXTATTR_NAMESPACE_USER, buf) })
		if err != nil {
			return err
		}
		var names []string
		for len(listed) > 0 { // a length byte, then the name: extattr(2)
			end := min(1+int(listed[0]), len(listed))
			names = append(names, "user."+string(listed[1:end]))
			listed = listed[end:]
		}
		list, err = valuesOf(names, keep, func(name string) ([]byte, error) {
			return grow(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		})
		return err
	})
	return list, err
}

// grow calls read with larger buffers until a part of the buffer stays free, because the call
// fills a buffer that is too small and returns no error.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	for buf := make([]byte, 512); ; buf = make([]byte, 4*len(buf)) {
		n, err := retryN(func() (int, error) { return read(buf) })
		if err != nil {
			return nil, err
		}
		if n < len(buf) {
			return buf[:n], nil
		}
	}
}

func (o *Object) setxattr(name string, value []byte) error {
	if !knownSpace(name) {
		return unix.ENOTSUP
	}
	return o.withXattrs(func(fd int) error { return unix.Fsetxattr(fd, name, value, 0) })
}

func (o *Object) removexattr(name string) error {
	if !knownSpace(name) {
		return errNoXattr
	}
	return o.withXattrs(func(fd int) error { return unix.Fremovexattr(fd, name) })
}

// knownSpace reports whether x/sys/unix can map a name. For others its Fsetxattr
// loses the error and reports success.
func knownSpace(name string) bool {
	space, rest, _ := strings.Cut(name, ".")
	return (space == "user" || space == "system") && rest != ""
}
