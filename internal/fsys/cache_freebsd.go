package fsys

import "golang.org/x/sys/unix"

// SetDirect requests further reads past the buffer cache, or ends that (O_DIRECT of
// open(2)). ZFS and most other file systems may ignore the request, so fromDevice is always
// false.
func (f *File) SetDirect(on bool) (fromDevice bool, err error) {
	err = setDirectFlag(f.fd, on)
	if err == unix.EINVAL {
		err = unix.ENOTSUP
	}
	f.direct.Store(on && err == nil)
	return false, err
}

// DropCacheBehind advises the kernel that the n bytes at off are not needed again. The kernel
// uses their pages first when it needs memory.
func (f *File) DropCacheBehind(off, n int64) {
	if n > 0 { // 0 means to the end of the file
		_ = unix.Fadvise(f.fd, off, n, unix.FADV_DONTNEED)
	}
}
