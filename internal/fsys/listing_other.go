//go:build !linux

package fsys

// SeeksByInode is true: GNU's programs, which it is to agree with, do not look
// elsewhere than on Linux.
func (d *Dir) SeeksByInode() bool { return true }
