package engine

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// sharesInode reports whether setting the source's metadata on an up-to-date file would change
// names of that file other than those of the entry's group. A new file must replace it then. Equal
// link counts at source and destination do not help, because the names may be different ones.
func (r *copier) sharesInode(e *entry, p *transfer) (bool, error) {
	src, have := e.Meta.Info, p.have
	names := uint64(1)
	if f := e.group.fileOf(p); f != nil {
		names = f.names
	}
	if have.Nlink <= names && !r.unlinked.has(have.ID) {
		return false, nil
	}
	if p.dd.system.Differs(src, have) {
		return true, nil
	}
	if e.Kind == fsys.Symlink {
		return false, nil
	}
	o, err := p.dir.OpenObject(p.name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	return p.dd.system.Outdated(o, &e.Meta, have)
}

// givesRights reports whether new metadata would make an up-to-date file of another user a program
// that runs with the rights of its owner or group, or with capabilities. A new file must replace it
// then: that user may still have the old one open for writing, or mapped, and could change the
// program afterwards. The files of root and of this process are kept.
func (r *copier) givesRights(e *entry, p *transfer) bool {
	have := p.have
	trusted := have.UID == e.Meta.Info.UID || have.UID == 0 || have.UID == p.target.Owner()
	return e.Kind == fsys.Regular && !trusted && p.dd.system.GivesRights(&e.Meta, have)
}

// keep finishes a transfer whose file has the source's content. It brings the metadata up to
// date, once if several names of a group are this file.
func (r *copier) keep(e *entry, p *transfer) error {
	res := targetResult{done: outUpToDate, Content: p.content}
	f := e.group.fileOf(p)
	if f == nil || !f.refreshed {
		e.activity.At(p.target.Place())
		changed, err := p.dd.system.Refresh(p.dir, p.name, &e.Meta, p.have, r.opts.DryRun, p.dd.system.SyncChanged)
		if err != nil {
			return inStage(failure.StageMetadata, err)
		}
		if changed {
			res.done = outRefreshed
		}
	}
	if f != nil {
		f.refreshed = true
	}
	p.finish(res)
	return nil
}
