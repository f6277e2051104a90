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

// DeviceBacked is false: these systems cannot drop a file from memory, so nothing proves that
// a read comes from the device.
func (o *Object) DeviceBacked() bool { return false }

// SetUncached is not possible: these systems have no such flag for a single call.
func (f *File) SetUncached(bool) (supported bool) { return false }

// Cached is unknown: no call reports it without a mapping.
func (f *File) Cached(_, _ int64) (some, known bool) { return false, false }

// StartWriteback is not supported: no call begins to write a part of a file.
func (f *File) StartWriteback(_, _ int64) error { return f.lacks(OpWriteback) }

// WaitWriteback is not supported. Datasync is the best substitute.
func (f *File) WaitWriteback(_, _ int64) error { return f.lacks(OpWriteback) }

// SyncPart syncs the complete file: these systems have no call for a part of it.
func (f *File) SyncPart(_, _ int64) error { return f.Sync() }

// WritesBehind is false: see StartWriteback.
func (d *Dir) WritesBehind() bool { return false }

// WritesBehind is false: see StartWriteback.
func (s *Stream) WritesBehind() bool { return false }

// punch is not supported.
func (s *Stream) punch(_, _ int64) error { return errNotSupported }

// syncFS is not supported. Unix has only sync(2), which neither waits nor returns errors.
// Flushing a volume of Windows needs an administrator.
func (d *Dir) syncFS() error { return errNotSupported }

// syncFSReliable is false: every file needs a separate sync.
func (d *Dir) syncFSReliable() bool { return false }

// sharesSyncErrors is false: daemons of these systems were not examined.
func (d *Dir) sharesSyncErrors() bool { return false }

// createUnnamed is not supported: only Linux has O_TMPFILE. Create uses a temporary name.
func (d *Dir) createUnnamed(uint32) (*Pending, error) { return nil, errNotSupported }

// mayHaveXattrs is true: these systems list only the extended attributes of open files.
func (d *Dir) mayHaveXattrs(string) bool { return true }

// CopyRange is not supported: handled is always false, and the refusal is for the pair of
// devices. macOS has no call for it. Windows has one for complete files by their paths
// (CopyFile2).
func (f *File) CopyRange(_ *File, _, _ int64) (moved int64, handled bool, err error) {
	err = f.lacks(OpCopyRange)
	reach := reachOf(err)
	return 0, reach == NotRefused, refused(err, reach)
}

// PreallocatesWell is false: whether preallocation helps was not measured on these systems.
func (d *Dir) PreallocatesWell() bool { return false }

// Rotational reports whether the directory's file system is on a spinning disk. It does not
// check that here. Windows reports it for a volume (StorageDeviceSeekPenaltyProperty), and a
// handle does not have the name of its volume.
func (d *Dir) Rotational() bool { return false }

// InMemory is false: these systems are not queried, and Windows has no such file system.
func (d *Dir) InMemory() bool { return false }

// noDevices is false: these systems are not queried for mounts on which device nodes cannot be
// opened.
func (d *Dir) noDevices() bool { return false }

// SeeksByInode is true: GNU's programs, which it has to match, check file systems only on
// Linux.
func (d *Dir) SeeksByInode() bool { return true }

// SizeSaysNothing is false: these systems have no files whose size is always that of a page.
func (*File) SizeSaysNothing() bool { return false }
