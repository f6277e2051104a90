//go:build unix

package fsys

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Unsupported reports whether err says that the file system or the system
// cannot do such a thing at all, as opposed to having failed to do it.
func Unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.ENOTTY) // ENOTSUP, EOPNOTSUPP and ENOSYS
}

// LinkRefused reports whether a hard link cannot be made here, for reasons that
// do not keep the file from being copied: none on this file system, too many
// links of one file, another device.
func LinkRefused(err error) bool {
	return Unsupported(err) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EXDEV)
}

// DestinationLost reports whether err concerns a destination as a whole: it is
// full, read-only, or gone. Trying the next file there makes no sense.
func DestinationLost(err error) bool {
	for _, e := range []error{
		unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.ENODEV, unix.ESTALE, unix.ENOTCONN,
		unix.ESHUTDOWN, unix.EHOSTDOWN,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return deviceGone(err)
}

// NotPermitted reports whether err is a matter of privilege.
func NotPermitted(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}

// NameRefused reports whether err, from making name in a directory that is there,
// is about the name: too long for the file system, no text in its character set, or
// with characters that it does not take, for which exFAT through FUSE has ENOENT.
func NameRefused(name string, err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.ENAMETOOLONG) ||
		errors.Is(err, unix.ENOENT) && strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || strings.ContainsRune(`"*:<>?\|`, c) })
}

// IsSymlinkRefusal reports whether err is the answer to opening a symbolic link
// without following it, or something else than a directory as one.
func IsSymlinkRefusal(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EMLINK)
}

// InvalidArgument reports whether err is EINVAL: an owner that the file system
// cannot store, an attribute that it does not know.
func InvalidArgument(err error) bool { return errors.Is(err, unix.EINVAL) }

// XattrTooBig reports whether err, from SetXattr, is about the attribute: ext4
// answers ENOSPC when the attributes of one file outgrow its block.
func XattrTooBig(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.E2BIG, unix.ERANGE, unix.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// DeviceFailed reports whether err says that a device did not read or write, which
// may be about one sector of it.
func DeviceFailed(err error) bool { return errors.Is(err, unix.EIO) }

// InUse reports whether err says that somebody else has a device for himself, a
// mounted file system for instance.
func InUse(err error) bool { return errors.Is(err, unix.EBUSY) }
