package fsys

import "golang.org/x/sys/unix"

// SyncToDrive forces the file's data and metadata to the drive, in whose own cache they
// may stay until SyncDrive: fsync(2).
func (f *File) SyncToDrive() error {
	if err := f.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := f.flushed(Flush{Op: OpSync, ToDrive: true}); done {
		return err
	}
	return retry(func() error { return unix.Fsync(f.fd) })
}

// SyncToDrive forces the directory's names to the drive, in whose own cache they may
// stay until SyncDrive.
func (d *Dir) SyncToDrive() error {
	if err := d.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := d.flushed(Flush{Op: OpSync, ToDrive: true}); done {
		return err
	}
	err := retry(func() error { return unix.Fsync(d.fd) })
	if err == unix.EINVAL { // as in Sync
		return nil
	}
	return err
}

// SyncDrive makes what SyncToDrive has forced durable, of all files and directories on
// the directory's drive: fcntl(2) has it that F_FULLFSYNC of one file does that for all
// for which fsync was called before.
func (d *Dir) SyncDrive() error {
	if err := d.fault(OpSyncDrive, ""); err != nil {
		return err
	}
	if done, err := d.flushed(Flush{Op: OpSyncDrive}); done {
		return err
	}
	return d.Sync()
}
