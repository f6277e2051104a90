package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// The kinds of metadata that a destination may be unable to store. Sealift warns once for
// each.
const (
	kindOwner    = "owner"
	kindMode     = "mode"
	kindTimes    = "times"
	kindXattr    = "extended attributes"
	kindACL      = "ACLs"
	kindLinks    = "hard links"
	kindDevice   = "device nodes"
	kindLinkMeta = "metadata of symbolic links"
	kindFarTimes = "far times"
)

// metadata is everything of an entry of the source that is copied, apart from its content.
type metadata struct {
	info   fsys.Info
	xattrs []fsys.Xattr
	unread bool // the entry may have further attributes, which this user must not read
}

// modeUnknown marks a mode that is not known and has to be set. No file has this mode.
const modeUnknown = ^uint32(0)

// apply sets the metadata m on o, an object of the destination, as far as it differs and the
// options ask for it. have describes o now; for a new object, only its owner, group and mode
// have to be valid, because the times are always set. oldXattrs says that o may have extended
// attributes already, which are compared. changed reports whether o was changed. apply warns
// once of each kind of metadata that the destination cannot store; that is no error. It sets the times
// after the attributes, which change the mtime on some file systems, for example on NTFS shares. It
// sets the mode last, because the mode shows whether a directory is finished: see
// fsys.Info.IsUnfinished.
func (r *run) apply(s *fileSystem, o *fsys.Object, m *metadata, have fsys.Info, isNew, oldXattrs bool) (changed bool, err error) {
	before := have.Mode
	changed, err = r.applyOwner(s, o, m, &have, isNew)
	if err != nil {
		return changed, err
	}
	var set, widened bool // attributes were set; the mode was widened for that
	if m.info.Kind != fsys.Symlink {
		set, widened, err = r.applyXattrs(s, o, m, have.Mode, isNew, oldXattrs)
		if err != nil {
			return changed, err
		}
		changed = changed || set
	}
	if r.opts.Preserve&PreserveTimes != 0 && (isNew || set || !s.SameTime(have.Mtime, m.info.Mtime)) {
		err := o.SetTimes(m.info.Atime, m.info.Mtime, m.info.Btime)
		switch {
		case err == nil:
			changed = true
			if err := r.checkFarTime(s, o, m.info.Mtime); err != nil {
				return changed, err
			}
		case refused(err):
			s.warn(r, kindTimes, fmt.Errorf("times cannot be kept there: %w", err))
		default:
			return changed, err
		}
	}
	if m.info.Kind == fsys.Symlink {
		return changed, nil
	}
	mode := r.modeFor(m.info, have, isNew, sameOwner(m.info, have))
	if mode == modeUnknown { // the mode stays, but chown may have cleared bits
		mode = before
	}
	if mode != have.Mode || set || widened || isNew && s.forgetsModes {
		accepted, err := r.applyMode(s, o, mode, have, isNew)
		if err != nil {
			return changed, err
		}
		changed = changed || accepted && mode != have.Mode
	}
	return changed, nil
}

// applyOwner sets the owner and group of m on o, if the options ask for it and the process is
// privileged. It updates have.
func (r *run) applyOwner(s *fileSystem, o *fsys.Object, m *metadata, have *fsys.Info, isNew bool) (changed bool, err error) {
	if sameOwner(m.info, *have) || !r.privileged || r.opts.Preserve&PreserveOwner == 0 || s.cannot(kindOwner) {
		return false, nil
	}
	if !isNew && !s.forgetsOwners && m.info.Kind != fsys.Symlink {
		have.Mode = r.narrowMode(s, o, m.info, *have)
	}
	if isNew || !s.forgetsOwners {
		err = o.Chown(m.info.UID, m.info.GID)
	}
	switch {
	case err != nil && !refused(err):
		return false, err
	case s.forgetsOwners:
		s.warn(r, kindOwner, errors.New("owners cannot be kept there: the file system forgets them"))
		return false, nil
	case err != nil:
		s.warn(r, kindOwner, fmt.Errorf("owners cannot be kept there: %w", err))
		return false, nil
	}
	have.UID, have.GID = m.info.UID, m.info.GID
	if have.Mode&(fsys.ModeSetuid|fsys.ModeSetgid) != 0 {
		have.Mode = modeUnknown // chown cleared setuid or setgid; which, depends on the kind of file
	}
	return true, nil
}

// applyMode sets the mode of o.
func (r *run) applyMode(s *fileSystem, o *fsys.Object, mode uint32, have fsys.Info, isNew bool) (changed bool, err error) {
	if s.cannot(kindMode) {
		return false, nil
	}
	if isNew || !s.forgetsModes {
		err = o.Chmod(mode)
	}
	switch {
	case err != nil && !refused(err):
		return false, err
	case s.forgetsModes && mode != have.Mode:
		s.warn(r, kindMode, errors.New("permissions cannot be kept there: the file system forgets them"))
		return false, nil
	case err != nil:
		s.warn(r, kindMode, fmt.Errorf("permissions cannot be kept there: %w", err))
		return false, nil
	}
	return true, nil
}

