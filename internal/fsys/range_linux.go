package fsys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxRange is the largest number of bytes that one call copies: MAX_RW_COUNT of the kernel.
const maxRange = 0x7ffff000

// CopyRange copies at most n bytes from the offset off of src to the same offset of f by one
// call of copy_file_range(2). The kernel or a server copies them. moved is their number. It
// may be less than requested, at most 2,147,479,552. The positions of the files have no
// effect. The data goes through the page cache, or the file system may make a clone.
//
// handled is false, with 0 bytes moved by this call, if the call is refused: RefusalOf(err)
// returns for how many files. Falling back is safe only before the first byte of a file. EIO
// over SMB counts as a refusal, and may be an error of data that earlier calls have moved. Any
// other error is one of copying.
//
// 0 bytes without an error mean the end of src, or a file system that does not support the
// call. These are FUSE, procfs and sysfs, before Linux 5.19 even if there is content. The
// caller distinguishes them by the size. After SetDirect or SetUncached of either file, the
// call is refused for this file.
func (f *File) CopyRange(src *File, off, n int64) (moved int64, handled bool, err error) {
	if err := f.fault(OpCopyRange, ""); err != nil {
		return f.rangeFailed(src, err)
	}
	if f.direct.Load() || src.direct.Load() || f.uncached.Load() || src.uncached.Load() {
		return 0, false, refused(errNotSupported, RefusedFile)
	}
	if !f.calls().rangesTrusted() { // the call fails between file systems before Linux 5.3; see Go's internal/poll
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
