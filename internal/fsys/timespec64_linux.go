//go:build linux && !386 && !arm

package fsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func secondsOf(t Time) int64 { return t.Sec }

// setTimesAt is utimensat(2); with neither path nor flags it sets the times of fd.
func setTimesAt(fd int, path string, atime, mtime Time, flags int) error {
	times := timespecs(atime, mtime)
	return utimensat(unix.SYS_UTIMENSAT, fd, path, unsafe.Pointer(&times), flags)
}