// The range of time stamps that every file system can store, in seconds since 1970. FAT and
// exFAT have none before 1980, and ext4 with inodes of 128 bytes has none from 2038 on.
const (
	firstCommon = 315532800
	pastCommon  = 1 << 31
)

// checkFarTime warns if the file system has stored another mtime than want, which was just
// set. It reads the time only if want is out of the range that every file system can store.
func (r *run) checkFarTime(s *fileSystem, o *fsys.Object, want fsys.Time) error {
	if want.Sec >= firstCommon && want.Sec < pastCommon {
		return nil
	}
	have, err := o.Stat()
	if err == nil && !s.SameTime(have.Mtime, want) {
		shown := func(t fsys.Time) string { return time.Unix(t.Sec, 0).UTC().Format(time.DateTime) }
		s.warn(r, kindFarTimes, fmt.Errorf("times before 1980 or after 2037 cannot all be kept there: %s becomes %s (UTC)", shown(want), shown(have.Mtime)))
	}
	return err
}

// narrowMode prepares a change of the owner or group of o. It removes the permissions that the new
// owner and group must not have, and returns the remaining mode.
func (r *run) narrowMode(s *fileSystem, o *fsys.Object, src, have fsys.Info) uint32 {
	mode := have.Mode & r.modeFor(src, have, false, true)
	if mode == have.Mode || s.cannot(kindMode) || o.Chmod(mode) != nil { // applyMode tries again and reports the error
		return have.Mode
	}
	return mode
}

// modeFor returns the mode that a copy gets. Without --preserve=mode, the umask decides for a
// new file, and the mode of an existing file stays. owned says that owner and group of the
// copy are those of the source; otherwise setuid and setgid are removed. A directory keeps a
// setgid bit that it has inherited from its parent directory, together with the group.
func (r *run) modeFor(src, have fsys.Info, isNew, owned bool) uint32 {
	keeps := r.opts.Preserve&PreserveMode != 0
	if !keeps && !isNew {
		return have.Mode
	}
	var inherited uint32
	if src.Kind == fsys.Directory {
		inherited = have.Mode & fsys.ModeSetgid
	}
	mode := src.Mode
	if !keeps {
		mode = mode&0o777&^fsys.Umask() | inherited
	}
	if !owned {
		mode &^= (fsys.ModeSetuid | fsys.ModeSetgid) &^ inherited
	}
	return mode
}

// refused reports whether err means that a destination does not store the metadata, or does
// not let this user set it.
func refused(err error) bool {
	return fsys.Unsupported(err) || fsys.NotPermitted(err) || fsys.InvalidArgument(err) || errors.Is(err, fsys.ErrUnread)
}

// refresh brings the metadata of an existing entry up to date. In a dry run it only reports
// whether it would change anything.
func (r *run) refresh(p *transfer, m *metadata) (changed bool, err error) {
	if r.hasMetadata(p, m) {
		return false, nil
	}
	var o *fsys.Object
	var f *fsys.File // on some systems, an open file allows operations that a bare handle does not
	var have fsys.Info
	if m.info.Kind == fsys.Regular {
		f, have, err = p.dir.Open(p.name)
	}
	if f != nil {
		o = &f.Object
	} else if err == nil || fsys.NotPermitted(err) {
		if o, err = p.dir.OpenObject(p.name); err == nil {
			have, err = o.Stat()
		}
	}
	if o != nil {
		defer o.Close()
	}
	if err != nil {
		return false, err
	}
	if have.Kind != m.info.Kind || have.ID != p.have.ID { // another process has replaced it, perhaps by a link to a file outside the destination
		return false, errExchanged
	}
	if have.Kind == fsys.Symlink {
		if !r.differs(p.dd.system, m.info, have) {
			return false, nil // so linksFollowed, which creates a link, is not needed
		}
		if r.opts.DryRun {
			return true, nil
		}
		if follows, err := r.linksFollowed(p, have); follows || err != nil {
			return false, err
		}
	}
	if r.opts.DryRun {
		return r.outdated(p.dd.system, o, m, have)
	}
	if changed, err = r.apply(p.dd.system, o, m, have, false, true); err != nil {
		return changed, err
	}
	if changed && f != nil && p.dd.system.syncEach {
		return changed, p.dd.system.sync(f)
	}
	return changed, nil
}

// hasMetadata reports whether an existing regular file has the right metadata: neither it nor the
// source has extended attributes, and all other metadata is equal. It does not open the file.
// Most files of an idle run need no more than this check.
func (r *run) hasMetadata(p *transfer, m *metadata) bool {
	src, have, system := m.info, p.have, p.dd.system
	if src.Kind != fsys.Regular || have.Kind != fsys.Regular || len(m.xattrs) > 0 || r.differs(system, src, have) {
		return false
	}
	// A mode or owner that the file system does not store is no difference. apply warns of it.
	if system.forgetsModes && src.Mode != have.Mode || system.forgetsOwners && !sameOwner(src, have) {
		return false
	}
	return r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 || !p.dir.MayHaveXattrs(p.name)
}

var errExchanged = failure.ErrExchanged
