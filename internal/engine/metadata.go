package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// The kinds of metadata that a destination may be unable to hold; each is
// warned about once.
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

// POSIX ACLs are extended attributes of these names.
const (
	aclAccess      = "system.posix_acl_access"
	aclDefault     = "system.posix_acl_default"
	fileCapability = "security.capability"
)

// metadata is what is copied of an entry of the source besides its data.
type metadata struct {
	info   fsys.Info
	xattrs []fsys.Xattr
	unread bool // there may be further ones, which must not be read
}

// modeUnknown equals no mode that can be wanted.
const modeUnknown = ^uint32(0)

// wantsXattr says which extended attributes are carried over. Those of overlayfs
// and Lustre describe the file system they are on; IMA's and EVM's are
// signatures over the inode, wrong anywhere else; other "system." ones are
// synthesised by file systems.
func (r *run) wantsXattr(name string) bool {
	switch {
	case name == aclAccess || name == aclDefault:
		return r.opts.Preserve&PreserveACL != 0
	case r.opts.Preserve&PreserveXattr == 0, strings.HasPrefix(name, "system."), strings.HasPrefix(name, "lustre."),
		strings.HasPrefix(name, "trusted.overlay."), name == "security.ima", name == "security.evm":
		return false
	}
	return true
}

// readXattrs reads the extended attributes of path in the source, which m describes,
// into m. A device whose file system has none is asked once. That some must not be
// read is warned about once, and keeps nothing from being copied; so is what no copy
// gets.
func (r *run) readXattrs(o *fsys.Object, path string, m *metadata) error {
	m.xattrs, m.unread = nil, false
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return nil
	}
	if _, none := r.noXattrs.Load(m.info.ID.Dev); none {
		return nil
	}
	list, err := o.Xattrs(r.wantsXattr)
	notKept, has := errors.AsType[*fsys.NotKeptError](err)
	switch {
	case has: // which says nothing of the next file
		if _, warned := r.warnedNotKept.LoadOrStore(notKept.What, true); !warned {
			err = fmt.Errorf("its %s, and perhaps the same of others, cannot be kept; the data is copied", notKept.What)
			r.report(Event{Kind: EventWarning, Path: path, Err: err})
		}
		return nil
	case fsys.Unsupported(err):
		if k := m.info.Kind; k == fsys.Regular || k == fsys.Directory { // a fifo can lack what files have
			r.noXattrs.Store(m.info.ID.Dev, true)
		}
		return nil
	case errors.Is(err, fsys.ErrUnread), fsys.NotPermitted(err):
		m.unread = true
		r.warnedUnread.Do(func() {
			err = fmt.Errorf("its extended attributes, and perhaps those of others, cannot be read and are left out: %w", err)
			r.report(Event{Kind: EventWarning, Path: path, Err: err})
		})
		err = nil
	}
	m.xattrs = list
	return err
}

// mayHaveXattrs reports whether a regular file of the source has to be opened to read its
// extended attributes.
func (r *run) mayHaveXattrs(e *entry) (bool, error) {
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 {
		return false, nil
	}
	if _, none := r.noXattrs.Load(e.meta.info.ID.Dev); none {
		return false, nil
	}
	dir, err := e.dir.Acquire()
	if err != nil {
		return true, err
	}
	defer e.dir.Release()
	return dir.MayHaveXattrs(e.name), nil
}

