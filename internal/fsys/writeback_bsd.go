//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

// StartWriteback is not supported: no call begins to write a part of a file.
func (f *File) StartWriteback(_, _ int64) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return unix.ENOTSUP
}

// WaitWriteback is not supported: Datasync is the next best thing.
func (f *File) WaitWriteback(_, _ int64) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return unix.ENOTSUP
}

// WritebackError is not supported: only forcing the file would tell.
func (f *File) WritebackError() error { return unix.ENOTSUP }

// SyncPart forces the file to the device: there is no call for a part of it.
func (f *File) SyncPart(_, _ int64) error { return f.Sync() }

// WritesBehind is false: see StartWriteback.
func (d *Dir) WritesBehind() bool { return false }

// KeepsChangeTime reports whether the file system stores when a file was changed.
// Those of the FAT family do not, and tell the modification time, which programs
// can set.
func (d *Dir) KeepsChangeTime() bool {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return false
	}
	switch unix.ByteSliceToString(st.Fstypename[:]) {
	case "msdos", "exfat", "msdosfs":
		return false
	}
	return true
}

// InMemory is false: it is not asked here.
func (d *Dir) InMemory() bool { return false }
