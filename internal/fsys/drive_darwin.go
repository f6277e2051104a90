package fsys

import "golang.org/x/sys/unix"

// SyncToDrive writes the file's data and metadata to the drive with fsync(2). They may stay in
// the drive's own cache until SyncDrive.
func (f *File) SyncToDrive() error {
	return f.flush(Flush{Op: OpSync, ToDrive: true}, func() error { return unix.Fsync(f.fd) })
}

// SyncToDrive writes the directory's names to the drive. They may stay in the drive's own
// cache until SyncDrive.
func (d *Dir) SyncToDrive() error {
	return d.flush(Flush{Op: OpSync, ToDrive: true}, func() error { return unlessRefused(unix.Fsync(d.fd)) })
}

// SyncDrive makes all data durable that SyncToDrive has written to the directory's drive.
// According to fcntl(2), F_FULLFSYNC of one file does that for all files with an earlier
// fsync.
func (d *Dir) SyncDrive() error { return d.flush(Flush{Op: OpSyncDrive}, d.sync) }
