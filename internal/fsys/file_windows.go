package fsys

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// errNoProgress is the error of a read or a write that makes no progress.
const errNoProgress = windows.ERROR_WRITE_FAULT

// maxIO is the largest length of one call, in bytes; calls take 32 bits.
const maxIO = 1 << 30

// pread passes the offset with the call. So the position of the handle, which other calls may
// change, does not matter: ReadFile, "lpOverlapped".
func (f *File) pread(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n uint32
	err := windows.ReadFile(f.h, p[:min(len(p), maxIO)], &n, offsetOf(off))
	if err == windows.ERROR_HANDLE_EOF {
		err = nil
	}
	return int(n), err
}

func (f *File) pwrite(p []byte, off int64) (int, error) {
	var n uint32
	err := windows.WriteFile(f.h, p[:min(len(p), maxIO)], &n, offsetOf(off))
	return int(n), err
}

func offsetOf(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

func (f *File) truncate(size int64) error { return windows.Ftruncate(f.h, size) }

// preallocate sets FILE_ALLOCATION_INFO. It ignores a size below that of the file, because the
// call would truncate the file.
func (f *File) preallocate(size int64) error {
	info, err := f.stat()
	if err != nil || size <= info.Size {
		return err
	}
	return windows.SetFileInformationByHandle(f.h, windows.FileAllocationInfo,
		(*byte)(unsafe.Pointer(&size)), uint32(unsafe.Sizeof(size)))
}

// sync calls FlushFileBuffers, which needs the right to write. No process gets that for a
// read-only file, so sync makes the file writable while it opens it.
func (f *File) sync() error {
	const access = writeAttributes | windows.FILE_WRITE_DATA
	err := f.with(access, windows.FlushFileBuffers)
	if err != windows.ERROR_ACCESS_DENIED {
		return err
	}
	var i windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(f.h, &i) != nil || i.FileAttributes&windows.FILE_ATTRIBUTE_READONLY == 0 {
		return err
	}
	attributes, err := reopen(f.h, writeAttributes)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(attributes)
	if err := setAttributes(attributes, i.FileAttributes&^windows.FILE_ATTRIBUTE_READONLY); err != nil {
		return err
	}
	h, err := reopen(f.h, access)
	if back := setAttributes(attributes, i.FileAttributes); err == nil {
		defer windows.CloseHandle(h)
		err = back
	}
	if err != nil {
		return err
	}
	return windows.FlushFileBuffers(h)
}

// datasync is sync: Windows has no call for data alone.
func (f *File) datasync() error { return f.sync() }

func (f *File) dup() (Object, error) {
	h, err := duplicate(f.h)
	return Object{h: h}, err
}

// duplicate returns a second handle of the open object.
func duplicate(h windows.Handle) (second windows.Handle, err error) {
	self := windows.CurrentProcess()
	err = windows.DuplicateHandle(self, h, self, &second, 0, false, windows.DUPLICATE_SAME_ACCESS)
	return second, err
}

// nextData is not supported. Holes are read as zeros.
func (f *File) nextData(int64) (data, hole int64, end bool, err error) {
	return 0, 0, false, errNotSupported
}

// DropCacheBehind does nothing.
func (f *File) DropCacheBehind(int64, int64) {}

// SetDirect is not supported. Whether a handle bypasses the cache is fixed when it is opened
// (FILE_NO_INTERMEDIATE_BUFFERING).
func (f *File) SetDirect(bool) (fromDevice bool, err error) { return false, errNotSupported }
