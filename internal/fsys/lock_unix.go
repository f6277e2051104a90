//go:build unix

package fsys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file. The system releases it when the process
// ends, however it ends.
type Lock struct {
	fd         int
	descriptor *Descriptor
}

// Lock takes the lock on the file name in d, which is created if need be. A
// file system without locks: an error for which Unsupported holds.
func (d *Dir) Lock(name string) (*Lock, error) {
	if err := d.fault(OpLock, name); err != nil {
		return nil, err
	}
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	for {
		// Opening alone can do something to a device.
		info, err := d.Lstat(name)
		if err == nil && info.Kind != Regular {
			err = &KindError{info.Kind}
		}
		if err != nil && err != unix.ENOENT {
			return nil, err
		}
		isNew := err != nil
		fd, err := retryN(func() (int, error) { return unix.Openat(d.fd, name, flags, 0o600) })
		if err != nil {
			return nil, err
		}
		if isNew {
			err = d.made(nil, OpCreate, name, "")
		}
		if err == nil {
			err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		}
		if err == nil {
			var still bool
			if still, err = d.isFile(name, fd); err == nil && !still {
				_ = unix.Close(fd) // the last holder has removed it meanwhile: lock the new one
				continue
			}
		}
		if err != nil {
			_ = unix.Close(fd)
			switch err {
			case unix.EWOULDBLOCK:
				err = ErrLocked
			case unix.ENOLCK:
				err = unix.ENOTSUP
			}
			return nil, err
		}
		return &Lock{fd: fd, descriptor: d.opened(name)}, nil
	}
}

func (d *Dir) isFile(name string, fd int) (bool, error) {
	a, err := (&Object{fd: fd}).stat()
	if err != nil {
		return false, err
	}
	b, err := d.Lstat(name)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil && a.ID == b.ID, err
}

// Unlock releases the lock. Remove the file first, so that nobody locks a file
// that has no name.
func (l *Lock) Unlock() {
	l.descriptor.closed()
	_ = unix.Close(l.fd)
}
