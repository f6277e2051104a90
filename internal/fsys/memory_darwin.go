package fsys

import "golang.org/x/sys/unix"

// Memory returns how many bytes of memory the machine has; 0 where it is not
// known (sysctl hw.memsize).
func Memory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
