package fsys

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/windows"
)

// openLock opens the file of a lock. created reports that it did not exist just before; it is
// only checked for a Disk.
func (d *Dir) openLock(name string) (o Object, created bool, err error) {
	if d.disk() != nil {
		_, err := d.lstat(name)
		created = errors.Is(err, fs.ErrNotExist)
	}
	h, err := openAt(d.h, name, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_OPEN_IF, windows.FILE_NON_DIRECTORY_FILE)
	if err == windows.ERROR_DELETE_PENDING { // the last holder has removed it and is about to close it
		return Object{}, false, ErrLocked
	}
	if err != nil {
		return Object{}, false, err
	}
	info, err := infoOf(h)
	if err == nil && info.Kind != Regular {
		err = syscall.ELOOP
	}
	if err != nil {
		windows.CloseHandle(h)
		return Object{}, false, err
	}
	return Object{h: h}, created, nil
}

// lock locks bytes beyond the end of any file, because other handles can neither read nor
// write locked bytes.
func (o *Object) lock() error {
	beyond := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(o.h, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		err = ErrLocked
	}
	return err
}

// noName also accepts the error of a file that is removed with its last handle.
func noName(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err == windows.ERROR_DELETE_PENDING
}
