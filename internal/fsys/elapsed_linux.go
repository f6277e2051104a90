package fsys

import (
	"time"

	"golang.org/x/sys/unix"
)

// Elapsed returns the time since an arbitrary instant. It includes the time in which the
// system was suspended, which package time does not count on Linux.
func Elapsed() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano())
}

var started = time.Now()
