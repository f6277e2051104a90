package fsys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// streamSystem has no fields on Windows. A read or a write that waits cannot be ended by
// another goroutine; a second signal ends the program.
type streamSystem struct{}

type stopSystem struct{}

func (s *Stop) open() error { return nil }
func (s *Stop) wake()       {}
func (s *Stop) close()      {}

func statPath(path string) (Info, error) {
	h, err := openPath(path, readAttributes, windows.OPEN_EXISTING)
	if err != nil {
		return Info{}, err
	}
	defer windows.CloseHandle(h) //nolint:errcheck // nothing was written
	return streamInfo(h)
}

// openPath opens a path that the user named. It can be a device such as \\.\PhysicalDrive1.
func openPath(path string, access, disposition uint32) (windows.Handle, error) {
	wide, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return windows.InvalidHandle, err
	}
	return windows.CreateFile(wide, access, shareAll, nil, disposition,
		windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
}

// streamInfo describes the open object. For devices and pipes it returns only a kind.
func streamInfo(h windows.Handle) (Info, error) {
	kind, err := windows.GetFileType(h)
	switch {
	case err != nil:
		return Info{}, err
	case kind == windows.FILE_TYPE_PIPE:
		return Info{Kind: Fifo}, nil
	case kind == windows.FILE_TYPE_CHAR:
		return Info{Kind: CharDevice}, nil
	}
	info, err := infoOf(h)
	if err != nil && isDisk(h) {
		return Info{Kind: BlockDevice}, nil
	}
	return info, err
}

// isDisk reports whether the handle is that of a disk or a volume, with any rights
// (IOCTL_DISK_GET_DRIVE_GEOMETRY of winioctl.h).
func isDisk(h windows.Handle) bool {
	const driveGeometry = 0x70000
	var geometry [24]byte // DISK_GEOMETRY
	var n uint32
	return windows.DeviceIoControl(h, driveGeometry, nil, 0, &geometry[0], uint32(len(geometry)), &n, nil) == nil
}

// diskSize returns the size of a disk or a volume (IOCTL_DISK_GET_LENGTH_INFO of winioctl.h). It
// needs the right to read.
func diskSize(h windows.Handle) (size int64, err error) {
	const lengthInfo = 0x7405c
	var n uint32
	err = windows.DeviceIoControl(h, lengthInfo, nil, 0, (*byte)(unsafe.Pointer(&size)), uint32(unsafe.Sizeof(size)), &n, nil)
	return size, err
}

func (sys *FS) openInput(path string, _ *Stop) (*Stream, error) {
	h, err := openPath(path, windows.GENERIC_READ, windows.OPEN_EXISTING)
	if err != nil {
		return nil, err
	}
	return sys.newStream(h, path)
}

func (sys *FS) openOutput(path string, _ *Stop) (s *Stream, created bool, err error) {
	const access = windows.GENERIC_WRITE | windows.FILE_READ_ATTRIBUTES
	h, err := openPath(path, access, windows.OPEN_EXISTING)
	switch {
	case is(err, windows.ERROR_FILE_NOT_FOUND):
		h, err = openPath(path, access, windows.CREATE_NEW)
		created = err == nil
	case err == nil && isDisk(h): // diskSize has to read
		windows.CloseHandle(h)
		h, err = openPath(path, access|windows.GENERIC_READ, windows.OPEN_EXISTING)
	}
	if err != nil {
		return nil, false, err
	}
	if s, err = sys.newStream(h, path); err != nil && created {
		_ = removeResolved(path)
	}
	return s, created && err == nil, err
}

// InheritStream returns a Stream for standard input or output, f, at its position.
func (sys *FS) InheritStream(f *os.File, _ *Stop, _ bool) (*Stream, error) {
	h, err := duplicate(windows.Handle(f.Fd()))
	if err != nil {
		return nil, err
	}
	s, err := sys.newStream(h, "-")
	if err != nil || !s.Seeks {
		return s, err
	}
	if s.Start, err = windows.Seek(h, 0, windows.FILE_CURRENT); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newStream takes over the handle and determines what kind of object it is.
func (sys *FS) newStream(h windows.Handle, name string) (*Stream, error) {
	s := &Stream{File: File{Object: Object{h: h, descriptor: sys.opened(name)}}, Size: -1}
	var err error
	if s.Info, err = streamInfo(h); err == nil {
		switch s.Info.Kind {
		case Regular:
			s.Seeks, s.Size = true, s.Info.Size
		case BlockDevice:
			s.Seeks = true
			s.Size, err = diskSize(h)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Skip reports whether a stream without offsets can be moved forward by n bytes. On Windows
// that is not possible.
func (s *Stream) Skip(n int64) bool { return n == 0 }

// Leave sets the position of an inherited handle that seeks.
func (s *Stream) Leave(off int64) error {
	_, err := windows.Seek(s.h, off, windows.FILE_BEGIN)
	return err
}

func (s *Stream) read(p []byte, off int64) (int, error) {
	if s.Info.Kind == BlockDevice { // a disk refuses a read that ends beyond its end
		p = p[:max(min(int64(len(p)), s.Size-off), 0)]
	}
	if s.Seeks {
		return s.pread(p, off)
	}
	var n uint32
	err := windows.ReadFile(s.h, p[:min(len(p), maxIO)], &n, nil)
	if is(err, windows.ERROR_BROKEN_PIPE, windows.ERROR_HANDLE_EOF) {
		err = nil
	}
	return int(n), err
}

func (s *Stream) write(p []byte, off int64) (int, error) {
	var at *windows.Overlapped
	if s.Seeks {
		at = offsetOf(off)
	}
	var n uint32
	err := windows.WriteFile(s.h, p[:min(len(p), maxIO)], &n, at)
	return int(n), err
}
