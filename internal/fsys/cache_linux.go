package fsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropCache flushes the file's unwritten data to the device and removes the file from the
// page cache. fromDevice reports whether the next read must come from a local block device:
// nothing of the file is in memory, and its file system keeps no copy elsewhere (see
// DeviceBacked). It is false if something stays, or if the kernel does not report it. Pages
// that another program has mapped stay. For a file that the caller neither owns nor may
// write to, the kernel does not report cached pages (since Linux 5.2 and 6.14, see below).
// An error is a write error: the file's data may be lost.
//
// A descriptor for reading is sufficient. DropCache does not affect caches below the file
// system: the device's own, that of a host, or the file behind a loop device.
func (f *File) DropCache() (fromDevice bool, err error) {
	if err := f.fault(OpDropCache, ""); err != nil {
		return false, err
	}
	if err := f.writeBack(); err != nil {
		return false, err
	}
	f.dontNeed(0, 0)
	kind := f.fileSystem()
	if keepsData(kind) == elsewhere {
		return false, nil
	}
	if f.resident() {
		// A page can be in use for an instant, as for one of 1,000 new files on XFS, or
		// another process writes. After an fsync, a second try is worthwhile.
		if err := retry(func() error { return fsyncFD(f.fd) }); err != nil {
			return false, err
		}
		f.dontNeed(0, 0)
		if f.resident() {
			return false, nil
		}
	}
	return !f.inMetadata(kind), nil
}

// writeBack writes the dirty pages and waits for them, because dirty pages cannot be
// dropped. Unlike fsync, it needs no transaction and no flush of the device's cache. A clean
// file needs 0.4 µs (fsync on ext4 and xfs: 60 to 140), other files at most a third of the
// time of fsync. It consumes a write error of the descriptor, as fsync does.
func (f *File) writeBack() error {
	err := f.syncFileRange(0, 0, writeAndWait)
	if Unsupported(err) {
		err = retry(func() error { return fsyncFD(f.fd) })
	}
	return err
}

// DropCacheBehind removes the clean pages of the n bytes at off from the page cache, after
// they were read. It drops only complete pages; the file's last page counts as complete. The
// kernel drops larger units (2 MiB, if pages have 4 KiB) only as one. Multiples of 4 MiB
// leave nothing.
func (f *File) DropCacheBehind(off, n int64) {
	if n > 0 { // 0 means to the end of the file
		f.dontNeed(off, n)
	}
}

// dontNeed is advice; resident reports whether the kernel followed it. The kernel
// automatically tries pages again that other processors are still adding.
func (f *File) dontNeed(off, n int64) { _ = unix.Fadvise(f.fd, off, n, unix.FADV_DONTNEED) }

// SetDirect makes further reads bypass the page cache (O_DIRECT), or ends that. Their offsets,
// lengths and buffers must then be multiples of DirectAlignment. ReadAt handles the end of a
// file.
//
// fromDevice reports whether all reads come from a local block device, whatever is in the page
// cache. ext4 and XFS guarantee that for a file. If it is false, reads may go through the page
// cache. On btrfs, that happens for compressed extents, and with buffers whose memory was
// never used. On tmpfs, reads come from memory. Then only DropCache before the read gives
// certainty. An error for which Unsupported holds means that reads cannot bypass the cache.
//
// If the file is open for writing, WriteAt bypasses the cache for data that is aligned both in
// the file and in memory. It writes the rest, such as the end of a file, through the cache.
// The flag is off meanwhile, so reads go through the cache, too, and writes of one file must
// follow one another. A direct write leaves no dirty data in memory, but only Datasync or Sync
// make it durable. A file system may accept the flag and refuse a direct write (EINVAL). All
// further writes of the file then use the page cache.
func (f *File) SetDirect(on bool) (fromDevice bool, err error) {
	if !on {
		f.direct.Store(false)
		return false, setDirectFlag(f.fd, false)
	}
	var st unix.Statx_t // STATX_DIOALIGN is new in Linux 6.1; older kernels ignore it
	known := unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) == nil &&
		st.Mask&unix.STATX_DIOALIGN != 0
	if known && (st.Dio_offset_align == 0 || st.Dio_offset_align > DirectAlignment || st.Dio_mem_align > DirectAlignment) {
		return false, unix.ENOTSUP
	}
	err = setDirectFlag(f.fd, true)
	if err == nil && !known {
		err = f.tryDirect()
	}
	if err != nil {
		if err == unix.EINVAL {
			err = unix.ENOTSUP
		}
		return false, err
	}
	f.direct.Store(true)
	return known && f.DeviceBacked(), nil
}

