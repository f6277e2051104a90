package fsys

import "golang.org/x/sys/unix"

// deviceSize returns the size of a block device in bytes, by seeking to its end. FreeBSD has
// no block devices; its disks are character devices, intro(4).
func deviceSize(fd int) (int64, error) {
	here, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	if err != nil {
		return 0, err
	}
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err != nil {
		return 0, err
	}
	_, err = unix.Seek(fd, here, unix.SEEK_SET)
	return size, err
}
