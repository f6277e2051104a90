package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// readSpecialXattrs reads the extended attributes of a fifo, socket or device: ACLs and
// security labels.
func (r *run) readSpecialXattrs(e *entry) error {
	if e.kind == fsys.Symlink || r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return nil
	}
	e.clock.At(timing.Read, timing.Source)
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
	return r.readXattrs(o, e.path, &e.meta)
}

// makeSpecial creates an entry without data: a symbolic link or a special file. It usually creates a
// new symbolic link under its final name. Other entries get a temporary name and are then renamed.
// A replacement has to be atomic. Mknod makes a regular file on some file systems, which has to be
// removed.
func (r *run) makeSpecial(e *entry, p *transfer) error {
	device := e.kind == fsys.CharDevice || e.kind == fsys.BlockDevice
	if device && !r.privileged {
		p.target.warn(r, kindDevice, errors.New("device nodes are left out; making them takes privilege"))
		p.finish(targetResult{done: outLeft})
		return nil
	}
	name := p.name
	// With policy "never", a run after a killed one would not set the metadata of an existing link. So
	// the link gets its metadata before its name.
	late := r.opts.Policy == PolicyNever
	if p.exists || e.kind != fsys.Symlink || late {
		name = p.dir.TempName()
	}
	err := p.target.catalog.BeforeChange(e.manifestPath(p))
	if err != nil {
		return inStage(failure.StageJournal, err)
	}
	if err := r.mayCommit(); err != nil {
		return err
	}
	if e.kind == fsys.Symlink {
		err = p.dir.Symlink(e.link, name, e.meta.info)
	} else {
		err = p.dir.Mknod(name, e.meta.info)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist) && name == p.name:
		return r.nameTaken(e, p)
	case refused(err) && e.kind != fsys.Symlink:
		what := e.kind.String()
		p.target.warn(r, what, fmt.Errorf("a %s cannot be made there and is left out, like others of its kind: %w", what, err))
		p.finish(targetResult{done: outLeft})
		return nil
	case fsys.Unsupported(err):
		return inStage(failure.StageCreate, fmt.Errorf("symbolic links cannot be made there: %w", err))
	default:
		return inStage(failure.StageCreate, err)
	}
	if err := r.applyTo(e, p, name); err != nil {
		if !errors.Is(err, errExchanged) {
			_ = p.dir.Remove(name)
		}
		return inStage(failure.StageMetadata, err)
	}
	switch {
	case name == p.name:
	case p.exists:
		err = r.putInPlace(p, name)
	default:
		if err = r.mayCommit(); err == nil {
			err = p.dir.RenameNew(name, p.name)
		}
		if err != nil {
			_ = p.dir.Remove(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist) && !p.exists:
		return r.nameTaken(e, p)
	case err != nil:
		return inStage(failure.StageCommit, err)
	}
	p.finish(targetResult{done: p.created()})
	e.clock.Did(0)
	return nil
}

// applyTo sets the metadata of the entry that was just created under name.
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
	_, err = r.apply(p.dd.system, o, &e.meta, have, true, p.dd.inherits)
	return err
}

// linksFollowed reports whether setting metadata of a symbolic link would change the file that
// the link points to. That happens with sshfs: it sends a path to its server, which follows
// the link, even to a place outside the destination. followsLinks checks each file system once.
func (r *run) linksFollowed(p *transfer, link fsys.Info) (follows bool, err error) {
	if link.Kind != fsys.Symlink {
		return false, nil
	}
	t := p.target
	follows, err = p.dd.system.followsLinks.get(func() (bool, error) { return followsLinks(p.dir) })
	switch {
	case refused(err): // other directories may allow it
		t.warn(r, kindLinkMeta, fmt.Errorf("times and owners of symbolic links cannot be kept there: %w", err))
		return true, nil
	case err != nil:
		return false, fmt.Errorf("checking whether metadata of symbolic links can be set: %w", err)
	case follows:
		t.warn(r, kindLinkMeta, errors.New("times and owners of symbolic links cannot be kept there; what the links point to would get them"))
	}
	return follows, nil
}

// followsLinks creates a symbolic link to a name that does not exist and sets its metadata. If
// that fails because the file does not exist, the file system follows links.
func followsLinks(dir *fsys.Dir) (bool, error) {
	if dir.SyncFSReliable() { // none of these file systems follows links
		return false, nil
	}
	name := dir.TempName()
	if err := dir.Symlink(dir.TempName(), name, fsys.Info{}); err != nil {
		return false, err
	}
	defer dir.Remove(name) //nolint:errcheck // its reserved name marks it as Sealift's
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

// putInPlace replaces the file of the transfer's name by a complete temporary. If there is a
// backup directory, the replaced file is kept there.
func (r *run) putInPlace(p *transfer, temp string) error {
	err := r.beforeReplacing(p)
	if err == nil {
		err = p.dir.Rename(temp, p.name)
	}
	if err != nil && p.dir.Remove(temp) != nil {
		p.target.keepJournal.Store(true) // a later run removes the temporary
	}
	return err
}
