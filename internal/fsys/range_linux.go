package fsys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxRange is what one call moves at most, in bytes: MAX_RW_COUNT of the kernel.
const maxRange = 0x7ffff000

// CopyRange moves at most n bytes from the offset off of src to the same offset
// of f inside the kernel, or on a server, by one call of copy_file_range(2). moved
// is how many; it may be fewer than asked for, 2,147,479,552 at most. Neither
// file's position plays a part. What is moved goes through the page cache, or
// becomes a clone where the file system likes to make one.
//
// handled is false, with 0 bytes moved by this call, where the way is closed:
// RefusalOf(err) tells for how many files. Only before the first byte of a file
// is that harmless: EIO over SMB counts as a refusal and may be an error of what
// earlier calls have moved. Any other error is one of copying.
//
// 0 bytes without an error are the end of src, or what a file system says that
// cannot do it: FUSE, procfs and sysfs, before Linux 5.19 even if there is
// content. The caller knows which, by the size. After SetDirect or SetUncached of
// either file it is refused for this file.
func (f *File) CopyRange(src *File, off, n int64) (moved int64, handled bool, err error) {
	if err := f.fault(OpCopyRange, ""); err != nil {
		return f.rangeFailed(src, err)
	}
	if f.direct.Load() || src.direct.Load() || f.uncached.Load() || src.uncached.Load() {
		return 0, false, refused(errNotSupported, RefusedFile)
	}
	if !f.calls().rangesTrusted() { // as in Go's internal/poll: copies between file systems are new in 5.3
		return f.rangeFailed(src, unix.ENOSYS)
	}
	if n <= 0 {
		return 0, true, nil
	}
	some, err := retryN(func() (int, error) {
		from, to := off, off
		return f.calls().copyFileRange(src.fd, &from, f.fd, &to, int(min(n, maxRange)), 0)
	})
	if err != nil {
		return f.rangeFailed(src, err)
	}
	return int64(some), true, f.filled(off, int64(some))
}

func (f *File) rangeFailed(src *File, err error) (moved int64, handled bool, _ error) {
	reach := reachBetween(err, src, f)
	return 0, reach == NotRefused, refused(err, reach)
}

// releaseAtLeast compares a kernel's release, as of uname(2): "6.1.0-13-amd64".
func releaseAtLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}
