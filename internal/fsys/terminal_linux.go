package fsys

import (
	"os"

	"golang.org/x/sys/unix"
)

// ClaimTerminal claims the terminal f for this process until it ends, and reports whether that
// succeeded: only one process can. The claim is a POSIX lock, which belongs to the process and
// not to the open file that the commands of a shell share. A terminal that cannot be locked
// counts as claimed by this process.
func ClaimTerminal(f *os.File) bool {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	return err != unix.EAGAIN && err != unix.EACCES
}
