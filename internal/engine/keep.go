package engine

import (
	"bytes"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// sharesInode reports whether setting the source's metadata on an up-to-date file would change
// names of that file other than those of the entry's group. A new file must replace it then. Equal
// link counts at source and destination do not help, because the names may be different ones.
func (r *run) sharesInode(e *entry, p *transfer) (bool, error) {
	src, have := e.meta.info, p.have
	names := uint64(1)
	if f := e.group.fileOf(p); f != nil {
		names = f.names
	}
	if have.Nlink <= names && !r.unlinked.has(have.ID) {
		return false, nil
	}
	if r.differs(p.dd.system, src, have) {
		return true, nil
	}
	if e.kind == fsys.Symlink {
		return false, nil
	}
	o, err := p.dir.OpenObject(p.name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	return r.outdated(p.dd.system, o, &e.meta, have)
}

// givesRights reports whether new metadata would make an up-to-date file of another user a program
// that runs with the rights of its owner or group, or with capabilities. A new file must replace it
// then: that user may still have the old one open for writing, or mapped, and could change the
// program afterwards. The files of root and of this process are kept.
func (r *run) givesRights(e *entry, p *transfer) bool {
	src, have, system := e.meta.info, p.have, p.dd.system
	trusted := have.UID == src.UID || have.UID == 0 || p.target.log != nil && have.UID == p.target.log.Owner
	if !r.privileged || e.kind != fsys.Regular || trusted || system.forgetsOwners {
		return false
	}
	setID := r.ownerDiffers(system, src, have) && r.modeFor(src, have, false, true)&(fsys.ModeSetuid|fsys.ModeSetgid) != 0
	return setID || valueOf(e.meta.xattrs, fileCapability) != nil && !system.cannot(xattrKind(fileCapability))
}

// outdated reports whether o lacks metadata of m that could be set, or has extended attributes
// that m lacks. o is a file at the destination, and have is its description.
func (r *run) outdated(s *fileSystem, o *fsys.Object, m *metadata, have fsys.Info) (bool, error) {
	if r.differs(s, m.info, have) {
		return true, nil
	}
	if m.info.Kind == fsys.Symlink || r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return false, nil
	}
	list, err := o.Xattrs(r.wantsXattr)
	if err != nil && refused(err) { // setting attributes reports that
		return false, nil
	}
	if err != nil {
		return false, err
	}
	differs := func(a, b []fsys.Xattr) bool {
		return slices.ContainsFunc(a, func(x fsys.Xattr) bool {
			kind := xattrKind(x.Name)
			if s.cannot(kind) || kind == kindACL && s.forgetsModes { // a new file would lack it, too
				return false
			}
			return !bytes.Equal(valueOf(b, x.Name), x.Value) || valueOf(b, x.Name) == nil
		})
	}
	return differs(m.xattrs, list) || !m.unread && differs(list, m.xattrs), nil
}

// differs reports whether a file at the destination lacks metadata that could be set, extended
// attributes aside.
func (r *run) differs(s *fileSystem, src, have fsys.Info) bool {
	return r.ownerDiffers(s, src, have) || r.modeDiffers(s, src, have) || r.timeDiffers(s, src, have)
}

// ownerDiffers reports whether the run would change the owner or group of a file at the destination.
func (r *run) ownerDiffers(s *fileSystem, src, have fsys.Info) bool {
	return !sameOwner(src, have) && r.privileged && r.opts.Preserve&PreserveOwner != 0 && !s.forgetsOwners && !s.cannot(kindOwner)
}

func sameOwner(src, have fsys.Info) bool { return src.UID == have.UID && src.GID == have.GID }

// modeDiffers reports whether the run would change the mode of a file at the destination.
func (r *run) modeDiffers(s *fileSystem, src, have fsys.Info) bool {
	return src.Kind != fsys.Symlink && r.modeFor(src, have, false, sameOwner(src, have)) != have.Mode && !s.forgetsModes && !s.cannot(kindMode)
}

// timeDiffers reports whether the run would change the mtime of a file at the destination.
func (r *run) timeDiffers(s *fileSystem, src, have fsys.Info) bool {
	return r.opts.Preserve&PreserveTimes != 0 && !s.SameTime(src.Mtime, have.Mtime)
}

// keep finishes a transfer whose file has the source's content. It brings the metadata up to
// date, once if several names of a group are this file.
func (r *run) keep(e *entry, p *transfer) error {
	res := targetResult{done: outUpToDate, content: p.content}
	f := e.group.fileOf(p)
	if f == nil || !f.refreshed {
		e.clock.At(timing.Commit, p.target.place())
		changed, err := r.refresh(p, &e.meta)
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
