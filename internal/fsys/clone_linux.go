package fsys

import (
	"math"

	"golang.org/x/sys/unix"
)

// CreateClone is Create of a file that shares all blocks of src until one of the two is
// written, holes and unwritten data included. Content and size are src's at this instant;
// everything else is that of a new file. It uses no space and almost no time, on btrfs, XFS,
// bcachefs, ZFS and some others, between files of one file system (FICLONE of
// ioctl_ficlone(2)). The blocks are neither read nor checked.
//
// After an error there is no file. RefusalOf reports for how many files the caller should
// use Create and write instead.
func (d *Dir) CreateClone(src *File, named bool) (*Pending, error) {
	p, err := d.Create(named)
	if err != nil {
		return nil, err
	}
	err = p.fault(OpClone, "")
	if err == nil {
		err = retry(func() error { return p.calls().fileClone(p.fd, src.fd) })
	}
	if err == nil {
		err = p.filled(0, math.MaxInt64)
	}
	if err != nil {
		err = refused(err, reachBetween(err, src, &p.File))
		p.Abort()
		return nil, err
	}
	return p, nil
}

// reachBetween is reachOf for an error between two known file systems. Over SMB, EIO can also
// be the server's refusal (golang.org/issue/42334).
func reachBetween(err error, src, dst *File) Refusal {
	if err == unix.EIO && (overSMB(src.fileSystem()) || overSMB(dst.fileSystem())) {
		return RefusedFile
	}
	return reachOf(err)
}
