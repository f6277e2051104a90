//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

// createUnnamed: neither system has O_TMPFILE; Create takes a temporary name.
func (d *Dir) createUnnamed() (*Pending, error) { return nil, unix.ENOTSUP }

// linkUnnamed is never reached without createUnnamed.
func (p *Pending) linkUnnamed(string) error { return unix.ENOTSUP }

// SyncFS refuses: sync(2) is all that there is, and it neither waits nor
// reports errors.
func (d *Dir) SyncFS() error {
	if err := d.fault(OpSyncFS, ""); err != nil {
		return err
	}
	if done, err := d.flushed(Flush{Op: OpSyncFS}); done {
		return err
	}
	return unix.ENOTSUP
}

// SyncFSReliable is false: every file is forced to the device by itself.
func (d *Dir) SyncFSReliable() bool {
	disk := d.disk()
	return disk != nil && disk.FlushesAll()
}
