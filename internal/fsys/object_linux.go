package fsys

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const errNoXattr = unix.ENODATA

const maxXattr = 64 << 10 // bytes in a value, XATTR_SIZE_MAX of linux/limits.h

// errNoProc is a refusal: the objects in /proc/self/fd are not available.
var errNoProc = fmt.Errorf("/proc is not mounted: %w", unix.EPERM)

func (o *Object) procPath() string { return o.calls().procFD + strconv.Itoa(o.fd) }

// procError returns the error of a call with the procPath of an O_PATH descriptor. If that path
// does not exist, /proc is not mounted.
func procError(err error) error {
	if err == unix.ENOENT {
		return errNoProc
	}
	return err
}

func setTimesOf(info *Info, st *unix.Stat_t) {
	info.Atime, info.Mtime, info.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
}

// ioctl calls ioctl(2) with the address of a structure.
func ioctl(fd int, request uintptr, structure unsafe.Pointer) error {
	return retry(func() error {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(structure))
		if e != 0 {
			return e
		}
		return nil
	})
}

func (o *Object) fstat(st *unix.Stat_t) error { return unix.Fstat(o.fd, st) }

func (o *Object) chown(uid, gid int) error {
	if o.pathOnly {
		return unix.Fchownat(o.fd, "", uid, gid, unix.AT_EMPTY_PATH)
	}
	return unix.Fchown(o.fd, uid, gid)
}

func (o *Object) chmod(mode uint32) error {
	if o.pathOnly {
		err := procError(unix.Chmod(o.procPath(), mode))
		if err == errNoProc {
			err = unix.Fchmodat(o.fd, "", mode, unix.AT_EMPTY_PATH) // Linux 6.6
		}
		if Unsupported(err) {
			err = errNoProc
		}
		return err
	}
	return unix.Fchmod(o.fd, mode)
}

func (o *Object) setTimes(atime, mtime, _ Time) error {
	if o.pathOnly {
		err := procError(setTimesAt(unix.AT_FDCWD, o.procPath(), atime, mtime, 0))
		if err == errNoProc {
			err = setTimesAt(o.fd, "", atime, mtime, unix.AT_EMPTY_PATH) // Linux 5.8
		}
		return err
	}
	return setTimesAt(o.fd, "", atime, mtime, 0)
}

// kernelTimespec is struct __kernel_timespec, which has 64 bits for seconds on every processor.
type kernelTimespec struct{ sec, nsec int64 }

// setTimesAt is utimensat(2). With neither path nor flags it is futimens: x/sys cannot pass a null
// path.
func setTimesAt(fd int, path string, atime, mtime Time, flags int) error {
	var name *byte
	if path != "" || flags != 0 {
		var err error
		if name, err = unix.BytePtrFromString(path); err != nil {
			return err
		}
	}
	times := [2]kernelTimespec{{atime.Sec, atime.Nsec}, {mtime.Sec, mtime.Nsec}}
	_, _, e := unix.Syscall6(sysUtimensat, uintptr(fd), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&times)), uintptr(flags), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func (o *Object) xattrs(keep func(string) bool) ([]Xattr, error) {
	var small [512]byte
	names := small[:]
	n, err := retryN(func() (int, error) { return o.listxattr(names) })
	for err == unix.ERANGE {
		names = make([]byte, 4*len(names))
		n, err = retryN(func() (int, error) { return o.listxattr(names) })
	}
	if err != nil {
		return nil, err
	}
	listed := slices.DeleteFunc(splitNames(names[:n]), isSecondACL)
	return valuesOf(listed, keep, o.getxattr)
}

// isSecondACL reports whether name is an attribute in which XFS lists an ACL for a second time, to
// root only. Setting or removing the attribute changes the ACL.
func isSecondACL(name string) bool {
	return name == "trusted.SGI_ACL_FILE" || name == "trusted.SGI_ACL_DEFAULT"
}

func (o *Object) getxattr(name string) ([]byte, error) {
	value := make([]byte, 256)
	for {
		n, err := retryN(func() (int, error) {
			if o.pathOnly {
				n, err := unix.Getxattr(o.procPath(), name, value)
				return n, procError(err)
			}
			return unix.Fgetxattr(o.fd, name, value)
		})
		if err == unix.ERANGE && len(value) < maxXattr { // with a larger buffer, the name is too long
			value = make([]byte, 4*len(value))
			continue
		}
		if err != nil {
			return nil, err
		}
		return value[:n], nil
	}
}

func (o *Object) listxattr(dest []byte) (int, error) {
	if o.pathOnly {
		n, err := unix.Listxattr(o.procPath(), dest)
		return n, procError(err)
	}
	return unix.Flistxattr(o.fd, dest)
}

// noListxattrat remembers that the kernel lacks listxattrat, which is new in Linux 6.13.
var noListxattrat atomic.Bool

// mayHaveXattrs reports whether the entry may have extended attributes: it has some, or
// the system cannot list them by name.
func (d *Dir) mayHaveXattrs(name string) bool {
	path, err := unix.BytePtrFromString(name)
	if noListxattrat.Load() || d.pathOnly || err != nil {
		return true
	}
	n, err := retryN(func() (int, error) {
		n, _, e := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(d.fd), uintptr(unsafe.Pointer(path)), unix.AT_SYMLINK_NOFOLLOW, 0, 0, 0)
		if e != 0 {
			return 0, e
		}
		return int(n), nil
	})
	if err == unix.ENOSYS {
		noListxattrat.Store(true)
	}
	return n > 0 || err != nil && !(Unsupported(err) && err != unix.ENOSYS)
}

func (o *Object) setxattr(name string, value []byte) error {
	if o.pathOnly {
		return procError(unix.Setxattr(o.procPath(), name, value, 0))
	}
	return unix.Fsetxattr(o.fd, name, value, 0)
}

func (o *Object) removexattr(name string) error {
	if o.pathOnly {
		return procError(unix.Removexattr(o.procPath(), name))
	}
	return unix.Fremovexattr(o.fd, name)
}
