package fsys

import (
	"os"

	"golang.org/x/sys/unix"
)

// ClaimTerminal reports whether no other process has claimed the terminal that f is, and
// claims it until this process ends. The claim is a lock of POSIX: it belongs to the process
// and not to the open file, which the commands of a shell share. A terminal that cannot be
// locked counts as claimed by this process.
func ClaimTerminal(f *os.File) bool {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	return err != unix.EAGAIN && err != unix.EACCES
}
