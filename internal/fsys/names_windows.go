package fsys

import (
	"syscall"

	"golang.org/x/sys/windows"
)

func (d *Dir) mkdir(name string) error {
	h, err := openAt(d.h, name, readAttributes, windows.FILE_CREATE, windows.FILE_DIRECTORY_FILE)
	if err != nil {
		return err
	}
	return windows.CloseHandle(h)
}

// mknod is not supported: Windows has no such files.
func (d *Dir) mknod(string, Info) error { return errNotSupported }

func (d *Dir) link(name string, to *Dir, newName string) error {
	h, err := openAt(d.h, name, writeAttributes, windows.FILE_OPEN, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return bare(setName(h, fileLinkInformation, 0, to.h, newName))
}

func (d *Dir) rename(oldName string, to *Dir, newName string) error {
	return d.renameBy(replaceHandle, oldName, to, newName)
}

func (d *Dir) renameExclusively(oldName, newName string) error {
	return d.renameBy(renameHandle, oldName, d, newName)
}

// renameBy renames an entry through its handle.
func (d *Dir) renameBy(rename renamer, oldName string, to *Dir, newName string) error {
	h, err := openToRemove(d.h, oldName, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return rename(h, to.h, newName)
}

// remove also removes a symbolic link to a directory, because the link is no directory.
func (d *Dir) remove(name string) error { return d.removeThing(name, false) }

func (d *Dir) removeDir(name string) error { return d.removeThing(name, true) }

func (d *Dir) removeThing(name string, dir bool) error {
	h, err := openToRemove(d.h, name, readAttributes)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	info, err := infoOf(h)
	switch {
	case err != nil:
		return err
	case dir && info.Kind != Directory:
		return errNotDirectory
	case !dir && info.Kind == Directory:
		return syscall.EISDIR
	}
	return deleteHandle(h)
}
