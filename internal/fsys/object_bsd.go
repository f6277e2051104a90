//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

// chmodAsLinux calls chmod with what of mode the caller may set. Linux drops
// setgid for a group that the caller is not in, and takes the sticky bit of a
// file from anybody; these systems refuse the call, EPERM and EFTYPE: chmod(2).
func chmodAsLinux(mode uint32, chmod func(mode uint32) error) error {
	err := chmod(mode)
	if err == unix.EFTYPE && mode&ModeSticky != 0 {
		mode &^= ModeSticky
		err = chmod(mode)
	}
	if err == unix.EPERM && mode&ModeSetgid != 0 {
		err = chmod(mode &^ ModeSetgid)
	}
	return err
}
