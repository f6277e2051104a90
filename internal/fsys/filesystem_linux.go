package fsys

import (
	"math"

	"golang.org/x/sys/unix"
)

// This file holds the properties of Linux's file systems, by their numbers in statfs(2).

// DeviceBacked reports whether the object is on a file system that reads data from a local
// block device unless the data is in the page cache. It queries the file system. On FUSE and
// over a network that is a round trip.
func (o *Object) DeviceBacked() bool { return keepsData(o.fileSystem()) != elsewhere }

// Available returns how many bytes an ordinary user can write to the file system of the
// directory, or -1 if that is unknown.
func (d *Dir) Available() int64 {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil || st.Blocks == 0 {
		return -1 // a file system without blocks has no limit
	}
	unit := int64(st.Frsize) //nolint:unconvert // 32 bits on some processors
	if unit == 0 {
		unit = int64(st.Bsize) //nolint:unconvert // as above
	}
	return int64(min(st.Bavail, uint64(math.MaxInt64/unit))) * unit
}

// fileSystem returns the number of statfs(2) for the kind of file system, or 0.
func (o *Object) fileSystem() uint32 {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(o.fd, &st) }); err != nil {
		return 0
	}
	return uint32(st.Type)
}

// dataPlace is where a file system keeps the data of files, apart from the page cache.
type dataPlace int

const (
	elsewhere       dataPlace = iota // Data is in memory, behind a network or a daemon, or in an unknown place.
	inBlocks                         // Data is in blocks of a device, read into the file's pages only.
	inBlocksOrInode                  // Data of small files is in metadata, which FIEMAP reports.
	inBlocksOrEntry                  // Data of small files is in metadata; these files have no blocks then.
)

// Numbers of statfs(2) that x/sys/unix lacks.
const (
	hfsPlusSuperMagic = 0x482b
	jfsSuperMagic     = 0x3153464a
	ntfs3SuperMagic   = 0x7366746e
)

// keepsData returns where a file system keeps data, for the known file systems. These are
// not among them:
//
//   - tmpfs and ramfs, which are memory;
//   - overlay, whose layers may be anything, and whose pages are those of the layers, so
//     that cachestat sees none;
//   - network file systems and 9p, with the server's cache;
//   - FUSE, whose daemon reads through the cache of the block device or its own;
//   - ZFS with its ARC;
//   - squashfs and erofs, which cache compressed data;
//   - bcachefs and reiserfs, which store ends of files of any size in their trees.
//
// The result is wrong for compressed files of iso9660 (zisofs), which are rare.
func keepsData(fileSystem uint32) dataPlace {
	switch fileSystem {
	case unix.XFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.ISOFS_SUPER_MAGIC,
		hfsPlusSuperMagic, jfsSuperMagic:
		return inBlocks
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, ntfs3SuperMagic: // ext2 and ext3 have ext4's
		return inBlocksOrInode
	case unix.UDF_SUPER_MAGIC:
		return inBlocksOrEntry
	}
	return elsewhere
}

// syncFSReliable is false on FUSE and network file systems, and if the kernel lacks the call.
func (d *Dir) syncFSReliable() bool {
	switch d.fileSystem() {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return hasSyncFS()
	}
	return false
}

// sharesSyncErrors recognizes the daemon of a block device by the file system's device number. That
// of other FUSE file systems has the major number 0.
func (d *Dir) sharesSyncErrors() bool {
	info, err := d.stat()
	return err == nil && unix.Major(info.ID.Dev) != 0 && d.fileSystem() == unix.FUSE_SUPER_MAGIC
}

// WritesBehind reports whether StartWriteback and WaitWriteback reach a device here. They do
// on file systems whose dirty pages belong to the file itself. They do not on overlay, whose
// pages belong to another file. They do not on FUSE and over a network either, where a written
// page waits in another cache.
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

// InMemory reports whether the directory is on a file system in memory, without a device.
func (d *Dir) InMemory() bool {
	switch d.fileSystem() {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return true
	}
	return false
}

// WritesBehind reports whether StartWriteback and WaitWriteback of the stream reach
// a device: see Dir.WritesBehind.
func (s *Stream) WritesBehind() bool {
	return s.Info.Kind == BlockDevice || s.Info.Kind == Regular && writesBehind(s.fileSystem())
}

// PreallocatesWell reports whether preallocation makes long extents on the directory's file
// system and costs nothing. That is so on ext4: 28 extents of a file of 256 MiB, one of four
// written at a time, became one. XFS makes 3 to 7 without it and was slower with it. btrfs
// does not compress preallocated files. Others were not measured.
func (d *Dir) PreallocatesWell() bool { return d.fileSystem() == unix.EXT4_SUPER_MAGIC }

// noDevices reports whether the directory's file system is mounted so that its
// device nodes cannot be opened.
func (d *Dir) noDevices() bool {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(d.fd, &st) })
	return err == nil && st.Flags&unix.MS_NODEV != 0 // ST_NODEV has its value
}

// SeeksByInode reports whether a device may seek less if entries are read in the order of
// their inode numbers. GNU's programs assume that of all file systems but these.
func (d *Dir) SeeksByInode() bool {
	switch d.fileSystem() {
	case unix.TMPFS_MAGIC, unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return false
	}
	return true
}

// SizeSaysNothing reports whether files of its kind have the size of a page, whatever their
// content is, as in sysfs. Only reading finds their end.
func (f *File) SizeSaysNothing() bool { return f.fileSystem() == unix.SYSFS_MAGIC }

// overSMB reports whether a number is that of SMB 1 or of later versions.
func overSMB(fileSystem uint32) bool {
	return fileSystem == unix.CIFS_SUPER_MAGIC || fileSystem == unix.SMB2_SUPER_MAGIC
}
