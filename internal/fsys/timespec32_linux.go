//go:build linux && (386 || arm)

package fsys

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

type timespec64 struct{ sec, nsec int64 } // struct __kernel_timespec

// hasTimes64 reports whether the kernel has the call for times after 2038, new in Linux 5.1.
var hasTimes64 = sync.OnceValue(func() bool {
	return utimensat64(-1, "a", &[2]timespec64{}, 0) == unix.EBADF
})

// setTimesAt is utimensat(2); with neither path nor flags it sets the times of fd.
func setTimesAt(fd int, path string, atime, mtime Time, flags int) error {
	if hasTimes64() {
		return utimensat64(fd, path, &[2]timespec64{{atime.Sec, atime.Nsec}, {mtime.Sec, mtime.Nsec}}, flags)
	}
	times := timespecs(atime, mtime)
	return utimensat(unix.SYS_UTIMENSAT, fd, path, unsafe.Pointer(&times), flags)
}

func utimensat64(fd int, path string, times *[2]timespec64, flags int) error {
	return utimensat(unix.SYS_UTIMENSAT_TIME64, fd, path, unsafe.Pointer(times), flags)
}

// secondsOf limits a time to the range of a time_t of 32 bits.
func secondsOf(t Time) int32 { return int32(min(max(t.Sec, -1<<31), 1<<31-1)) }
