//go:build unix

package fsys

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// errNoProgress is the error of a read or a write that makes no progress.
const errNoProgress = unix.EIO

func (f *File) truncate(size int64) error { return unix.Ftruncate(f.fd, size) }

func (f *File) sync() error { return fsyncFD(f.fd) }

func (f *File) datasync() error { return fdatasyncFD(f.fd) }

// nextData is not supported on macOS. From within data, SEEK_DATA there returns the data behind
// the next hole, and SEEK_HOLE can return ENXIO if there is none (gnulib's lseek.c, GNU bug
// 51857). On APFS they report holes where data was written and not flushed yet
// (github.com/coreutils/coreutils/pull/68). Compressed files appear to have holes.
func (f *File) nextData(off int64) (data, hole int64, end bool, err error) {
	if runtime.GOOS == "darwin" {
		return 0, 0, false, unix.ENOTSUP
	}
	data, err = unix.Seek(f.fd, off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return 0, 0, true, nil
	}
	if err != nil {
		return 0, 0, false, err
	}
	hole, err = unix.Seek(f.fd, data, unix.SEEK_HOLE)
	return data, hole, false, err
}
