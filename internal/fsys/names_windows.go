package fsys

import (
	"os"
	"strings"
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

func (d *Dir) readlink(name string) (target string, err error) {
	info, err := d.lstat(name)
	if err != nil {
		return "", err
	}
	if info.Kind != Symlink {
		return "", syscall.EINVAL
	}
	err = d.withRoot(func(root *os.Root) error {
		target, err = root.Readlink(name)
		return err
	})
	return target, err
}

func (d *Dir) symlink(target, name string) error {
	if err := validName(name); err != nil {
		return err
	}
	if target == "" || strings.ContainsRune(target, 0) {
		return syscall.EINVAL
	}
	return d.withRoot(func(root *os.Root) error { return root.Symlink(target, name) })
}

// withRoot opens the directory as an os.Root, which handles the format and the privilege of
// links. That takes a path, so withRoot checks that the root is the same directory.
func (d *Dir) withRoot(f func(*os.Root) error) error {
	path := make([]uint16, 1<<15)
	n, err := windows.GetFinalPathNameByHandle(d.h, &path[0], uint32(len(path)), 0)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(windows.UTF16ToString(path[:n]))
	if err != nil {
		return bare(err)
	}
	defer root.Close()
	here, err := root.Open(".")
	if err != nil {
		return bare(err)
	}
	defer here.Close()
	ours, err := infoOf(d.h)
	if err != nil {
		return err
	}
	if its, err := infoOf(windows.Handle(here.Fd())); err != nil || its.ID != ours.ID {
		return ErrMoved
	}
	if err := f(root); err != nil {
		return bare(err)
	}
	return nil
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
	h, err := openAt(d.h, oldName, windows.DELETE|windows.SYNCHRONIZE, windows.FILE_OPEN, 0)
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
	h, err := openAt(d.h, name, windows.DELETE|readAttributes, windows.FILE_OPEN, 0)
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
