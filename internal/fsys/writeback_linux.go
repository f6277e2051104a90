package fsys

import "golang.org/x/sys/unix"

// StartWriteback begins to write the dirty pages of the n bytes at off to the device and does
// not wait for them; n == 0 means to the end. If the queue of the device is full, it waits
// nevertheless. It skips pages that are being written already.
func (f *File) StartWriteback(off, n int64) error {
	return f.syncRange(off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// WaitWriteback writes the dirty pages of the n bytes at off to the device; n == 0 means to
// the end. It waits for them and for pages that are being written already. That limits memory
// and does not make data durable. WaitWriteback writes neither the metadata that is needed to
// find the data nor the device's own cache. It consumes a write error of the descriptor, as
// Sync does, and the system never returns that error again. Treat it as an error of Sync.
func (f *File) WaitWriteback(off, n int64) error {
	return f.syncRange(off, n, writeAndWait)
}

const writeAndWait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER

func (f *File) syncRange(off, n int64, flags int) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return f.syncFileRange(off, n, flags)
}

// syncFileRange calls sync_file_range(2). Unsupported holds for the error if the kernel lacks
// the call, as WSL 1 does.
func (f *File) syncFileRange(off, n int64, flags int) error {
	if !hasSyncRange() {
		return unix.ENOSYS
	}
	return retry(func() error { return unix.SyncFileRange(f.fd, off, n, flags) })
}

// SyncPart flushes the n bytes at off to the device, and the metadata that is needed to find
// them, while more may be written behind them. fdatasync would wait for that, too: it waits
// for pages under writeback from the beginning to the end of the file, and a fast writer
// stays ahead of it. msync of a mapping flushes a range.
func (f *File) SyncPart(off, n int64) error {
	return f.flush(Flush{Op: OpSync, DataOnly: true, Part: true, Offset: off, N: n}, func() error { return f.syncPart(off, n) })
}

func (f *File) syncPart(off, n int64) error {
	err := f.syncFileRange(off, n, writeAndWait)
	if err != nil && !Unsupported(err) {
		return err
	}
	// The data is written; in the second step, its last page is sufficient.
	page := int64(unix.Getpagesize())
	last := max(off+n-1, 0) &^ (page - 1)
	m, err := unix.Mmap(f.fd, last, int(page), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil { // FUSE with direct I/O refuses the call
		return f.datasync()
	}
	err = retry(func() error { return unix.Msync(m, unix.MS_SYNC) })
	if unmapped := unix.Munmap(m); err == nil {
		err = unmapped
	}
	return err
}
