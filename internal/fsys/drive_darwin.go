package fsys

import "golang.org/x/sys/unix"

// SyncToDrive forces the file's data and metadata to the drive, in whose own cache they
// may stay until SyncDrive: fsync(2).
func (f *File) SyncToDrive() error {
	return f.flush(Flush{Op: OpSync, ToDrive: true}, func() error { return unix.Fsync(f.fd) })
}

// SyncToDrive forces the directory's names to the drive, in whose own cache they may
// stay until SyncDrive.
func (d *Dir) SyncToDrive() error {
	return d.flush(Flush{Op: OpSync, ToDrive: true}, func() error { return unlessRefused(unix.Fsync(d.fd)) })
}

// SyncDrive makes all data durable that SyncToDrive has written to the directory's drive.
// According to fcntl(2), F_FULLFSYNC of one file does that for all files with an earlier
// fsync.
func (d *Dir) SyncDrive() error { return d.flush(Flush{Op: OpSyncDrive}, d.sync) }
