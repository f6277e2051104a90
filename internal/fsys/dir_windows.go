package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Dir is an open directory.
type Dir struct {
	Object
	caps *capabilities
}

// capabilities is what all directories of a tree share.
type capabilities struct {
	tempID atomic.Pointer[string] // the id that SetTempID has set
}

func openRoot(path string) (Object, error) {
	h, err := openPath(path, dirAccess, windows.OPEN_EXISTING)
	if err != nil {
		return Object{}, err
	}
	info, err := infoOf(h)
	if err == nil && info.Kind != Directory {
		err = errNotDirectory
	}
	if err != nil {
		windows.CloseHandle(h)
		return Object{}, err
	}
	return Object{h: h}, nil
}

// OpenLookup opens the directory that a user named to open and describe entries of it
// by name, with the permissions that OpenRoot needs.
func (sys *FS) OpenLookup(path string) (*Dir, error) { return sys.OpenRoot(path) }

// openDir opens a subdirectory. The error is ELOOP for a symbolic link or a junction, and
// ERROR_DIRECTORY for anything else. NtCreateFile does not accept ".", so d is opened by its
// handle.
func (d *Dir) openDir(name string) (Object, error) {
	if name == "." {
		h, err := reopen(d.h, dirAccess)
		return Object{h: h}, err
	}
	h, info, err := d.openThing(name, dirAccess)
	if err != nil {
		return Object{}, err
	}
	if info.Kind != Directory {
		windows.CloseHandle(h)
		return Object{}, errNotDirectory
	}
	return Object{h: h}, nil
}

// openThing opens the file or directory name. It returns ELOOP for a link. A reparse point
// that is no link (deduplicated data, a file in a cloud) is opened a second time, through its
// driver. It must be the same object.
func (d *Dir) openThing(name string, access uint32) (windows.Handle, Info, error) {
	h, err := openAt(d.h, name, access, windows.FILE_OPEN, 0)
	if err != nil {
		return h, Info{}, err
	}
	info, err := infoOf(h)
	if err == nil && (info.Kind == Symlink || info.Kind == Irregular) {
		err = syscall.ELOOP
	}
	var i windows.ByHandleFileInformation
	if err == nil {
		err = windows.GetFileInformationByHandle(h, &i)
	}
	if err == nil && i.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 && info.Kind != Socket {
		raw := h
		h, err = ntCreate(d.h, name, access, windows.FILE_OPEN, openOptions&^windows.FILE_OPEN_REPARSE_POINT)
		windows.CloseHandle(raw)
		if err != nil {
			return h, Info{}, err
		}
		id := info.ID
		if info, err = infoOf(h); err == nil && info.ID != id {
			err = syscall.ELOOP
		}
	}
	if err != nil {
		windows.CloseHandle(h)
		return windows.InvalidHandle, Info{}, err
	}
	return h, info, nil
}

func (d *Dir) each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	h, err := reopen(d.h, dirAccess) // the listing has a separate reading position
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(h), ".")
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if !yield([]byte(e.Name()), 0, kindOfEntry(e.Type())) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bare(err)
		}
	}
}

// kindOfEntry returns Unknown for entries that package os calls irregular. Lstat then
// determines their kind.
func kindOfEntry(mode fs.FileMode) Kind {
	switch mode {
	case 0:
		return Regular
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Symlink
	}
	return Unknown
}

// Lstat describes the object at a path that a user named. It describes a symbolic link itself.
func (sys *FS) Lstat(path string) (Info, error) {
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." { // these names lead to a directory in any case
		d, err := sys.OpenRoot(path)
		if err != nil {
			return Info{}, err
		}
		defer d.Close()
		return d.Stat()
	}
	if dir == "" {
		dir = "."
	}
	d, err := sys.OpenRoot(dir)
	if err != nil {
		return Info{}, err
	}
	defer d.Close()
	return d.Lstat(name)
}

func (d *Dir) lstat(name string) (Info, error) {
	h, err := openAt(d.h, name, readAttributes, windows.FILE_OPEN, 0)
	if err != nil {
		return Info{}, err
	}
	defer windows.CloseHandle(h)
	return infoOf(h)
}

func (d *Dir) openFile(name string) (Object, error) {
	h, _, err := d.openThing(name, readAttributes|windows.FILE_READ_DATA)
	return Object{h: h}, err
}

func (d *Dir) openObject(name string) (Object, error) {
	h, err := openAt(d.h, name, writeAttributes, windows.FILE_OPEN, 0)
	if err == windows.ERROR_ACCESS_DENIED {
		h, err = openAt(d.h, name, readAttributes, windows.FILE_OPEN, 0)
	}
	return Object{h: h}, err
}

// sync flushes the directory's names, which needs the right to create entries. Not every user
// has that right, another process can withhold it while it has the directory open, and FAT
// flushes only its root. Then sync does nothing.
func (d *Dir) sync() error {
	h, err := reopen(d.h, windows.FILE_WRITE_DATA)
	if InUse(err) {
		return nil
	}
	if err != nil {
		return IgnoreRefusal(err)
	}
	defer windows.CloseHandle(h)
	err = windows.FlushFileBuffers(h)
	if InvalidArgument(err) {
		return nil
	}
	return IgnoreRefusal(err)
}

// KeepsChangeTime is always false: Info has no change time, because programs can set it.
func (d *Dir) KeepsChangeTime() bool { return false }

// Writable is always true: on Windows, modes do not prevent new entries.
func (d *Dir) Writable() bool { return true }

// LacksInodes is false: the file systems of Windows have no fixed number of files.
func (d *Dir) LacksInodes() bool { return false }

var queryVolumeInformation = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtQueryVolumeInformationFile")

// Available returns how many bytes the user can write to the file system of the directory, or
// -1 if that is unknown. The number respects quotas (FILE_FS_FULL_SIZE_INFORMATION of ntifs.h).
func (d *Dir) Available() int64 {
	const fullSizeInformation = 7 // FS_INFORMATION_CLASS
	var size struct {
		total, available, free int64 // allocation units
		sectorsPerUnit         uint32
		bytesPerSector         uint32
	}
	var iosb windows.IO_STATUS_BLOCK
	status, _, _ := queryVolumeInformation.Call(uintptr(d.h), uintptr(unsafe.Pointer(&iosb)),
		uintptr(unsafe.Pointer(&size)), unsafe.Sizeof(size), fullSizeInformation)
	if status != 0 {
		return -1
	}
	return size.available * int64(size.sectorsPerUnit) * int64(size.bytesPerSector)
}
