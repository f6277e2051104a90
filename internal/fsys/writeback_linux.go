package fsys

import "golang.org/x/sys/unix"

// StartWriteback begins to write the dirty pages of the n bytes at off to the
// device and does not wait for them; n == 0 means to the end. A queue that is full
// makes it wait all the same. Pages that are being written already are left out.
func (f *File) StartWriteback(off, n int64) error {
	return f.syncRange(off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// WaitWriteback writes the dirty pages of the n bytes at off to the device and
// waits for them and for those under way; n == 0 means to the end. That bounds
// memory and promises nothing: neither what is needed to find the data nor the
// device's own cache is written. An error of writing is taken from the descriptor,
// as Sync takes it, and never told again: it is to be treated as one of Sync.
func (f *File) WaitWriteback(off, n int64) error {
	return f.syncRange(off, n, writeAndWait)
}

// WritebackError waits for what of the file is under way to the device, without
// sending anything, and returns an error of writing that no descriptor of the file
// was told. A new one is told of those before it was opened.
func (f *File) WritebackError() error { return f.syncRange(0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE) }

const writeAndWait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER

func (f *File) syncRange(off, n int64, flags int) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return f.syncFileRange(off, n, flags)
}

// syncFileRange is an error for which Unsupported holds where the kernel lacks it,
// as that of WSL 1 does.
func (f *File) syncFileRange(off, n int64, flags int) error {
	if !hasSyncRange() {
		return unix.ENOSYS
	}
	return retry(func() error { return unix.SyncFileRange(f.fd, off, n, flags) })
}

// SyncPart forces the n bytes at off to the device, and what is needed to find
// them, while more may be written behind them. fdatasync would wait for that, too:
// it looks for pages under way from the beginning to the end of the file, and a
// writer that is fast enough stays ahead of it. msync of a mapping forces a range.
func (f *File) SyncPart(off, n int64) error {
	if err := f.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := f.flushed(Flush{Op: OpSync, DataOnly: true, Part: true, Offset: off, N: n}); done {
		return err
	}
	err := f.syncFileRange(off, n, writeAndWait)
	if err != nil && !Unsupported(err) {
		return err
	}
	// The data is written; the last page of it stands for all in the second step.
	page := int64(unix.Getpagesize())
	last := max(off+n-1, 0) &^ (page - 1)
	m, err := unix.Mmap(f.fd, last, int(page), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil { // as on FUSE with direct I/O
		return retry(func() error { return fdatasyncFD(f.fd) })
	}
	err = retry(func() error { return unix.Msync(m, unix.MS_SYNC) })
	if unmapped := unix.Munmap(m); err == nil {
		err = unmapped
	}
	return err
}

// WritesBehind reports whether StartWriteback and WaitWriteback reach a device
// here: on file systems whose dirty pages belong to the file itself. Not on
// overlay, whose pages are those of another file, and not on FUSE and over a
// network, where a page that is written waits in another cache.
func (d *Dir) WritesBehind() bool { return writesBehind(d.fileSystem()) && hasSyncRange() }

func writesBehind(fileSystem uint32) bool {
	switch fileSystem {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, // ext2 and ext3 have ext4's
		unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return true
	}
	return false
}

// KeepsChangeTime reports whether the file system stores when a file was changed.
// Those of the FAT family do not: after a remount it is the modification time,
// which programs can set.
func (d *Dir) KeepsChangeTime() bool {
	kind := d.fileSystem()
	return kind != unix.MSDOS_SUPER_MAGIC && kind != unix.EXFAT_SUPER_MAGIC
}

// InMemory reports whether the directory is on a file system of memory, which has
// no device to write to.
func (d *Dir) InMemory() bool {
	switch d.fileSystem() {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return true
	}
	return false
}
