package fsys

import "golang.org/x/sys/unix"

// SeeksByInode reports whether looking at entries in the order of their inode numbers
// may spare a device some seeking. That is what GNU's programs take for granted of all
// file systems but these.
func (d *Dir) SeeksByInode() bool {
	switch d.fileSystem() {
	case unix.TMPFS_MAGIC, unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return false
	}
	return true
}
