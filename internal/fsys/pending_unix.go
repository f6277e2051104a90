//go:build unix

package fsys

import (
	"golang.org/x/sys/unix"
)

// Pending is a file that is being written. It has no name, or a temporary one,
// with mode 0600, until Commit or CommitReplacing; Abort leaves nothing behind,
// Keep the temporary.
type Pending struct {
	File
	dir    *Dir   // nil when all is done
	temp   string // "" while the file has no name
	closed bool
}

// Create begins a new file in d, which must stay open until the end of it.
// named asks for a temporary name from the start, where it would otherwise have
// none: a file that a later run is to find needs one.
func (d *Dir) Create(named bool) (*Pending, error) {
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	if !named {
		p, err := d.createUnnamed()
		if err == nil || !Unsupported(err) {
			return p, err
		}
	}
	for {
		name := d.TempName()
		fd, err := retryN(func() (int, error) {
			return unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		})
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := &Pending{File: File{Object: Object{fd: fd, descriptor: d.opened(name)}}, dir: d, temp: name}
		if err := d.made(nil, OpCreate, name, ""); err != nil {
			p.Abort()
			return nil, err
		}
		return p, nil
	}
}

// Reopen takes up the temporary name that an interrupted run has left in d, for
// reading and writing; it is then as if Create had just made it. A link, a fifo
// or a device is not opened, and neither is a file of another owner or with
// another name.
func (d *Dir) Reopen(name string, owner uint32) (*Pending, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	var st unix.Stat_t // opening alone can do something to a device
	if err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return nil, Info{}, err
	}
	if !isOurTemp(infoOf(&st), owner) {
		return nil, Info{}, errNotOurTemp
	}
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := retryN(func() (int, error) { return unix.Openat(d.fd, name, flags, 0) })
	if err != nil {
		return nil, Info{}, err
	}
	p := &Pending{File: File{Object: Object{fd: fd, descriptor: d.opened(name)}}, dir: d, temp: name}
	info, err := p.Stat()
	if err == nil && !isOurTemp(info, owner) { // exchanged meanwhile
		err = errNotOurTemp
	}
	if err != nil {
		p.Close()
		return nil, Info{}, err
	}
	return p, info, nil
}

func isOurTemp(info Info, owner uint32) bool {
	return info.Kind == Regular && info.Nlink == 1 && info.UID == owner
}

// Name returns the file's temporary name, "" while it has none and when all is
// done.
func (p *Pending) Name() string {
	if p.dir == nil {
		return ""
	}
	return p.temp
}

// Keep closes the file and leaves it under its temporary name, for Reopen in a
// later run; a file without one is refused. After an error only Abort is left to
// do; else that does nothing any more.
func (p *Pending) Keep() error {
	if p.temp == "" {
		return errNoTemp
	}
	if err := p.closeFile(); err != nil {
		return err
	}
	p.dir = nil
	return nil
}

// Place gives the temporary another name, replacing what has it, and leaves it
// open: Keep closes it.
func (p *Pending) Place(name string) error {
	if p.temp == "" {
		return errNoTemp
	}
	err := p.dir.Rename(p.temp, name)
	if err == nil {
		p.temp = name
	}
	return err
}

// Commit gives the complete file its name and closes it; EEXIST if the name is
// taken. After an error only Abort is left to do. What only close tells of lost
// writes, as NFS does, is known before the name appears, or takes it back.
func (p *Pending) Commit(name string) error {
	if err := p.fault(OpLink, name); err != nil {
		return err
	}
	if p.temp != "" {
		if err := p.closeFile(); err != nil {
			return err
		}
		err := p.dir.renameNew(p.temp, name)
		if err == nil {
			p.dir = nil
		}
		return err
	}
	if err := p.linkUnnamed(name); err != nil {
		return err
	}
	p.temp = name // it goes with Abort until it is closed
	if err := p.closeFile(); err != nil {
		return err
	}
	p.dir = nil
	return nil
}

// CommitReplacing gives the complete file its name, replacing what has it,
// atomically, and closes it. After an error only Abort is left to do.
func (p *Pending) CommitReplacing(name string) error {
	if p.temp == "" {
		temp := p.dir.TempName()
		if err := p.fault(OpLink, temp); err != nil {
			return err
		}
		if err := p.linkUnnamed(temp); err != nil {
			return err
		}
		p.temp = temp
	}
	if err := p.closeFile(); err != nil {
		return err
	}
	if err := p.dir.Rename(p.temp, name); err != nil {
		return err
	}
	p.dir = nil
	return nil
}

// Abort gives the file up, and reports whether its temporary is left, which could not
// be removed. It does nothing after a commit.
func (p *Pending) Abort() (left bool) {
	if p.dir == nil {
		return false
	}
	if p.temp != "" {
		err := retry(func() error { return unix.Unlinkat(p.dir.fd, p.temp, 0) })
		err = p.dir.removed(err, p.temp)
		left = err != nil && err != unix.ENOENT
	}
	p.dir = nil
	if !p.closed {
		p.Close()
	}
	return left
}

func (p *Pending) closeFile() error {
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.close()
	if err == nil {
		err = p.fault(OpCloseFile, "")
	}
	return err
}

// RenameNew is Rename that never replaces: EEXIST if the name is taken.
func (d *Dir) RenameNew(oldName, newName string) error {
	if err := d.fault(OpRename, newName); err != nil {
		return err
	}
	return d.renameNew(oldName, newName)
}

// renameNew is RenameNew of our own temporaries.
func (d *Dir) renameNew(oldName, newName string) error {
	return d.moved(d.renameExclusively(oldName, newName), OpRename, oldName, d, newName)
}

func (d *Dir) renameExclusively(oldName, newName string) error {
	err := retry(func() error { return d.calls().exclusiveRename(d.fd, oldName, newName) })
	if err == nil || !Unsupported(err) && err != unix.EINVAL {
		return err
	}
	err = retry(func() error { return d.calls().hardLink(d.fd, oldName, d.fd, newName, 0) })
	if err == nil {
		return retry(func() error { return unix.Unlinkat(d.fd, oldName, 0) })
	}
	if !Unsupported(err) && err != unix.EPERM {
		return err
	}
	// Neither an exclusive rename nor hard links: look, then rename. Somebody
	// else's file that appears in between is replaced, but none of ours.
	d.caps.look.Lock()
	defer d.caps.look.Unlock()
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, newName, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return unix.EEXIST
	} else if err != unix.ENOENT {
		return err
	}
	return retry(func() error { return unix.Renameat(d.fd, oldName, d.fd, newName) })
}
