//go:build unix

package fsys

import (
	"errors"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Unsupported reports whether err means that the file system or the system does not have
// the operation, as opposed to a failure of the operation.
func Unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || is(err, unix.ENOTTY) // ENOTSUP, EOPNOTSUPP and ENOSYS
}

// LinkRefused reports whether a hard link is not possible here, although a copy is. The file
// system has no hard links, the file has too many of them, or the device is another.
func LinkRefused(err error) bool {
	return Unsupported(err) || is(err, unix.EPERM, unix.EMLINK, unix.EXDEV)
}

// DestinationLost reports whether err concerns the complete destination: it is full,
// read-only, or gone. The next file would fail there, too.
func DestinationLost(err error) bool {
	// A disk that was unplugged is EIO, ENODEV or ESHUTDOWN on Linux, and ENXIO elsewhere:
	// "Device not configured", intro(2).
	return is(err, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.ENODEV, unix.ESTALE, unix.ENOTCONN,
		unix.ESHUTDOWN, unix.EHOSTDOWN) || runtime.GOOS != "linux" && is(err, unix.ENXIO)
}

// DeviceFull reports whether err means that a file system is full.
func DeviceFull(err error) bool { return is(err, unix.ENOSPC) }

// NoSpace reports whether err means that the file system, or the quota of the user, is full.
func NoSpace(err error) bool { return is(err, unix.ENOSPC, unix.EDQUOT) }

// ReadOnly reports whether err means that a file system is read-only.
func ReadOnly(err error) bool { return is(err, unix.EROFS) }

// NotPermitted reports whether err means that the user lacks a permission or a privilege.
func NotPermitted(err error) bool {
	return is(err, unix.EPERM, unix.EACCES)
}

// NameRefused reports whether err, from creating name in an existing directory, is about the
// name. It may be too long for the file system, not valid in its character set, or have
// characters that it refuses. For those, exFAT through FUSE returns ENOENT.
func NameRefused(name string, err error) bool {
	return is(err, unix.EINVAL, unix.EILSEQ, unix.ENAMETOOLONG) ||
		is(err, unix.ENOENT) && strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || strings.ContainsRune(`"*:<>?\|`, c) })
}

// IsSymlinkRefusal reports whether err is that of opening a symbolic link without following
// it, or of opening an entry that is no directory as one.
func IsSymlinkRefusal(err error) bool {
	return is(err, unix.ELOOP, unix.ENOTDIR, unix.EMLINK)
}

// InvalidArgument reports whether err is EINVAL: an owner that the file system
// cannot store, an attribute that it does not know.
func InvalidArgument(err error) bool { return is(err, unix.EINVAL) }

// XattrTooBig reports whether err, from SetXattr, means that the attribute is too large. ext4
// returns ENOSPC if the attributes of one file exceed its block.
func XattrTooBig(err error) bool {
	return is(err, unix.ENOSPC, unix.E2BIG, unix.ERANGE, unix.EDQUOT)
}

// DeviceFailed reports whether err means that a device could not read or write, perhaps only
// one sector.
func DeviceFailed(err error) bool { return is(err, unix.EIO) }

// InUse reports whether err means that another user of a device has exclusive access, for
// example a mounted file system.
func InUse(err error) bool { return is(err, unix.EBUSY) }

// NameTooLong reports whether err means that a name is too long for the file system.
func NameTooLong(err error) bool { return is(err, unix.ENAMETOOLONG) }