// tryDirect tries a direct read beyond the end of the file. overlay accepts the flag even if
// its layers do not support it, and refuses the read. A file that is open for writing only cannot be
// read (EBADF): only a write finds out, see SetDirect.
func (f *File) tryDirect() error {
	size, err := f.size()
	if err == nil {
		_, err = f.pread(AlignedBuffer(DirectAlignment), (size+DirectAlignment-1)&^(DirectAlignment-1))
	}
	if err == unix.EBADF {
		return nil
	}
	if err != nil {
		_ = setDirectFlag(f.fd, false)
	}
	return err
}

// pread reads once, in the mode that SetDirect and SetUncached have set.
func (f *File) pread(p []byte, off int64) (int, error) {
	if f.uncached.Load() && !f.direct.Load() {
		n, err := retryN(func() (int, error) { return unix.Preadv2(f.fd, [][]byte{p}, off, unix.RWF_DONTCACHE) })
		if !f.uncachedRefused(err) {
			return n, err
		}
	}
	return retryN(func() (int, error) { return unix.Pread(f.fd, p, off) })
}

// pwrite writes the longest beginning of p that can be written with one call: directly or
// through the cache.
func (f *File) pwrite(p []byte, off int64) (int, error) {
	if !f.direct.Load() {
		return f.pwriteCached(p, off)
	}
	rest, direct := splitAligned(p, off)
	if rest == 0 {
		n, err := retryN(func() (int, error) { return f.calls().directWrite(f.fd, p[:direct], off) })
		if err != unix.EINVAL {
			return n, err
		}
		rest = len(p)
		f.direct.Store(false)
	}
	if err := setDirectFlag(f.fd, false); err != nil {
		return 0, err
	}
	n, err := f.pwriteCached(p[:rest], off)
	if f.direct.Load() && setDirectFlag(f.fd, true) != nil {
		f.direct.Store(false) // from now on, writes use the cache
	}
	return n, err
}

// pwriteCached writes once through the page cache.
func (f *File) pwriteCached(p []byte, off int64) (int, error) {
	if f.uncached.Load() {
		n, err := retryN(func() (int, error) { return unix.Pwritev2(f.fd, [][]byte{p}, off, unix.RWF_DONTCACHE) })
		if !f.uncachedRefused(err) {
			return n, err
		}
	}
	return retryN(func() (int, error) { return unix.Pwrite(f.fd, p, off) })
}

// splitAligned returns how many bytes at the beginning of p cannot be written directly at off,
// and how many bytes after them can.
func splitAligned(p []byte, off int64) (rest, direct int) {
	rest = int(-off & (DirectAlignment - 1))
	if len(p)-rest < DirectAlignment ||
		(uintptr(unsafe.Pointer(unsafe.SliceData(p)))+uintptr(rest))%DirectAlignment != 0 {
		return len(p), 0
	}
	return rest, (len(p) - rest) &^ (DirectAlignment - 1)
}

// SetUncached makes further ReadAt and WriteAt remove the pages that they bring into the
// page cache, after they are read or written, or ends that (RWF_DONTCACHE, Linux 6.14).
// Existing pages stay, and on ext4 also pages that overwrite existing blocks of the file.
// supported reports whether kernel and file system do so for reading, which SetUncached
// tries. If one of them refuses later, for example for writing, the file uses the page cache
// as usual. Turning it off returns false. SetDirect has priority.
func (f *File) SetUncached(on bool) (supported bool) {
	f.uncached.Store(false)
	if !on {
		return false
	}
	size, err := f.size()
	if err != nil {
		return false
	}
	// For an empty buffer the kernel does not ask the file system; at the end nothing is read.
	var one [1]byte
	_, err = retryN(func() (int, error) { return unix.Preadv2(f.fd, [][]byte{one[:]}, size, unix.RWF_DONTCACHE) })
	f.uncached.Store(err == nil)
	return err == nil
}

// uncachedRefused reports whether err is a refusal of RWF_DONTCACHE, and remembers it.
// EINVAL, and EPERM of a system call filter, can have other causes. The plain call then
// returns these.
func (f *File) uncachedRefused(err error) bool {
	if !Unsupported(err) && err != unix.EINVAL && err != unix.EPERM {
		return false
	}
	f.uncached.Store(false)
	return true
}

