//go:build linux || freebsd

package fsys

import "golang.org/x/sys/unix"

// setDirectFlag sets or clears O_DIRECT of the open file (fcntl, F_SETFL).
func setDirectFlag(fd int, on bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}
