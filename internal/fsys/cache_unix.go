//go:build linux || freebsd

package fsys

import "golang.org/x/sys/unix"

// setFlag sets or clears a flag of the open file (fcntl, F_SETFL).
func setFlag(fd, flag int, on bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= flag; on {
		flags |= flag
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}
