//go:build unix

package fsys

import (
	"golang.org/x/sys/unix"
)

// createTemp creates the file name, which must not exist.
func (d *Dir) createTemp(name string) (Object, error) {
	return d.openAt(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

// openTemp opens name if it is a temporary of the owner. It checks that first, because opening
// can already have an effect on a device.
func (d *Dir) openTemp(name string, owner uint32) (Object, error) {
	info, err := d.lstat(name)
	if err != nil {
		return Object{}, err
	}
	if !isOurTemp(info, owner) {
		return Object{}, errNotOurTemp
	}
	return d.openAt(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

func isOurTemp(info Info, owner uint32) bool {
	return info.Kind == Regular && info.Nlink == 1 && info.UID == owner
}

// Place renames the temporary, replaces an existing file of the new name, and leaves the file
// open. Keep closes it.
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

// Commit gives the complete file its name and closes it. The error is EEXIST if the name exists.
// After an error the caller must call Abort. Errors of lost writes that only close reports, as on
// NFS, are known before the name appears: afterwards, another process may have replaced the file.
func (p *Pending) Commit(name string) error {
	if err := p.fault(OpLink, name); err != nil {
		return err
	}
	if p.temp == "" {
		if err := p.closeSecond(); err != nil {
			return err
		}
		if err := p.linkUnnamed(name); err != nil {
			return err
		}
		p.dir = nil
		p.Close()
		return nil
	}
	if err := p.closeFile(); err != nil {
		return err
	}
	if err := p.dir.renameNew(p.temp, name); err != nil {
		return err
	}
	p.dir = nil
	return nil
}

// closeSecond closes a second descriptor of the file where the close can report lost writes: each close
// of a descriptor reports them.
func (p *Pending) closeSecond() error {
	if p.dir.files.Load().closeReports {
		second, err := p.dup()
		if err == nil {
			err = second.close()
		}
		if err != nil {
			return err
		}
	}
	return p.fault(OpCloseFile, "")
}

// CommitReplacing gives the complete file its name, replaces an existing file of that name
// atomically, and closes it. After an error the caller must call Abort.
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

// Abort closes and removes the file. left reports whether its temporary could not be removed.
// It does nothing after a commit.
func (p *Pending) Abort() (left bool) {
	if p.dir == nil {
		return false
	}
	if p.temp != "" {
		err := p.dir.removed(retry(func() error { return p.dir.remove(p.temp) }), p.temp)
		left = err != nil && err != unix.ENOENT
	}
	p.dir = nil
	if !p.closed {
		p.Close()
	}
	return left
}
