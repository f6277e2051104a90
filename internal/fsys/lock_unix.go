//go:build unix

package fsys

import "golang.org/x/sys/unix"

// openLock opens the file of a lock. created reports that it did not exist just before.
func (d *Dir) openLock(name string) (o Object, created bool, err error) {
	info, err := d.Lstat(name) // opening can already have an effect on a device
	if err == nil && info.Kind != Regular {
		err = &KindError{info.Kind}
	}
	if err != nil && err != unix.ENOENT {
		return Object{}, false, err
	}
	created = err != nil
	o, err = d.openAt(name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	return o, created, err
}

func (o *Object) lock() error {
	err := unix.Flock(o.fd, unix.LOCK_EX|unix.LOCK_NB)
	switch err {
	case unix.EWOULDBLOCK:
		return ErrLocked
	case unix.ENOLCK:
		return unix.ENOTSUP
	}
	return err
}

func noName(err error) bool { return err == unix.ENOENT }
