package fsys

import "golang.org/x/sys/unix"

// LowerPriority makes the process a background process, whose input and output is throttled:
// setpriority(2).
func LowerPriority() error {
	const (
		darwinProcess = 4      // PRIO_DARWIN_PROCESS
		background    = 0x1000 // PRIO_DARWIN_BG
	)
	return unix.Setpriority(darwinProcess, 0, background)
}
