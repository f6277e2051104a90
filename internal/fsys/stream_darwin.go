package fsys

import "golang.org/x/sys/unix"

// deviceSize returns the size of a block device in bytes. lseek to the end returns 0 here, so
// it uses the ioctls of the disk.
func deviceSize(fd int) (int64, error) {
	const getBlockSize, getBlockCount = 0x40046418, 0x40086419 // DKIOCGETBLOCKSIZE, DKIOCGETBLOCKCOUNT of sys/disk.h
	size, err := retryN(func() (int, error) { return unix.IoctlGetInt(fd, getBlockSize) })
	if err != nil {
		return 0, err
	}
	count, err := retryN(func() (int, error) { return unix.IoctlGetInt(fd, getBlockCount) })
	return int64(size) * int64(count), err
}