// apply brings the metadata of o at the destination to that of m. have is what
// o has now; of a new object owner, group and mode are known, and its times are
// set in any case. oldXattrs says that o may have extended attributes already,
// which have to be compared. It reports whether anything had to be changed. What the destination
// cannot hold is warned about once; an error is a real one.
func (r *run) apply(s *fileSystem, o *fsys.Object, m *metadata, have fsys.Info, isNew, oldXattrs bool) (changed bool, err error) {
	before := have.Mode
	changed, err = r.applyOwner(s, o, m, &have, isNew)
	if err != nil {
		return changed, err
	}
	if m.info.Kind != fsys.Symlink {
		owned := have.UID == m.info.UID && have.GID == m.info.GID
		wide, err := r.applyXattrs(s, o, m, isNew, oldXattrs)
		if err != nil {
			return changed, err
		}
		changed = changed || wide
		mode := r.modeFor(m.info, have, isNew, owned)
		if mode == modeUnknown { // what is there stays, but chown may have changed it
			mode = before
		}
		if mode != have.Mode || wide || isNew && s.forgetsModes {
			set, err := r.applyMode(s, o, mode, have, isNew)
			if err != nil {
				return changed, err
			}
			changed = changed || set
		}
	}
	if r.opts.Preserve&PreserveTimes != 0 && (isNew || !s.sameTime(have.Mtime, m.info.Mtime)) {
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
	return changed, nil
}

// applyOwner gives o the owner and group of m, if that is asked for and we may, and
// records in have what has changed.
func (r *run) applyOwner(s *fileSystem, o *fsys.Object, m *metadata, have *fsys.Info, isNew bool) (changed bool, err error) {
	owned := have.UID == m.info.UID && have.GID == m.info.GID
	if owned || !r.privileged || r.opts.Preserve&PreserveOwner == 0 || s.cannot(kindOwner) {
		return false, nil
	}
	if !isNew && !s.forgetsOwners && m.info.Kind != fsys.Symlink {
		have.Mode = r.narrow(s, o, m.info, *have)
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
		have.Mode = modeUnknown // the system has cleared some, depending on what it is
	}
	return true, nil
}

// applyMode gives o the mode.
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

// The times that every file system has, in seconds since 1970: FAT and exFAT have
// none before 1980, ext4 with inodes of 128 bytes none from 2038 on.
const (
	firstCommon = 315532800
	pastCommon  = 1 << 31
)

// checkFarTime warns if a time that was just set, and that not every file system can hold,
// has become another one.
func (r *run) checkFarTime(s *fileSystem, o *fsys.Object, want fsys.Time) error {
	if want.Sec >= firstCommon && want.Sec < pastCommon {
		return nil
	}
	have, err := o.Stat()
	if err == nil && !s.sameTime(have.Mtime, want) {
		shown := func(t fsys.Time) string { return time.Unix(t.Sec, 0).UTC().Format(time.DateTime) }
		s.warn(r, kindFarTimes, fmt.Errorf("times before 1980 or after 2037 cannot all be kept there: %s becomes %s (UTC)", shown(want), shown(have.Mtime)))
	}
	return err
}

// narrow takes away from what is at the destination what its new owner and group are
// not to have, before they get it. It returns the mode that o has then.
func (r *run) narrow(s *fileSystem, o *fsys.Object, src, have fsys.Info) uint32 {
	mode := have.Mode & r.modeFor(src, have, false, true)
	if mode == have.Mode || s.cannot(kindMode) || o.Chmod(mode) != nil { // which is reported when it is tried again
		return have.Mode
	}
	return mode
}

// modeFor is the permission bits that a copy gets. Without --preserve=mode the
// umask decides, or what is there already stays. setuid and setgid are
// dropped unless owner and group are the source's, or a directory has them already:
// from the one that it was made in, whose group it has, too.
func (r *run) modeFor(src, have fsys.Info, isNew, owned bool) uint32 {
	mode := src.Mode
	var inherited uint32
	if src.Kind == fsys.Directory {
		inherited = have.Mode & fsys.ModeSetgid
	}
	switch {
	case r.opts.Preserve&PreserveMode != 0:
	case !isNew:
		return have.Mode
	default:
		mode = src.Mode&0o777&^fsys.Umask() | inherited
	}
	if !owned {
		mode &^= (fsys.ModeSetuid | fsys.ModeSetgid) &^ inherited
	}
	return mode
}

// applyXattrs makes o have just the extended attributes of m, of those that
// are carried over. The file capability comes last: what else is set clears it.
func (r *run) applyXattrs(s *fileSystem, o *fsys.Object, m *metadata, isNew, old bool) (changed bool, err error) {
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 || len(m.xattrs) == 0 && !old {
		return false, nil
	}
	var have []fsys.Xattr
	if old {
		have, err = o.Xattrs(r.wantsXattr)
		switch {
		case err == nil, fsys.Unsupported(err):
		case refused(err): // what the source has as well is set
			s.warn(r, kindXattr, fmt.Errorf("extended attributes that are there cannot all be read, and may stay: %w", err))
		default:
			return false, err
		}
	}
	for _, x := range have {
		if valueOf(m.xattrs, x.Name) == nil && (isNew || !m.unread) {
			if err := r.tolerate(s, x.Name, o.RemoveXattr(x.Name)); err != nil {
				return changed, err
			}
			changed = true
		}
	}
	for _, last := range []bool{false, true} {
		for _, x := range m.xattrs {
			if (x.Name == fileCapability) != last || bytes.Equal(valueOf(have, x.Name), x.Value) && valueOf(have, x.Name) != nil {
				continue
			}
			if s.cannot(xattrKind(x.Name)) && valueOf(have, x.Name) == nil {
				continue
			}
			if s.forgetsModes && xattrKind(x.Name) == kindACL { // it takes these as well, and forgets them
				s.warn(r, kindACL, errors.New("ACLs cannot be kept there: the file system forgets them"))
				if !isNew {
					continue
				}
			}
			if err := r.tolerate(s, x.Name, o.SetXattr(x.Name, x.Value)); err != nil {
				return changed, err
			}
			changed = true
		}
	}
	return changed, nil
}

// tolerate turns a file system's refusal to hold an extended attribute into a
// warning. ENOSPC among them is about the attribute's size, not a full device.
func (r *run) tolerate(s *fileSystem, name string, err error) error {
	if err == nil || !(refused(err) || fsys.XattrTooBig(err)) {
		return err
	}
	s.warn(r, xattrKind(name), fmt.Errorf("%s cannot be kept there (%s): %w", xattrKind(name), quoteName(name), err))
	return nil
}

// xattrKind returns the kind of metadata that the attribute is: ACL, or its namespace. A
// destination can lack one kind and have the others.
func xattrKind(name string) string {
	if name == aclAccess || name == aclDefault {
		return kindACL
	}
	switch namespace, _, _ := strings.Cut(name, "."); namespace {
	case "user", "trusted", "security", "system":
		return kindXattr + " of " + namespace
	}
	return kindXattr + " " + name // elsewhere names have no namespaces
}

func valueOf(list []fsys.Xattr, name string) []byte {
	for _, x := range list {
		if x.Name == name {
			if x.Value == nil {
				return []byte{}
			}
			return x.Value
		}
	}
	return nil
}

// refused reports whether err is a destination's way of saying that it does not
// hold such metadata, or not from us.
func refused(err error) bool {
	return fsys.Unsupported(err) || fsys.NotPermitted(err) || fsys.InvalidArgument(err) || errors.Is(err, fsys.ErrUnread)
}

// refresh brings the metadata of an entry that exists at the destination up to date. In a dry
// run it reports whether it would change anything.
func (r *run) refresh(p *transfer, m *metadata) (changed bool, err error) {
	if r.hasMetadata(p, m) {
		return false, nil
	}
	var o *fsys.Object
	f, have, err := p.openRegular(m.info.Kind)
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
	if have.Kind != m.info.Kind || have.ID != p.have.ID { // perhaps a name of a file outside
		return false, errExchanged
	}
	if have.Kind == fsys.Symlink {
		if !r.differs(p.dd.system, m.info, have) {
			return false, nil // nor is anything made to find out what follows
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
		return changed, p.target.sync(f)
	}
	return changed, nil
}

// hasMetadata reports whether a file without extended attributes has all metadata of a
// source without any. It opens nothing, because this is so of most files in most runs.
func (r *run) hasMetadata(p *transfer, m *metadata) bool {
	src, have, system := m.info, p.have, p.dd.system
	if src.Kind != fsys.Regular || have.Kind != fsys.Regular || len(m.xattrs) > 0 || r.differs(system, src, have) {
		return false
	}
	// What the file system forgets is no difference. It is warned about where it is applied.
	if system.forgetsModes && src.Mode != have.Mode || system.forgetsOwners && (src.UID != have.UID || src.GID != have.GID) {
		return false
	}
	return r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 || !p.dir.MayHaveXattrs(p.name)
}

// openRegular opens the transfer's name as the file that it should be, which
// allows what a bare handle does not on every system. nil if it is none.
func (p *transfer) openRegular(kind fsys.Kind) (*fsys.File, fsys.Info, error) {
	if kind != fsys.Regular {
		return nil, fsys.Info{}, nil
	}
	return p.dir.Open(p.name)
}

var errExchanged = failure.ErrExchanged
