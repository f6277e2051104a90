//go:build unix

package fsys

import "golang.org/x/sys/unix"

// reachOf knows the answers of copy_file_range(2), ioctl_ficlone(2) and
// clonefile(2) that leave reading and writing open: those that Go's internal/poll
// and coreutils (copy-file-data.c) take so. ENOSPC, EDQUOT, EIO and whatever else
// is not among them failed, and would fail again.
func reachOf(err error) Refusal {
	if Unsupported(err) || err == unix.EXDEV {
		return RefusedPair
	}
	switch err {
	case unix.EINVAL, // attributes that differ (btrfs without checksums), a length that fits no block
		unix.EPERM, unix.EACCES, // immutable, or a filter of system calls, or an SMB server
		unix.ENOENT,  // CIFS
		unix.EBADF,   // open for appending only
		unix.ETXTBSY, // in use for swapping
		unix.EFBIG,   // over a limit of size: a write reports it
		unix.EAGAIN:  // ZFS: what was just written has no place on the device yet
		return RefusedFile
	}
	return NotRefused
}
