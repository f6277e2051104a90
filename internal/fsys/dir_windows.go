package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/windows"
)

// Dir is an open directory.
type Dir struct {
	Object
	caps *capabilities
}

// capabilities is what all directories of a tree share.
type capabilities struct {
	tempID atomic.Pointer[string] // SetTempID
}

// OpenRoot opens the directory that a user named. Symbolic links in path are
// followed: the path is the user's own.
func (sys *FS) OpenRoot(path string) (*Dir, error) {
	if err := sys.fault(OpOpenDir, path); err != nil {
		return nil, err
	}
	wide, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(wide, dirAccess, shareAll, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, err
	}
	info, err := infoOf(h)
	if err == nil && info.Kind != Directory {
		err = errNotDirectory
	}
	if err != nil {
		windows.CloseHandle(h)
		return nil, err
	}
	return &Dir{Object: Object{h: h, descriptor: sys.opened(path)}, caps: new(capabilities)}, nil
}

// OpenLookup opens the directory that a user named to open and describe entries of it
// by name, with the permissions that OpenRoot needs.
func (sys *FS) OpenLookup(path string) (*Dir, error) { return sys.OpenRoot(path) }

// OpenDir opens the subdirectory name; a symbolic link or a junction is ELOOP,
// anything else ERROR_DIRECTORY.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	if err := d.fault(OpOpenDir, name); err != nil {
		return nil, err
	}
	h, info, err := d.openThing(name, dirAccess)
	if err != nil {
		return nil, err
	}
	if info.Kind != Directory {
		windows.CloseHandle(h)
		return nil, errNotDirectory
	}
	return &Dir{Object: Object{h: h, descriptor: d.opened(name)}, caps: d.caps}, nil
}

// openThing opens the file or directory name: itself, not what a link there
// leads to (ELOOP). A reparse point that stands for nothing else (deduplicated
// data, a file in a cloud) is opened a second time, through its driver, and
// must be the same object.
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

// Each calls yield for the names in the directory, without "." and "..", in the
// system's order, until it returns false. The name is valid during the call; ino is
// 0, and kind Unknown, where a listing does not tell. A name that is not UTF-16 is
// given in WTF-8, as package os does.
func (d *Dir) Each(yield func(name []byte, ino uint64, kind Kind) (more bool)) error {
	if err := d.fault(OpList, ""); err != nil {
		return err
	}
	h, err := reopen(d.h, dirAccess) // with a reading position of its own
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

// kindOfEntry leaves what package os calls irregular to Lstat, which looks
// closer.
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

// Lstat describes what a user named, and of a symbolic link the link itself.
func (sys *FS) Lstat(path string) (Info, error) {
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." { // a directory in any case
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

// Lstat describes the entry name, not following a link.
func (d *Dir) Lstat(name string) (Info, error) {
	if err := d.fault(OpStat, name); err != nil {
		return Info{}, err
	}
	return d.lstat(name)
}

func (d *Dir) lstat(name string) (Info, error) {
	h, err := openAt(d.h, name, readAttributes, windows.FILE_OPEN, 0)
	if err != nil {
		return Info{}, err
	}
	defer windows.CloseHandle(h)
	return infoOf(h)
}

// Open opens the file name for reading and describes it. It does not follow a
// link; the caller looks at the kind.
func (d *Dir) Open(name string) (*File, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	h, _, err := d.openThing(name, readAttributes|windows.FILE_READ_DATA)
	if err != nil {
		return nil, Info{}, err
	}
	f := &File{Object{h: h, descriptor: d.opened(name)}}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, info, nil
}

// OpenObject opens the entry name, whatever it is, to read and set metadata. A
// link is not followed.
func (d *Dir) OpenObject(name string) (*Object, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, err
	}
	h, err := openAt(d.h, name, writeAttributes, windows.FILE_OPEN, 0)
	if err == windows.ERROR_ACCESS_DENIED {
		h, err = openAt(d.h, name, readAttributes, windows.FILE_OPEN, 0)
	}
	if err != nil {
		return nil, err
	}
	return &Object{h: h, descriptor: d.opened(name)}, nil
}

// Sync does nothing: a directory cannot be forced to the device. NTFS and ReFS
// log changes of names in order, with the next flush of a file at the latest.
func (d *Dir) Sync() error {
	if err := d.fault(OpSync, ""); err != nil {
		return err
	}
	_, err := d.flushed(Flush{Op: OpSync})
	return err
}

// SyncFS is not supported: flushing a volume takes an administrator.
func (d *Dir) SyncFS() error {
	if err := d.fault(OpSyncFS, ""); err != nil {
		return err
	}
	if done, err := d.flushed(Flush{Op: OpSyncFS}); done {
		return err
	}
	return errNotSupported
}

// SyncFSReliable is false: every file is forced to the device by itself.
func (d *Dir) SyncFSReliable() bool {
	disk := d.disk()
	return disk != nil && disk.FlushesAll()
}

// Writable is always true: no mode keeps entries from being made.
func (d *Dir) Writable() bool { return true }

// TakeOver opens a directory of ours. Access is a matter of ACLs here, which
// Chmod cannot give.
func (d *Dir) TakeOver(name string) (*Dir, uint32, error) {
	o, err := d.OpenObject(name)
	if err != nil {
		return nil, 0, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Kind != Directory {
		return nil, 0, errNotDirectory
	}
	if err := o.Chmod(info.Mode | 0o700); err != nil {
		return nil, 0, err
	}
	sub, err := d.OpenDir(name)
	return sub, info.Mode, err
}
