package fsys

import "errors"

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file. The system releases it when the process
// ends, however it ends.
type Lock struct{ file Object }

// Lock locks the file name in d, and creates it if it does not exist. If the file system has
// no locks, Unsupported holds for the error.
func (d *Dir) Lock(name string) (*Lock, error) {
	if err := d.fault(OpLock, name); err != nil {
		return nil, err
	}
	for {
		o, created, err := d.openLock(name)
		if err != nil {
			return nil, err
		}
		if created {
			err = d.made(nil, OpCreate, name, "")
		}
		if err == nil {
			err = retry(o.lock)
		}
		still := false
		if err == nil {
			still, err = d.leadsTo(name, &o)
		}
		if err == nil && still {
			o.descriptor = d.opened(name)
			return &Lock{o}, nil
		}
		o.Close()
		if err != nil {
			if created && !errors.Is(err, ErrLocked) {
				_ = d.Remove(name)
			}
			return nil, err
		}
		// The last holder has removed it meanwhile: lock the new one.
	}
}

// leadsTo reports whether name is still a name of the object.
func (d *Dir) leadsTo(name string, o *Object) (bool, error) {
	a, err := o.stat()
	if err != nil {
		return false, err
	}
	b, err := d.Lstat(name)
	if noName(err) {
		return false, nil
	}
	return err == nil && a.ID == b.ID, err
}

// Unlock releases the lock. Remove the file first, so that no other process locks
// a file without a name.
func (l *Lock) Unlock() { l.file.Close() }
