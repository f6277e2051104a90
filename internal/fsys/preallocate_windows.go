package fsys

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Preallocate reserves room on the device for a file that will have size bytes,
// and leaves the size that it has: FILE_ALLOCATION_INFO. What stays unused is
// given back when the file is closed. A size below that of the file is ignored,
// which the call would take for a wish to cut it. An error for which Unsupported
// holds says that the file system cannot; a full device is ERROR_DISK_FULL.
func (f *File) Preallocate(size int64) error {
	if err := f.fault(OpPreallocate, ""); err != nil {
		return err
	}
	info, err := infoOf(f.h)
	if err != nil || size <= info.Size {
		return err
	}
	return windows.SetFileInformationByHandle(f.h, windows.FileAllocationInfo,
		(*byte)(unsafe.Pointer(&size)), uint32(unsafe.Sizeof(size)))
}
