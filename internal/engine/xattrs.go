package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

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
