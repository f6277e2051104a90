package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// POSIX ACLs and file capabilities are extended attributes of these names.
const (
	aclAccess      = "system.posix_acl_access"
	aclDefault     = "system.posix_acl_default"
	fileCapability = "security.capability"
)

func isACL(name string) bool { return name == aclAccess || name == aclDefault }

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
			r.report(event.Event{Kind: event.Warning, Path: path, Err: err})
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
			r.report(event.Event{Kind: event.Warning, Path: path, Err: err})
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

// applyXattrs gives o exactly the extended attributes of m, among those that wantsXattr
// accepts. mode is the mode of o. If applyXattrs has changed an attribute, or has widened the mode to
// be able to, the caller sets the mode again. An ACL can make o read-only for its owner, so it is set
// after the user's attributes. The file capability is set last, because setting other attributes
// clears it.
func (r *run) applyXattrs(s *fileSystem, o *fsys.Object, m *metadata, mode uint32, isNew, old bool) (changed, widened bool, err error) {
	if r.opts.Preserve&(PreserveXattr|PreserveACL) == 0 || len(m.xattrs) == 0 && !old {
		return false, false, nil
	}
	var have []fsys.Xattr
	if old {
		have, err = o.Xattrs(r.wantsXattr)
		switch {
		case err == nil, fsys.Unsupported(err):
		case refused(err): // the attributes of the source are set all the same
			s.warn(r, kindXattr, fmt.Errorf("extended attributes that are there cannot all be read, and may stay: %w", err))
		default:
			return false, false, err
		}
	}
	surplus, missing := r.diffXattrs(s, m, have, isNew)
	if mode&0o200 == 0 && (slices.ContainsFunc(surplus, isUsers) || slices.ContainsFunc(missing, isUsers)) {
		err := o.Chmod(mode | 0o200)
		if err != nil && !refused(err) {
			return false, false, err
		}
		widened = err == nil
	}
	for _, x := range surplus {
		err := o.RemoveXattr(x.Name)
		changed = changed || err == nil
		if err := r.tolerate(s, x.Name, err); err != nil {
			return changed, widened, err
		}
	}
	for _, x := range missing {
		err := o.SetXattr(x.Name, x.Value)
		changed = changed || err == nil
		if err := r.tolerate(s, x.Name, err); err != nil {
			return changed, widened, err
		}
	}
	return changed, widened, nil
}

// diffXattrs compares the attributes that an object of the destination has with those of m. It
// returns the attributes to remove, and those to set, in this order.
func (r *run) diffXattrs(s *fileSystem, m *metadata, have []fsys.Xattr, isNew bool) (surplus, missing []fsys.Xattr) {
	for _, x := range have {
		if valueOf(m.xattrs, x.Name) == nil && (isNew || !m.unread) {
			surplus = append(surplus, x)
		}
	}
	for _, x := range m.xattrs {
		old := valueOf(have, x.Name)
		if old == nil && s.cannot(xattrKind(x.Name)) || old != nil && bytes.Equal(old, x.Value) {
			continue
		}
		if s.forgetsModes && isACL(x.Name) { // the file system accepts ACLs as well, and does not store them
			s.warn(r, kindACL, errors.New("ACLs cannot be kept there: the file system forgets them"))
			if !isNew {
				continue
			}
		}
		missing = append(missing, x)
	}
	slices.SortStableFunc(missing, func(a, b fsys.Xattr) int { return turnOf(a.Name) - turnOf(b.Name) })
	return surplus, missing
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

// isUsers reports whether an attribute belongs to the user, so that only a writable object gets it.
// On macOS, names have no namespace.
func isUsers(x fsys.Xattr) bool {
	namespace, _, _ := strings.Cut(x.Name, ".")
	return !slices.Contains([]string{"system", "security", "trusted"}, namespace)
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
