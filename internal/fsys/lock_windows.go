package fsys

import (
	"cmp"
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/windows"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file. The system releases it when the process
// ends, however it ends.
type Lock struct {
	h          windows.Handle
	descriptor *Descriptor
}

// Lock takes the lock on the file name in d, which is created if need be. A
// file system without locks: an error for which Unsupported holds.
func (d *Dir) Lock(name string) (*Lock, error) {
	if err := d.fault(OpLock, name); err != nil {
		return nil, err
	}
	for {
		var absent error
		if d.disk() != nil {
			_, absent = d.lstat(name)
		}
		h, err := openAt(d.h, name, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.SYNCHRONIZE,
			windows.FILE_OPEN_IF, windows.FILE_NON_DIRECTORY_FILE)
		if err == windows.ERROR_DELETE_PENDING { // the last holder has removed it and is about to let go
			return nil, ErrLocked
		}
		if err != nil {
			return nil, err
		}
		if info, err := infoOf(h); err != nil || info.Kind != Regular {
			windows.CloseHandle(h)
			return nil, cmp.Or(err, error(syscall.ELOOP))
		}
		// Locked bytes can be neither read nor written through other handles, so
		// the lock is on one that no file reaches.
		beyond := windows.Overlapped{OffsetHigh: 1 << 30}
		if errors.Is(absent, fs.ErrNotExist) {
			err = d.made(nil, OpCreate, name, "")
		}
		if err == nil {
			err = windows.LockFileEx(h, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)
		}
		if err == nil {
			var still bool
			if still, err = d.isFile(name, h); err == nil && !still {
				windows.CloseHandle(h) // the last holder has removed it meanwhile: lock the new one
				continue
			}
		}
		if err != nil {
			windows.CloseHandle(h)
			if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
				err = ErrLocked
			}
			return nil, err
		}
		return &Lock{h: h, descriptor: d.opened(name)}, nil
	}
}

func (d *Dir) isFile(name string, h windows.Handle) (bool, error) {
	a, err := infoOf(h)
	if err != nil {
		return false, err
	}
	b, err := d.lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == windows.ERROR_DELETE_PENDING {
		return false, nil
	}
	return err == nil && a.ID == b.ID, err
}

// Unlock releases the lock. Remove the file first, so that nobody locks a file
// that has no name.
func (l *Lock) Unlock() {
	l.descriptor.closed()
	windows.CloseHandle(l.h)
}
