package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// makeSpecial creates an entry without data: a symbolic link or a special file. It usually creates a
// new symbolic link under its final name. Other entries get a temporary name and are then renamed.
// A replacement has to be atomic. Mknod makes a regular file on some file systems, which has to be
// removed.
func (r *copier) makeSpecial(e *entry, p *transfer) error {
	device := e.Kind == fsys.CharDevice || e.Kind == fsys.BlockDevice
	if device && !r.metadata.Privileged {
		p.target.Warn("device nodes", errors.New("device nodes are left out; making them takes privilege"))
		p.finish(targetResult{done: outLeft})
		return nil
	}
	name := p.name
	// With policy "never", a run after a killed one would not set the metadata of an existing link. So
	// the link gets its metadata before its name.
	late := r.opts.Policy == policy.Never
	if p.exists || e.Kind != fsys.Symlink || late {
		name = p.dir.TempName()
	}
	err := p.target.records.BeforeChange(e.manifestPath(p))
	if err != nil {
		return inStage(failure.StageJournal, err)
	}
	if e.Kind == fsys.Symlink {
		err = p.dir.Symlink(e.Link, name, e.Meta.Info)
	} else {
		err = p.dir.Mknod(name, e.Meta.Info)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist) && name == p.name:
		return r.nameTaken(e, p)
	case metadata.Refused(err) && e.Kind != fsys.Symlink:
		what := e.Kind.String()
		p.target.Warn(what, fmt.Errorf("a %s cannot be made there and is left out, like others of its kind: %w", what, err))
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
		err = p.dir.RenameNew(name, p.name)
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
	return nil
}

// applyTo sets the metadata of the entry that was just created under name.
func (r *copier) applyTo(e *entry, p *transfer, name string) error {
	o, err := p.dir.OpenObject(name)
	if err != nil {
		return err
	}
	defer o.Close()
	have, err := o.Stat()
	if err != nil {
		return err
	}
	if have.Kind != e.Kind || !p.target.IsOwnWork(have) {
		return errExchanged
	}
	if follows, err := p.dd.system.LinksFollowed(p.dir, have); follows || err != nil {
		return err
	}
	_, err = p.dd.system.Apply(o, &e.Meta, have, true, p.dd.inherits)
	return err
}
