//go:build unix

package fsys

import "golang.org/x/sys/unix"

// reachOf classifies the errors of copy_file_range(2), ioctl_ficlone(2) and clonefile(2). Its
// list contains the errors after which reading and writing can still succeed, as in Go's
// internal/poll and coreutils (copy-file-data.c). ENOSPC, EDQUOT, EIO and all others would
// fail again.
func reachOf(err error) Refusal {
	if Unsupported(err) || err == unix.EXDEV {
		return RefusedPair
	}
	switch err {
	case unix.EINVAL, // attributes that differ (btrfs without checksums), a length that fits no block
		unix.EPERM, unix.EACCES, // an immutable file, a filter of system calls, or an SMB server
		unix.ENOENT,  // CIFS returns it
		unix.EBADF,   // the descriptor is open for appending only
		unix.ETXTBSY, // the file is in use for swapping
		unix.EFBIG,   // the size is over a limit: a write reports it
		unix.EAGAIN:  // ZFS: data that was just written is not allocated yet
		return RefusedFile
	}
	return NotRefused
}
