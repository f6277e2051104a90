package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// copySpecial takes an entry that has no data to the destinations: a symbolic
// link, a fifo, a socket, a device node.
func (r *run) copySpecial(e *entry, group *linkGroup) {
	r.decideAll(e, group)
	for _, p := range e.transfers {
		if !p.open() {
			continue
		}
		e.clock.At(timing.Create, p.target.place())
		if e.kind == fsys.Irregular {
			r.failTransfer(e, p, failure.StageCreate, errors.New("a special file of an unknown kind cannot be copied"))
			continue
		}
		if err := r.readSpecialXattrs(e); err != nil {
			r.failSource(e, failure.StageMetadata, err)
			return
		}
		if p.act == actKeep {
			r.unshare(e, p)
		}
		switch p.act {
		case actKeep:
			r.keep(e, p)
		case actCreate, actReplace:
			r.makeSpecial(e, p)
		}
	}
}

// readSpecialXattrs reads what a fifo or device can have: an ACL, a label.
func (r *run) readSpecialXattrs(e *entry) error {
	if e.kind == fsys.Symlink || r.opts.DryRun || r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return nil
	}
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	defer e.dir.Release()
	o, err := dir.OpenObject(e.name)
	if err != nil {
		return err
	}
	defer o.Close()
	if now, err := o.Stat(); err != nil || now.ID != e.meta.info.ID {
		if err == nil {
			err = errExchanged
		}
		return err
	}
	return r.readXattrs(o, e.path, e.meta)
}

// makeSpecial creates the entry: a symbolic link under its name; under a temporary
// one to replace another atomically, and what is not a link, because a file system
// can make a regular file of that, which has to go (see Mknod).
func (r *run) makeSpecial(e *entry, p *transfer) {
	if r.opts.DryRun {
		p.done = created(p.act)
		return
	}
	device := e.kind == fsys.CharDevice || e.kind == fsys.BlockDevice
	if device && !r.privileged {
		p.target.warn(r, kindDevice, errors.New("device nodes are left out; making them takes privilege"))
		p.done = outLeft
		return
	}
	name := p.name
	if p.act == actReplace || e.kind != fsys.Symlink {
		name = p.dir.TempName()
	}
	err := p.target.catalog.BeforeChange(e.manifestPath(p))
	if err != nil {
		r.failTransfer(e, p, failure.StageJournal, err)
		return
	}
	if e.kind == fsys.Symlink {
		err = p.dir.Symlink(e.link, name)
	} else {
		err = p.dir.Mknod(name, e.meta.info)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist) && name == p.name:
		r.nameTaken(e, p)
		return
	case refused(err) && e.kind != fsys.Symlink:
		what := e.kind.String()
		p.target.warn(r, what, fmt.Errorf("a %s cannot be made there and is left out, like others of its kind: %w", what, err))
		p.done = outLeft
		return
	case fsys.Unsupported(err):
		r.failTransfer(e, p, failure.StageCreate, fmt.Errorf("symbolic links cannot be made there: %w", err))
		return
	default:
		r.failTransfer(e, p, failure.StageCreate, err)
		return
	}
	if err := r.applyTo(e, p, name); err != nil {
		if !errors.Is(err, errExchanged) {
			_ = p.dir.Remove(name)
		}
		r.failTransfer(e, p, failure.StageMetadata, err)
		return
	}
	switch {
	case name == p.name:
	case p.act == actReplace:
		err = r.putInPlace(p, name)
	default:
		if err = p.dir.RenameNew(name, p.name); err != nil {
			_ = p.dir.Remove(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist) && p.act == actCreate:
		r.nameTaken(e, p)
	case err != nil:
		r.failTransfer(e, p, failure.StageCommit, err)
	default:
		p.done = created(p.act)
		e.clock.Count(timing.Create, p.target.place(), 0)
	}
}

// applyTo sets the metadata of the entry just made as name.
func (r *run) applyTo(e *entry, p *transfer, name string) error {
	o, err := p.dir.OpenObject(name)
	if err != nil {
		return err
	}
	defer o.Close()
	have, err := o.Stat()
	if err != nil {
		return err
	}
	if have.Kind != e.kind || !p.target.isOwnWork(have) {
		return errExchanged
	}
	if follows, err := r.linksFollowed(p, have); follows || err != nil {
		return err
	}
	_, err = r.apply(p.dd.system, o, e.meta, have, true, p.dd.inherits)
	return err
}

// linksFollowed reports whether the file system of link, a symbolic link of the
// transfer's directory, would change what a link points to when the link's own
// metadata is set: sshfs hands its server a path, and the server follows it, out of
// the destination too. A link to nothing shows that; each file system is asked once.
func (r *run) linksFollowed(p *transfer, link fsys.Info) (follows bool, err error) {
	if link.Kind != fsys.Symlink {
		return false, nil
	}
	t := p.target
	follows, err = p.dd.system.followsLinks.get(func() (bool, error) { return followsLinks(p.dir) })
	if refused(err) { // perhaps only in this directory
		t.warn(r, kindLinkMeta, fmt.Errorf("times and owners of symbolic links cannot be kept there: %w", err))
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("finding out whether metadata of symbolic links can be set: %w", err)
	}
	if follows {
		t.warn(r, kindLinkMeta, errors.New("times and owners of symbolic links cannot be kept there; what the links point to would get them"))
	}
	return follows, nil
}

func followsLinks(dir *fsys.Dir) (bool, error) {
	if dir.SyncFSReliable() { // none of these does
		return false, nil
	}
	name := dir.TempName()
	if err := dir.Symlink(dir.TempName(), name); err != nil {
		return false, err
	}
	defer dir.Remove(name) //nolint:errcheck // the link is ours by its name
	o, err := dir.OpenObject(name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return false, err
	}
	return errors.Is(o.SetTimes(info.Atime, info.Mtime, info.Btime), fs.ErrNotExist) ||
		errors.Is(o.Chown(info.UID, info.GID), fs.ErrNotExist), nil
}

// putInPlace renames a complete temporary over what has the transfer's name.
func (r *run) putInPlace(p *transfer, temp string) error {
	err := p.dir.Rename(temp, p.name)
	if err != nil && p.dir.Remove(temp) != nil {
		p.target.keepLog.Store(true) // for a later run, which removes it
	}
	return err
}