// inlineLimit is the size of the largest block of metadata (btrfs), in bytes. No larger file
// is stored in metadata.
const inlineLimit = 64 << 10

// inMetadata reports whether the file's data is, or may be, stored in metadata of the file
// system. That data stays in memory, and direct reads return it from there.
func (f *File) inMetadata(fileSystem uint32) bool {
	place := keepsData(fileSystem)
	if place == inBlocks {
		return false
	}
	info, err := f.stat()
	if err != nil {
		return true
	}
	if info.Size == 0 || info.Size > inlineLimit {
		return false
	}
	if place == inBlocksOrEntry {
		return info.Blocks == 0
	}
	extent, err := f.firstExtent()
	return err != nil || extent&(fiemapInline|fiemapUnknown) != 0
}

// FS_IOC_FIEMAP of linux/fiemap.h.
const (
	fsIocFiemap   = 0xc020660b
	fiemapSync    = 0x001 // FIEMAP_FLAG_SYNC: write dirty data first; btrfs needs that to know the extents
	fiemapUnknown = 0x002 // FIEMAP_EXTENT_UNKNOWN: not allocated yet
	fiemapInline  = 0x200 // FIEMAP_EXTENT_DATA_INLINE
)

// firstExtent returns the flags of the file's first extent, 0 if it has none.
func (f *File) firstExtent() (flags uint32, err error) {
	var m struct {
		start, length                  uint64
		flags, mapped, count, reserved uint32
		extent                         struct {
			logical, physical, length uint64
			reserved                  [2]uint64
			flags                     uint32
			reserved2                 [3]uint32
		}
	}
	m.length, m.flags, m.count = 1<<63-1, fiemapSync, 1
	err = ioctl(f.fd, fsIocFiemap, unsafe.Pointer(&m))
	if err != nil || m.mapped == 0 {
		return 0, err
	}
	return m.extent.flags, nil
}

// resident reports whether a page of the file is, or may be, in the page cache. It uses
// cachestat, which exists since Linux 6.5. Since 6.14, cachestat returns EPERM to callers that
// neither own the file nor may write to it. It finds no pages on file systems such as overlay,
// whose pages belong to another file.
func (f *File) resident() bool {
	var all unix.CachestatRange
	var st unix.Cachestat_t
	if err := f.calls().cachestat(uint(f.fd), &all, &st, 0); err == nil {
		return st.Cache > 0
	}
	return f.residentByMapping()
}

// Cached reports whether pages of the n bytes at off are in the page cache; n == 0
// means to the end. known is false if the kernel does not report it: before Linux 6.5,
// and since 6.14 for files that the caller neither owns nor may write to. It is also false on
// file systems whose pages may belong to another file. If Cached finds no page, it queries the
// file system. On FUSE and over a network that is a round trip.
func (f *File) Cached(off, n int64) (some, known bool) {
	var st unix.Cachestat_t
	err := f.calls().cachestat(uint(f.fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &st, 0)
	if err != nil {
		return false, false
	}
	if st.Cache > 0 {
		return true, true
	}
	switch f.fileSystem() {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, 0:
		return false, false
	}
	return false, true
}

// mincoreWindow is how much of a file is mapped at a time, in bytes.
const mincoreWindow = 16 << 20

// residentByMapping queries mincore. Since Linux 5.2, mincore reports all pages as resident
// to callers that cachestat refuses. residentByMapping does not touch the mapping.
func (f *File) residentByMapping() bool {
	size, err := f.size()
	if err != nil {
		return true
	}
	page := unix.Getpagesize()
	pages := make([]byte, (int(min(size, mincoreWindow))+page-1)/page)
	for off := int64(0); off < size; off += mincoreWindow {
		n := int(min(size-off, mincoreWindow))
		m, err := unix.Mmap(f.fd, off, n, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return true
		}
		look := pages[:(n+page-1)/page]
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(n),
			uintptr(unsafe.Pointer(&look[0])))
		if err := unix.Munmap(m); err != nil || errno != 0 {
			return true
		}
		for _, state := range look {
			if state&1 != 0 { // the other bits have no meaning
				return true
			}
		}
	}
	return false
}

// setDirectFlag sets or clears O_DIRECT of the open file (fcntl, F_SETFL).
func setDirectFlag(fd int, on bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}
