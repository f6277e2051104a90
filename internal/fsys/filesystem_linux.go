package fsys

import (
	"math"

	"golang.org/x/sys/unix"
)

// This file holds the properties of Linux's file systems, by their numbers in statfs(2).

// DeviceBacked reports whether the object is on a file system whose data, once
// out of the page cache, has to come from a local block device. It asks the file
// system, which on FUSE and over a network is a round trip.
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

// Where a file system keeps the data of files besides the page cache.
type dataPlace int

const (
	elsewhere       dataPlace = iota // in memory, behind a network or a daemon, or unknown
	inBlocks                         // in blocks of a device, read into the file's pages only
	inBlocksOrInode                  // that of small files in metadata, which FIEMAP reports
	inBlocksOrEntry                  // that of small files in metadata, which have no blocks then
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

// syncFSReliable: not on FUSE and network file systems, nor where a kernel lacks the
// call.
func (d *Dir) syncFSReliable() bool {
	switch d.fileSystem() {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return hasSyncFS()
	}
	return false
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

// SeeksByInode reports whether looking at entries in the order of their inode numbers
// may spare a device some seeking. That is what GNU's programs take for granted of all
// file systems but these.
func (d *Dir) SeeksByInode() bool {
	switch d.fileSystem() {
	case unix.TMPFS_MAGIC, unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return false
	}
	return true
}

// SizeSaysNothing reports whether the size of files of its kind is that of a page,
// whatever they hold, as in sysfs: the end is where reading ends.
func (f *File) SizeSaysNothing() bool { return f.fileSystem() == unix.SYSFS_MAGIC }

// overSMB knows SMB 1 and the later ones by their numbers.
func overSMB(fileSystem uint32) bool {
	return fileSystem == unix.CIFS_SUPER_MAGIC || fileSystem == unix.SMB2_SUPER_MAGIC
}
