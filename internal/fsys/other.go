//go:build !linux

package fsys

// This file has the counterparts of the calls that only Linux has, and of
// filesystem_linux.go.

// lacks returns the error of an operation that the system does not have.
func (o *Object) lacks(op Op) error {
	if err := o.fault(op, ""); err != nil {
		return err
	}
	return errNotSupported
}

// DropCache is not possible: no call removes a file from memory and reports the result.
// fromDevice is always false.
func (f *File) DropCache() (fromDevice bool, err error) {
	return false, f.fault(OpDropCache, "")
}

// DeviceBacked is false: without a way to empty memory, nothing proves that what
// is read comes from the device.
func (o *Object) DeviceBacked() bool { return false }

// SetUncached is not possible: there is no such wish for a single call.
func (f *File) SetUncached(bool) (supported bool) { return false }

// Cached is unknown: no call reports it without a mapping.
func (f *File) Cached(_, _ int64) (some, known bool) { return false, false }

// StartWriteback is not supported: no call begins to write a part of a file.
func (f *File) StartWriteback(_, _ int64) error { return f.lacks(OpWriteback) }

// WaitWriteback is not supported: Datasync is the next best thing.
func (f *File) WaitWriteback(_, _ int64) error { return f.lacks(OpWriteback) }

// WritebackError is not supported: only forcing the file would tell.
func (f *File) WritebackError() error { return errNotSupported }

// SyncPart forces the file to the device: there is no call for a part of it.
func (f *File) SyncPart(_, _ int64) error { return f.Sync() }

// WritesBehind is false: see StartWriteback.
func (d *Dir) WritesBehind() bool { return false }

// WritesBehind is false: see StartWriteback.
func (s *Stream) WritesBehind() bool { return false }

// punch is not supported.
func (s *Stream) punch(_, _ int64) error { return errNotSupported }

// syncFS refuses: sync(2), which neither waits nor reports errors, is all that there is on
// Unix, and flushing a volume of Windows takes an administrator.
func (d *Dir) syncFS() error { return errNotSupported }

// syncFSReliable is false: every file needs a separate sync.
func (d *Dir) syncFSReliable() bool { return false }

// createUnnamed: no other system has O_TMPFILE; Create takes a temporary name.
func (d *Dir) createUnnamed(uint32) (*Pending, error) { return nil, errNotSupported }

// CopyRange moves bytes from a file to another without their passing through the
// program, which is not done here: never handled, refused for the pair. macOS has
// no call for it, FreeBSD has one since 13.0 (copy_file_range), of which x/sys/unix
// knows nothing, and Windows one for whole files by their paths (CopyFile2).
func (f *File) CopyRange(_ *File, _, _ int64) (moved int64, handled bool, err error) {
	err = f.lacks(OpCopyRange)
	reach := reachOf(err)
	return 0, reach == NotRefused, refused(err, reach)
}

// PreallocatesWell reports whether preallocation is known to cost nothing and to
// help, which was not measured here.
func (d *Dir) PreallocatesWell() bool { return false }

// Rotational reports whether the directory's file system is on a spinning disk. It does not
// check that here. Windows reports it for a volume (StorageDeviceSeekPenaltyProperty), and a
// handle does not have the name of its volume.
func (d *Dir) Rotational() bool { return false }

// InMemory is false: it is not asked here, and Windows has no such file system.
func (d *Dir) InMemory() bool { return false }

// noDevices reports whether the directory's file system is mounted so that its
// device nodes cannot be opened: it is not asked here.
func (d *Dir) noDevices() bool { return false }

// SeeksByInode is true: GNU's programs, which it is to agree with, do not look
// elsewhere than on Linux.
func (d *Dir) SeeksByInode() bool { return true }

// SizeSaysNothing reports whether the size of files of its kind is that of a page,
// whatever they hold.
func (*File) SizeSaysNothing() bool { return false }
