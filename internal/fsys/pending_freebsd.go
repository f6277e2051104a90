package fsys

import "golang.org/x/sys/unix"

const (
	tellsHoles = true
	seekData   = unix.SEEK_DATA
	seekHole   = unix.SEEK_HOLE
)

// renameNoReplace: FreeBSD 14 has no exclusive rename; renameNew links instead.
func renameNoReplace(int, string, string) error { return unix.ENOTSUP }
