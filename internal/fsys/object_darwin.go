package fsys

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const errNoXattr = unix.ENOATTR

func setTimesOf(info *Info, st *unix.Stat_t) {
	info.Atime, info.Mtime, info.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
	info.Btime = timeOf(st.Btim)
}

func timespecOf(t Time) unix.Timespec { return unix.Timespec{Sec: t.Sec, Nsec: t.Nsec} }

func (o *Object) fstat(st *unix.Stat_t) error {
	if o.entry != "" {
		return unix.Fstatat(o.fd, o.entry, st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return unix.Fstat(o.fd, st)
}

func (o *Object) chown(uid, gid int) error {
	if o.entry != "" {
		return unix.Fchownat(o.fd, o.entry, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	return unix.Fchown(o.fd, uid, gid)
}

// chmod sets the bits of mode that the caller may set. Linux drops setgid for a group that the
// caller is not in, and accepts the sticky bit of a file from every user. macOS refuses the call
// with EPERM and EFTYPE: chmod(2).
func (o *Object) chmod(mode uint32) error {
	err := o.fchmod(mode)
	if err == unix.EFTYPE && mode&ModeSticky != 0 {
		mode &^= ModeSticky
		err = o.fchmod(mode)
	}
	if err == unix.EPERM && mode&ModeSetgid != 0 {
		err = o.fchmod(mode &^ ModeSetgid)
	}
	return err
}

func (o *Object) fchmod(mode uint32) error {
	if o.entry != "" {
		return unix.Fchmodat(o.fd, o.entry, mode, unix.AT_SYMLINK_NOFOLLOW)
	}
	return unix.Fchmod(o.fd, mode)
}

// setTimes sets the creation time too, unless the file system has none.
func (o *Object) setTimes(atime, mtime, btime Time) error {
	const set = unix.ATTR_CMN_MODTIME | unix.ATTR_CMN_ACCTIME
	if btime != (Time{}) {
		err := o.setAttributes(unix.ATTR_CMN_CRTIME|set, timespecOf(btime), timespecOf(mtime), timespecOf(atime))
		if err != unix.EINVAL && !Unsupported(err) {
			return err
		}
	}
	return o.setAttributes(set, timespecOf(mtime), timespecOf(atime))
}

// setAttributes is fsetattrlist or setattrlistat: setattrlist(2). The times
// are in the order of their bits. x/sys/unix has only the call with a path, and futimes,
// which truncates nanoseconds.
func (o *Object) setAttributes(which uint32, times ...unix.Timespec) error {
	const sysSetattrlistat, noFollow = 524, 1 // sys/syscall.h, FSOPT_NOFOLLOW of sys/attr.h
	list := unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Commonattr: which}
	size := uintptr(len(times)) * unsafe.Sizeof(times[0])
	if o.entry == "" {
		_, _, e := unix.Syscall6(unix.SYS_FSETATTRLIST, uintptr(o.fd), uintptr(unsafe.Pointer(&list)),
			uintptr(unsafe.Pointer(&times[0])), size, 0, 0)
		return errOrNil(e)
	}
	name, err := unix.BytePtrFromString(o.entry)
	if err != nil {
		return err
	}
	_, _, e := unix.Syscall6(sysSetattrlistat, uintptr(o.fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&times[0])), size, noFollow)
	return errOrNil(e)
}

func errOrNil(e unix.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

// xattrs returns names unchanged: macOS has no name spaces. ACLs are no attributes on macOS
// and are not copied. xattrs also leaves out attributes that only the system sets: the origin
// of a file, its read permissions, and the protection of system files. Attributes in AppleDouble
// files are not supported: these files are copied like others.
func (o *Object) xattrs(keep func(string) bool) ([]Xattr, error) {
	if o.entry != "" {
		return nil, unix.ENOTSUP // no call takes a directory and a name
	}
	names, err := grow(func(buf []byte) (int, error) { return unix.Flistxattr(o.fd, buf) })
	if err != nil {
		return nil, err
	}
	system := []string{"com.apple.provenance", "com.apple.macl", "com.apple.rootless"}
	kept := slices.DeleteFunc(splitNames(names), func(name string) bool { return slices.Contains(system, name) || !keep(name) })
	if len(kept) > 0 && keepsDoubles(o.fd) {
		return nil, unix.ENOTSUP
	}
	return valuesOf(kept, func(string) bool { return true }, o.getxattr)
}

// getxattr reads the size first. For a resource fork that is larger than the buffer, the call
// returns the part that fits, without an error.
func (o *Object) getxattr(name string) ([]byte, error) {
	for range 10 {
		size, err := retryN(func() (int, error) { return unix.Fgetxattr(o.fd, name, nil) })
		if err != nil {
			return nil, err
		}
		value := make([]byte, size+1)
		n, err := retryN(func() (int, error) { return unix.Fgetxattr(o.fd, name, value) })
		switch {
		case err == nil && n == size:
			return value[:n], nil
		case err != nil && err != unix.ERANGE:
			return nil, err
		}
	}
	return nil, unix.EFBIG
}

// grow calls read with a larger buffer as long as read returns ERANGE.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	for buf := make([]byte, 512); ; buf = make([]byte, 4*len(buf)) {
		n, err := retryN(func() (int, error) { return read(buf) })
		if err == nil {
			return buf[:n], nil
		}
		if err != unix.ERANGE {
			return nil, err
		}
	}
}

func (o *Object) setxattr(name string, value []byte) error {
	if o.entry != "" || keepsDoubles(o.fd) {
		return unix.ENOTSUP
	}
	return unix.Fsetxattr(o.fd, name, value, 0)
}

func (o *Object) removexattr(name string) error {
	if o.entry != "" || keepsDoubles(o.fd) {
		return unix.ENOTSUP
	}
	return unix.Fremovexattr(o.fd, name)
}
