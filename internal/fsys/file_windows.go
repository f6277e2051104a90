package fsys

import (
	"golang.org/x/sys/windows"
)

// File is an open regular file.
type File struct{ Object }

// ReadAt reads at the offset off until p is full or the file ends; 0 bytes
// without an error is the end.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	total := 0
	for total < len(p) {
		n, err := f.pread(p[total:], off+int64(total))
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

// ReadSomeAt is one read: fewer bytes than p has room for are no sign of the end.
func (f *File) ReadSomeAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	return f.pread(p, off)
}

// maxIO keeps a length within the call's 32 bits.
const maxIO = 1 << 30

// pread gives the offset with the call, which for a synchronous handle too
// means that no other call's position matters: ReadFile, "lpOverlapped".
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

// WriteAt writes all of p at the offset off.
func (f *File) WriteAt(p []byte, off int64) error {
	if err := f.fault(OpWrite, ""); err != nil {
		return err
	}
	for len(p) > 0 {
		var n uint32
		if err := windows.WriteFile(f.h, p[:min(len(p), maxIO)], &n, offsetOf(off)); err != nil {
			return err
		}
		if n == 0 { // no system documents it; a loop would never end
			return windows.ERROR_WRITE_FAULT
		}
		if err := f.wrote(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func offsetOf(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

// Truncate sets the file's size in bytes; what it adds reads as zeros and takes
// up room on the device.
func (f *File) Truncate(size int64) error {
	if err := f.fault(OpTruncate, ""); err != nil {
		return err
	}
	return f.truncated(windows.Ftruncate(f.h, size), size)
}

// Sync forces the file's data and metadata to the device. FlushFileBuffers
// demands the right to write, which nobody gets on a read-only file: it is
// writable for the instant of opening then.
func (f *File) Sync() error {
	if err := f.fault(OpSync, ""); err != nil {
		return err
	}
	if done, err := f.flushed(Flush{Op: OpSync}); done {
		return err
	}
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

// Datasync is Sync: there is no lesser call.
func (f *File) Datasync() error { return f.Sync() }

// Dup returns a second handle of the same open file, with a life of its own.
func (f *File) Dup() (*File, error) {
	if err := f.fault(OpOpen, ""); err != nil {
		return nil, err
	}
	var h windows.Handle
	self := windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, f.h, self, &h, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, err
	}
	return &File{Object{h: h, descriptor: f.opened("")}}, nil
}

// NextData is not supported: holes are read as the zeros that they are.
func (f *File) NextData(int64) (data, hole int64, end bool, err error) {
	if err := f.fault(OpHoles, ""); err != nil {
		return 0, 0, false, err
	}
	return 0, 0, false, errNotSupported
}
