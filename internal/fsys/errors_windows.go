package fsys

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// The meanings of the codes: "System Error Codes" of learn.microsoft.com.

// errNotDirectory is the error of opening an entry that is no directory as a directory. It is
// not syscall.ENOTDIR, which is ERROR_PATH_NOT_FOUND here and counts as fs.ErrNotExist for
// errors.Is.
const errNotDirectory = windows.ERROR_DIRECTORY

// Unsupported reports whether err means that the file system or the system does not have
// the operation, as opposed to a failure of the operation.
func Unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) ||
		is(err, windows.ERROR_NOT_SUPPORTED, windows.ERROR_INVALID_FUNCTION, windows.ERROR_CALL_NOT_IMPLEMENTED)
}

// LinkRefused reports whether a hard link is not possible here, although a copy is. The file
// system has no hard links, the file has too many of them, or the device is another.
func LinkRefused(err error) bool {
	return Unsupported(err) || is(err, windows.ERROR_NOT_SAME_DEVICE, windows.ERROR_TOO_MANY_LINKS,
		windows.ERROR_PRIVILEGE_NOT_HELD, windows.ERROR_ACCESS_DENIED)
}

// DestinationLost reports whether err concerns the complete destination: it is full,
// read-only, or gone. The next file would fail there, too.
func DestinationLost(err error) bool {
	return is(err,
		windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
		windows.ERROR_DISK_RESOURCES_EXHAUSTED, windows.ERROR_WRITE_PROTECT,
		windows.ERROR_NOT_READY, windows.ERROR_DEV_NOT_EXIST, windows.ERROR_NO_SUCH_DEVICE,
		windows.ERROR_DEVICE_NOT_CONNECTED, windows.ERROR_DEVICE_REMOVED, windows.ERROR_NO_MEDIA_IN_DRIVE,
		windows.ERROR_MEDIA_CHANGED, windows.ERROR_WRONG_DISK, windows.ERROR_FILE_INVALID,
		windows.ERROR_BAD_NETPATH, windows.ERROR_BAD_NET_NAME, windows.ERROR_NETNAME_DELETED,
		windows.ERROR_UNEXP_NET_ERR, windows.ERROR_NETWORK_UNREACHABLE)
}

// DeviceFull reports whether err means that a file system is full.
func DeviceFull(err error) bool {
	return is(err, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL)
}

// NoSpace reports whether err means that the file system, or the quota of the user, is full.
func NoSpace(err error) bool { return DeviceFull(err) || is(err, windows.ERROR_DISK_QUOTA_EXCEEDED) }

// ReadOnly reports whether err means that a file system is read-only.
func ReadOnly(err error) bool { return is(err, windows.ERROR_WRITE_PROTECT) }

// NotPermitted reports whether err means that the user lacks a permission or a privilege.
func NotPermitted(err error) bool {
	return is(err, windows.ERROR_ACCESS_DENIED, windows.ERROR_PRIVILEGE_NOT_HELD)
}

// NameRefused reports whether err, from creating name in an existing directory, is about the
// name.
func NameRefused(_ string, err error) bool { return NameTooLong(err) }

// IsSymlinkRefusal reports whether err is that of opening a symbolic link without following
// it, or of opening an entry that is no directory as one.
func IsSymlinkRefusal(err error) bool {
	return is(err, syscall.ELOOP, errNotDirectory, windows.ERROR_STOPPED_ON_SYMLINK,
		windows.ERROR_CANT_ACCESS_FILE)
}

// InvalidArgument reports whether err means that a value cannot be stored.
func InvalidArgument(err error) bool {
	return is(err, syscall.EINVAL, windows.ERROR_INVALID_PARAMETER)
}

// XattrTooBig is always false: Windows has no such attributes.
func XattrTooBig(error) bool { return false }

// DeviceFailed reports whether err means that a device could not read or write, perhaps only
// one sector.
func DeviceFailed(err error) bool {
	return is(err, windows.ERROR_IO_DEVICE, windows.ERROR_CRC)
}

// InUse reports whether err means that another process has exclusive access to a file or a
// device.
func InUse(err error) bool {
	return is(err, windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION)
}

// NameTooLong reports whether err means that a name is too long for the file system. NTFS reports
// that as an invalid name.
func NameTooLong(err error) bool {
	return is(err, windows.ERROR_FILENAME_EXCED_RANGE, windows.ERROR_INVALID_NAME)
}

// reachOf classifies the errors of fast paths, which Windows does not have.
func reachOf(err error) Refusal {
	if Unsupported(err) {
		return RefusedPair
	}
	return NotRefused
}
