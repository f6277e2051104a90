//go:build unix

package fsys

import (
	"os"

	"golang.org/x/sys/unix"
)

// InForeground reports whether the job of this process has the terminal f. It has not if a shell has
// started it with &, or has continued it with bg. It has every file that is not the terminal of the process.
func InForeground(f *os.File) bool {
	job, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || job == unix.Getpgrp()
}
