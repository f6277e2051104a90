package fsys

import "golang.org/x/sys/unix"

const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE
)

// renameNoReplace: rename(2) of macOS; a file system without it says ENOTSUP.
func renameNoReplace(dirfd int, oldName, newName string) error {
	return unix.RenameatxNp(dirfd, oldName, dirfd, newName, unix.RENAME_EXCL)
}
