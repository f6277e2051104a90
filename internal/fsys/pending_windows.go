package fsys

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// Pending is a file that is being written. It has a temporary name until Commit
// or CommitReplacing; Abort leaves nothing behind, Keep the temporary.
type Pending struct {
	File
	dir  *Dir // nil once it is committed, kept or given up
	temp string
}

// Create begins a new file in d, which must stay open until the end of it. It
// always has a temporary name: there are no files without one.
func (d *Dir) Create(bool) (*Pending, error) {
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	for {
		name := d.TempName()
		h, err := openAt(d.h, name, pendingAccess, windows.FILE_CREATE, windows.FILE_NON_DIRECTORY_FILE)
		if err == syscall.EEXIST {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := &Pending{File: File{Object{h: h, descriptor: d.opened(name)}}, dir: d, temp: name}
		if err := d.made(nil, OpCreate, name, ""); err != nil {
			p.Abort()
			return nil, err
		}
		return p, nil
	}
}

// pendingAccess includes the right to rename and to remove.
const pendingAccess = windows.GENERIC_READ | windows.GENERIC_WRITE | windows.DELETE | windows.SYNCHRONIZE

// Reopen takes up the temporary name that an interrupted run has left in d, for
// reading and writing; it is then as if Create had just made it. A link or a
// directory is refused, and so is a file with another name.
func (d *Dir) Reopen(name string, _ uint32) (*Pending, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	h, info, err := d.openThing(name, pendingAccess)
	if err == syscall.ELOOP {
		err = errNotOurTemp
	}
	if err != nil {
		return nil, Info{}, err
	}
	p := &Pending{File: File{Object{h: h, descriptor: d.opened(name)}}, dir: d, temp: name}
	if info.Kind != Regular || info.Nlink != 1 {
		p.Close()
		return nil, Info{}, errNotOurTemp
	}
	return p, info, nil
}

// Name returns the file's temporary name, "" when all is done.
func (p *Pending) Name() string {
	if p.dir == nil {
		return ""
	}
	return p.temp
}

// Keep closes the file and leaves it under its temporary name, for Reopen in a
// later run. After an error only Abort is left to do; else that does nothing any
// more.
func (p *Pending) Keep() error {
	return p.finish(func() error { return nil })
}

// Place gives the temporary another name, replacing what has it, and leaves it
// open: Keep closes it.
func (p *Pending) Place(name string) error {
	if err := p.fault(OpRename, name); err != nil {
		return err
	}
	err := p.dir.moved(replaceHandle(p.h, p.dir.h, name), OpRename, p.temp, p.dir, name)
	if err == nil {
		p.temp = name
	}
	return err
}

// Commit gives the complete file its name and closes it; EEXIST if the name is
// taken. After an error only Abort is left to do.
func (p *Pending) Commit(name string) error {
	if err := p.fault(OpLink, name); err != nil {
		return err
	}
	return p.finish(func() error {
		return p.dir.moved(renameHandle(p.h, p.dir.h, name), OpRename, p.temp, p.dir, name)
	})
}

// CommitReplacing gives the complete file its name, replacing what has it,
// atomically, and closes it. After an error only Abort is left to do.
func (p *Pending) CommitReplacing(name string) error {
	if err := p.fault(OpRename, name); err != nil {
		return err
	}
	return p.finish(func() error {
		return p.dir.moved(replaceHandle(p.h, p.dir.h, name), OpRename, p.temp, p.dir, name)
	})
}

// Abort gives the file up, and reports whether its temporary is left, which could not
// be removed. It does nothing after a commit.
func (p *Pending) Abort() (left bool) {
	if p.dir == nil {
		return false
	}
	left = p.dir.removed(deleteHandle(p.h), p.temp) != nil
	p.dir = nil
	p.File.Close()
	return left
}

// finish renames the file, by its handle, and closes it. Closing tells of no
// lost writes here; what FS.Fault makes of it comes before the name, as on Unix.
func (p *Pending) finish(rename func() error) error {
	if err := p.fault(OpCloseFile, ""); err != nil {
		return err
	}
	if err := rename(); err != nil {
		return err
	}
	p.dir = nil
	return p.File.close()
}
