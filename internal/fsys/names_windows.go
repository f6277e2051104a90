package fsys

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// Mkdir creates the directory name; who may use it, its parent's ACL says.
func (d *Dir) Mkdir(name string) error {
	if err := d.fault(OpMkdir, name); err != nil {
		return err
	}
	h, err := openAt(d.h, name, readAttributes, windows.FILE_CREATE, windows.FILE_DIRECTORY_FILE)
	if err != nil {
		return err
	}
	return d.made(windows.CloseHandle(h), OpMkdir, name, "")
}

// Readlink returns the target of the symbolic link name.
func (d *Dir) Readlink(name string) (target string, err error) {
	if err := d.fault(OpReadlink, name); err != nil {
		return "", err
	}
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

// Symlink creates the symbolic link name; EEXIST if the name is taken. It is a
// link to a directory if target is one already, else to a file. It takes a
// privilege or the developer mode.
func (d *Dir) Symlink(target, name string) error {
	if err := d.fault(OpSymlink, name); err != nil {
		return err
	}
	if err := validName(name); err != nil {
		return err
	}
	if target == "" || strings.ContainsRune(target, 0) {
		return syscall.EINVAL
	}
	err := d.withRoot(func(root *os.Root) error { return root.Symlink(target, name) })
	return d.made(err, OpSymlink, name, target)
}

// withRoot opens the directory as an os.Root, which knows the format of links
// and their privilege. That takes a path; so the root must then be the same
// directory.
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

// Mknod is not supported: there are no such files.
func (d *Dir) Mknod(name string, _ Info) error {
	if err := d.fault(OpMknod, name); err != nil {
		return err
	}
	return errNotSupported
}

// Link gives the entry name of d the further name newName in to; EEXIST if that
// is taken. A symbolic link is linked itself.
func (d *Dir) Link(name string, to *Dir, newName string) error {
	if err := d.fault(OpLink, newName); err != nil {
		return err
	}
	h, err := openAt(d.h, name, writeAttributes, windows.FILE_OPEN, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return d.moved(bare(setName(h, fileLinkInformation, 0, to.h, newName)), OpLink, name, to, newName)
}

// Rename gives oldName the name newName in the same directory and replaces what
// has that name, atomically. If both are links of one file, oldName is removed.
func (d *Dir) Rename(oldName, newName string) error {
	return d.MoveTo(oldName, d, newName)
}

// RenameNew is Rename that never replaces: ERROR_ALREADY_EXISTS if the name is
// taken.
func (d *Dir) RenameNew(oldName, newName string) error {
	if err := d.fault(OpRename, newName); err != nil {
		return err
	}
	h, err := openAt(d.h, oldName, windows.DELETE|windows.SYNCHRONIZE, windows.FILE_OPEN, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return d.moved(renameHandle(h, d.h, newName), OpRename, oldName, d, newName)
}

// MoveTo is Rename into the directory to of the same volume. A directory with
// anything open below it cannot be moved: access denied.
func (d *Dir) MoveTo(oldName string, to *Dir, newName string) error {
	if err := d.fault(OpRename, newName); err != nil {
		return err
	}
	h, err := openAt(d.h, oldName, windows.DELETE|windows.SYNCHRONIZE, windows.FILE_OPEN, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return d.moved(replaceHandle(h, to.h, newName), OpRename, oldName, to, newName)
}

// Remove removes the name of anything but a directory; a link to a directory is
// none.
func (d *Dir) Remove(name string) error {
	if err := d.fault(OpRemove, name); err != nil {
		return err
	}
	return d.removed(d.remove(name, false), name)
}

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error {
	if err := d.fault(OpRemove, name); err != nil {
		return err
	}
	return d.removed(d.remove(name, true), name)
}

func (d *Dir) remove(name string, dir bool) error {
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
