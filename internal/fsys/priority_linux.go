package fsys

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LowerPriority gives the process the lowest priority of best effort at its devices: ioprio_set(2).
// Other programs are served first, and the process is never starved. A thread in the idle class, which
// is lower, stays there. The priority belongs to threads, and new threads inherit it.
func LowerPriority() error {
	const (
		ofThread = 1         // IOPRIO_WHO_PROCESS
		idle     = 3         // IOPRIO_CLASS_IDLE
		lowest   = 2<<13 | 7 // IOPRIO_CLASS_BE, level 7
	)
	for range 2 { // the second round finds threads that have begun during the first one
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if now, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ofThread, uintptr(id), 0); errno == 0 && now>>13 == idle {
				continue
			}
			if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, uintptr(id), lowest); errno != 0 && errno != unix.ESRCH {
				return errno
			}
		}
	}
	return nil
}
