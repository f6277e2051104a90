package fsys

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/windows"
)

// pendingAccess includes the right to rename and to remove.
const pendingAccess = windows.GENERIC_READ | windows.GENERIC_WRITE | windows.DELETE

// createTemp creates the file name, which must not exist.
func (d *Dir) createTemp(name string) (Object, error) {
	h, err := openAt(d.h, name, pendingAccess, windows.FILE_CREATE, windows.FILE_NON_DIRECTORY_FILE)
	return Object{h: h}, err
}

func (d *Dir) openTemp(name string, _ uint32) (Object, error) {
	h, _, err := d.openThing(name, pendingAccess)
	if err == syscall.ELOOP {
		err = errNotOurTemp
	}
	return Object{h: h}, err
}

// isOurTemp ignores the owner, which is no number on Windows.
func isOurTemp(info Info, _ uint32) bool { return info.Kind == Regular && info.Nlink == 1 }

// Place renames the temporary, replaces an existing file of the new name, and leaves the file
// open. Keep closes it.
func (p *Pending) Place(name string) error {
	if err := p.fault(OpRename, name); err != nil {
		return err
	}
	err := p.renameBy(replaceHandle, name)
	if err == nil {
		p.temp = name
	}
	return err
}

// Commit gives the complete file its name and closes it. The error is EEXIST if the name
// exists. After an error the caller must call Abort.
func (p *Pending) Commit(name string) error {
	return p.finish(OpLink, renameHandle, name)
}

// CommitReplacing gives the complete file its name, replaces an existing file of that name
// atomically, and closes it. After an error the caller must call Abort.
func (p *Pending) CommitReplacing(name string) error {
	return p.finish(OpRename, replaceHandle, name)
}

// Abort closes and removes the file. left reports whether its temporary could not be removed.
// It does nothing after a commit.
func (p *Pending) Abort() (left bool) {
	if p.dir == nil {
		return false
	}
	if p.closed {
		err := p.dir.removed(p.dir.remove(p.temp), p.temp)
		p.dir = nil
		return err != nil && !errors.Is(err, fs.ErrNotExist)
	}
	left = p.dir.removed(deleteHandle(p.h), p.temp) != nil
	p.dir = nil
	p.File.Close()
	return left
}

// finish renames the file through its handle and closes it. On Windows, closing reports no
// lost writes. FS.Fault is called before the name appears, as on Unix.
func (p *Pending) finish(op Op, rename renamer, name string) error {
	if err := p.fault(op, name); err != nil {
		return err
	}
	if err := p.fault(OpCloseFile, ""); err != nil {
		return err
	}
	if err := p.renameBy(rename, name); err != nil {
		return err
	}
	p.dir = nil
	return p.File.close()
}

// renameBy renames the file through its handle.
func (p *Pending) renameBy(rename renamer, name string) error {
	return p.dir.moved(rename(p.h, p.dir.h, name), OpRename, p.temp, p.dir, name)
}
