//go:build !darwin

package fsys

// SyncToDrive is Sync: fsync flushes the drive's own cache where anything does.
func (f *File) SyncToDrive() error { return f.Sync() }

// SyncToDrive is Sync.
func (d *Dir) SyncToDrive() error { return d.Sync() }

// SyncDrive has nothing left to do.
func (d *Dir) SyncDrive() error { return d.fault(OpSyncDrive, "") }
