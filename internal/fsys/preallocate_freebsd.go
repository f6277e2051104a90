package fsys

import "golang.org/x/sys/unix"

// Preallocate is not supported: posix_fallocate(2) changes the size, and ZFS
// refuses it.
func (f *File) Preallocate(int64) error {
	if err := f.fault(OpPreallocate, ""); err != nil {
		return err
	}
	return unix.ENOTSUP
}
