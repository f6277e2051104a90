//go:build !darwin

package fsys

// SyncToDrive is Sync: on these systems, fsync also flushes the drive's own cache.
func (f *File) SyncToDrive() error { return f.Sync() }

// SyncToDrive is Sync.
func (d *Dir) SyncToDrive() error { return d.Sync() }

// SyncDrive does nothing, because SyncToDrive has flushed the drive's cache.
func (d *Dir) SyncDrive() error { return d.fault(OpSyncDrive, "") }
