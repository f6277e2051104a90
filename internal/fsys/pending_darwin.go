package fsys

import "golang.org/x/sys/unix"

// tellsHoles is false: from within data, SEEK_DATA of macOS goes to the data behind
// the next hole, and SEEK_HOLE can be ENXIO where there is none (gnulib's lseek.c, GNU
// bug 51857); and on APFS they call holes what was written and not flushed yet
// (github.com/coreutils/coreutils/pull/68). Compressed files look as if they had holes.
const (
	tellsHoles = false
	seekData   = unix.SEEK_DATA
	seekHole   = unix.SEEK_HOLE
)

// renameNoReplace: rename(2) of macOS; a file system without it says ENOTSUP.
func renameNoReplace(dirfd int, oldName, newName string) error {
	return unix.RenameatxNp(dirfd, oldName, dirfd, newName, unix.RENAME_EXCL)
}
