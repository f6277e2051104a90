package fsys

import "golang.org/x/sys/unix"

// SizeSaysNothing reports whether the size of files of its kind is that of a page,
// whatever they hold, as in sysfs: the end is where reading ends.
func (f *File) SizeSaysNothing() bool { return f.fileSystem() == unix.SYSFS_MAGIC }
