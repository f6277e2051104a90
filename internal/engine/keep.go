package engine

import (
	"bytes"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// sharesInode reports whether setting the source's metadata on a file that is up to date
// would change names that are not this entry's: then a new file replaces it. The number of
// links proves nothing about that: even if the source's file has as many, the other names
// may be different ones.
func (r *run) sharesInode(e *entry, p *transfer) (bool, error) {
	src, have := e.meta.info, p.have
	names := uint64(1)
	if e.meta.unread { // a new one would lack attributes that this one may have
		names = max(src.Nlink, 1)
	}
	if have.Nlink <= names {
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

// outdated reports whether o at the destination, which have describes, lacks metadata that
// could be set, or has extended attributes that m lacks.
func (r *run) outdated(s *fileSystem, o *fsys.Object, m *metadata, have fsys.Info) (bool, error) {
	if r.differs(s, m.info, have) {
		return true, nil
	}
	if m.info.Kind == fsys.Symlink || r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return false, nil
	}
	list, err := o.Xattrs(r.wantsXattr)
	if err != nil && refused(err) { // setting them reports that
		return false, nil
	}
	if err != nil {
		return false, err
	}
	differs := func(a, b []fsys.Xattr) bool {
		return slices.ContainsFunc(a, func(x fsys.Xattr) bool {
			kind := xattrKind(x.Name)
			if s.cannot(kind) || kind == kindACL && s.forgetsModes { // nor would a new one have it
				return false
			}
			return !bytes.Equal(valueOf(b, x.Name), x.Value) || valueOf(b, x.Name) == nil
		})
	}
	return differs(m.xattrs, list) || !m.unread && differs(list, m.xattrs), nil
}

// differs reports whether what is at the destination lacks metadata that could be set,
// extended attributes aside.
func (r *run) differs(s *fileSystem, src, have fsys.Info) bool {
	return r.ownerDiffers(s, src, have) || r.modeDiffers(s, src, have) || r.timeDiffers(s, src, have)
}

func (r *run) ownerDiffers(s *fileSystem, src, have fsys.Info) bool {
	return !sameOwner(src, have) && r.privileged && r.opts.Preserve&PreserveOwner != 0 && !s.forgetsOwners && !s.cannot(kindOwner)
}

func sameOwner(src, have fsys.Info) bool { return src.UID == have.UID && src.GID == have.GID }

func (r *run) modeDiffers(s *fileSystem, src, have fsys.Info) bool {
	return src.Kind != fsys.Symlink && r.modeFor(src, have, false, sameOwner(src, have)) != have.Mode && !s.forgetsModes && !s.cannot(kindMode)
}

func (r *run) timeDiffers(s *fileSystem, src, have fsys.Info) bool {
	return r.opts.Preserve&PreserveTimes != 0 && !s.sameTime(src.Mtime, have.Mtime)
}

// keep finishes a file that is up to date: it gets the source's metadata and, if it is a
// file of its own where the source's is a hard link, becomes one. A link that cannot be
// made is reported; the file is up to date all the same.
func (r *run) keep(e *entry, p *transfer, group *linkGroup) error {
	res := targetResult{done: outUpToDate, content: p.content}
	e.clock.At(timing.Commit, p.target.place())
	changed, err := r.refresh(p, &e.meta)
	if err != nil {
		return inStage(failure.StageMetadata, err)
	}
	if changed {
		res.done = outRefreshed
	}
	if group.linkable(e, p) {
		linked, err := r.linkTo(e, p, group, actKeep)
		if err != nil {
			stage, err := splitStage(err)
			r.failTarget(p.target, e.path, stage, err)
		} else if linked.done != outNothing {
			linked.fresh, linked.known = linked.fresh || res.fresh, res.known
			res = linked
		}
	}
	p.finish(res)
	return nil
}
