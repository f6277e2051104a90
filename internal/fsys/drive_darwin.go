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

// SyncDrive makes what SyncToDrive has forced durable, of all files and directories on
// the directory's drive: fcntl(2) has it that F_FULLFSYNC of one file does that for all
// for which fsync was called before.
func (d *Dir) SyncDrive() error { return d.flush(Flush{Op: OpSyncDrive}, d.sync) }
