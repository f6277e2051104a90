package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// POSIX ACLs are extended attributes of these names.
const (
	aclAccess      = "system.posix_acl_access"
	aclDefault     = "system.posix_acl_default"
	fileCapability = "security.capability"
)

func isACL(name string) bool { return name == aclAccess || name == aclDefault }

// metadata is everything of an entry of the source that is copied, apart from its content.
type metadata struct {
	info   fsys.Info
	xattrs []fsys.Xattr
	unread bool // the entry may have further attributes, which this user must not read
}

// modeUnknown marks a mode that is not known and has to be set. No file has this mode.
const modeUnknown = ^uint32(0)

// wantsXattr reports whether an extended attribute is copied. These are not:
//
//   - attributes of overlayfs and Lustre, which describe the file system that they are on
//   - the signatures of IMA and EVM, which are valid for one inode only
//   - other "system." attributes, which file systems compute
func (r *run) wantsXattr(name string) bool {
	switch {
	case isACL(name):
		return r.opts.Preserve&PreserveACL != 0
	case r.opts.Preserve&PreserveXattr == 0, strings.HasPrefix(name, "system."), strings.HasPrefix(name, "lustre."),
		strings.HasPrefix(name, "trusted.overlay."), name == "security.ima", name == "security.evm":
		return false
	}
	return true
}

// readXattrs reads into m the extended attributes of path in the source, which m describes. On a
// file system without extended attributes, it asks only once. It warns once of attributes that this
// user must not read, and once of each kind of metadata that no copy can get. The file is copied
// all the same.
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
	case has: // another file may have readable attributes
		if r.warned.add(notKept.What) {
			err = fmt.Errorf("its %s, and perhaps the same of others, cannot be kept; the data is copied", notKept.What)
			r.report(Event{Kind: EventWarning, Path: path, Err: err})
		}
		return nil
	case fsys.Unsupported(err):
		if k := m.info.Kind; k == fsys.Regular || k == fsys.Directory { // a fifo can lack attributes that files have
			r.noXattrs.Store(m.info.ID.Dev, true)
		}
		return nil
	case errors.Is(err, fsys.ErrUnread), fsys.NotPermitted(err):
		m.unread = true
		if r.warned.add("unread attributes") {
			err = fmt.Errorf("its extended attributes, and perhaps those of others, cannot be read and are left out: %w", err)
			r.report(Event{Kind: EventWarning, Path: path, Err: err})
		}
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

// apply sets the metadata m on o, an object of the destination, as far as it differs and the
// options ask for it. have describes o now; for a new object, only its owner, group and mode
// have to be valid, because the times are always set. oldXattrs says that o may have extended
// attributes already, which are compared. changed reports whether o was changed. apply warns
// once of each kind of metadata that the destination cannot store; that is no error. It sets the mode
// last, because the mode shows whether a directory is finished: see fsys.Info.IsUnfinished.
func (r *run) apply(s *fileSystem, o *fsys.Object, m *metadata, have fsys.Info, isNew, oldXattrs bool) (changed bool, err error) {
	before := have.Mode
	changed, err = r.applyOwner(s, o, m, &have, isNew)
	if err != nil {
		return changed, err
	}
	if r.opts.Preserve&PreserveTimes != 0 && (isNew || !s.SameTime(have.Mtime, m.info.Mtime)) {
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
	if m.info.Kind != fsys.Symlink {
		owned := sameOwner(m.info, have)
		wide, err := r.applyXattrs(s, o, m, have.Mode, isNew, oldXattrs)
		if err != nil {
			return changed, err
		}
		changed = changed || wide
		mode := r.modeFor(m.info, have, isNew, owned)
		if mode == modeUnknown { // the mode stays, but chown may have cleared bits
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

// applyXattrs gives o exactly the extended attributes of m, among those that wantsXattr
// accepts. mode is the mode of o; if applyXattrs has changed anything, the caller sets it again. An ACL
// can make o read-only for its owner, so it is set after the user's attributes. The file capability
// is set last, because setting other attributes clears it.
func (r *run) applyXattrs(s *fileSystem, o *fsys.Object, m *metadata, mode uint32, isNew, old bool) (changed bool, err error) {
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 || len(m.xattrs) == 0 && !old {
		return false, nil
	}
	var have []fsys.Xattr
	if old {
		have, err = o.Xattrs(r.wantsXattr)
		switch {
		case err == nil, fsys.Unsupported(err):
		case refused(err): // the attributes of the source are set all the same
			s.warn(r, kindXattr, fmt.Errorf("extended attributes that are there cannot all be read, and may stay: %w", err))
		default:
			return false, err
		}
	}
	if mode&0o200 == 0 && !equalUserXattrs(have, m.xattrs) { // only a writable object gets such attributes
		err := o.Chmod(mode | 0o200)
		if err != nil && !refused(err) {
			return false, err
		}
		changed = err == nil
	}
	for _, x := range have {
		if valueOf(m.xattrs, x.Name) == nil && (isNew || !m.unread) {
			if err := r.tolerate(s, x.Name, o.RemoveXattr(x.Name)); err != nil {
				return changed, err
			}
			changed = true
		}
	}
	for turn := range 3 {
		for _, x := range m.xattrs {
			if turnOf(x.Name) != turn || bytes.Equal(valueOf(have, x.Name), x.Value) && valueOf(have, x.Name) != nil {
				continue
			}
			if s.cannot(xattrKind(x.Name)) && valueOf(have, x.Name) == nil {
				continue
			}
			if s.forgetsModes && xattrKind(x.Name) == kindACL { // the file system accepts ACLs as well, and does not store them
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

// turnOf returns when applyXattrs sets an attribute.
func turnOf(name string) int {
	switch name {
	case fileCapability:
		return 2
	case aclAccess:
		return 1
	}
	return 0
}

// equalUserXattrs reports whether two lists have the same attributes of the namespace "user".
func equalUserXattrs(a, b []fsys.Xattr) bool {
	differs := func(list, other []fsys.Xattr) bool {
		return slices.ContainsFunc(list, func(x fsys.Xattr) bool {
			value := valueOf(other, x.Name)
			return strings.HasPrefix(x.Name, "user.") && (value == nil || !bytes.Equal(x.Value, value))
		})
	}
	return !differs(a, b) && !differs(b, a)
}

// tolerate warns if err is a file system's refusal to store an extended attribute, and returns
// any other error. ENOSPC is a refusal here: it means that the attribute is too large, and not
// that the device is full.
func (r *run) tolerate(s *fileSystem, name string, err error) error {
	if err == nil || !(refused(err) || fsys.XattrTooBig(err)) {
		return err
	}
	s.warn(r, xattrKind(name), fmt.Errorf("%s cannot be kept there (%s): %w", xattrKind(name), quoteName(name), err))
	return nil
}

// xattrKind returns the kind of metadata that an attribute belongs to: ACLs, or its namespace.
// A destination can lack one kind and store the others.
func xattrKind(name string) string {
	if isACL(name) {
		return kindACL
	}
	switch namespace, _, _ := strings.Cut(name, "."); namespace {
	case "user", "trusted", "security", "system":
		return kindXattr + " of " + namespace
	}
	return kindXattr + " " + name // on other systems, names have no namespace
}

// valueOf returns the value of an attribute: not nil if the list has it, and nil if not.
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
		return changed, p.target.sync(f)
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
