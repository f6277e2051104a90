package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// POSIX ACLs and file capabilities are extended attributes of these names.
const (
	aclAccess      = "system.posix_acl_access"
	aclDefault     = "system.posix_acl_default"
	fileCapability = "security.capability"
)

func isACL(name string) bool { return name == aclAccess || name == aclDefault }

// wants reports whether an extended attribute is copied. These are not:
//
//   - attributes of overlayfs and Lustre, which describe the file system that they are on
//   - the signatures of IMA and EVM, which are valid for one inode only
//   - other "system." attributes, which file systems compute
func (r *Rules) wants(name string) bool {
	switch {
	case isACL(name):
		return r.Preserve&PreserveACL != 0
	case r.Preserve&PreserveXattr == 0, strings.HasPrefix(name, "system."), strings.HasPrefix(name, "lustre."),
		strings.HasPrefix(name, "trusted.overlay."), name == "security.ima", name == "security.evm":
		return false
	}
	return true
}

// IsCopied reports whether a copy with PreserveAll keeps an extended attribute.
func IsCopied(name string) bool { return (&Rules{Preserve: PreserveAll}).wants(name) }

// applyXattrs gives o exactly the extended attributes of v, among those that wants
// accepts. mode is the mode of o. If applyXattrs has changed an attribute, or has widened the mode to
// be able to, the caller sets the mode again. An ACL can make o read-only for its owner, so it is set
// after the user's attributes. The file capability is set last, because setting other attributes
// clears it.
func (s *Store) applyXattrs(o *fsys.Object, v *Values, mode uint32, isNew, old bool) (changed, widened bool, err error) {
	if !s.Rules.Preserve.keepsXattrs() || len(v.Xattrs) == 0 && !old {
		return false, false, nil
	}
	var dst []fsys.Xattr
	if old {
		dst, err = o.Xattrs(s.Rules.wants)
		switch {
		case err == nil, fsys.Unsupported(err):
		case Refused(err): // the attributes of the source are set all the same
			s.warn(kindXattr, fmt.Errorf("extended attributes that are there cannot all be read, and may stay: %w", err))
		default:
			return false, false, err
		}
	}
	surplus, missing := s.diffXattrs(v, dst, isNew)
	if mode&0o200 == 0 && (slices.ContainsFunc(surplus, isUsers) || slices.ContainsFunc(missing, isUsers)) {
		err := o.Chmod(mode | 0o200)
		if err != nil && !Refused(err) {
			return false, false, err
		}
		widened = err == nil
	}
	for _, x := range surplus {
		err := o.RemoveXattr(x.Name)
		changed = changed || err == nil
		if err := s.tolerate(x.Name, err); err != nil {
			return changed, widened, err
		}
	}
	for _, x := range missing {
		err := o.SetXattr(x.Name, x.Value)
		changed = changed || err == nil
		if err := s.tolerate(x.Name, err); err != nil {
			return changed, widened, err
		}
	}
	return changed, widened, nil
}

// diffXattrs compares the attributes that an object of the destination has with those of v. It
// returns the attributes to remove, and those to set, in this order.
func (s *Store) diffXattrs(v *Values, dst []fsys.Xattr, isNew bool) (surplus, missing []fsys.Xattr) {
	for _, x := range dst {
		if valueOf(v.Xattrs, x.Name) == nil && (isNew || !v.Unread) {
			surplus = append(surplus, x)
		}
	}
	for _, x := range v.Xattrs {
		old := valueOf(dst, x.Name)
		if old == nil && s.cannot(xattrKind(x.Name)) || old != nil && bytes.Equal(old, x.Value) {
			continue
		}
		if s.ForgetsModes && isACL(x.Name) { // the file system accepts ACLs as well, and does not store them
			s.warn(kindACL, errors.New("ACLs cannot be kept there: the file system forgets them"))
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
func (s *Store) tolerate(name string, err error) error {
	if err == nil || !(Refused(err) || fsys.XattrTooBig(err)) {
		return err
	}
	s.warn(xattrKind(name), fmt.Errorf("%s cannot be kept there (%s): %w", xattrKind(name), quote.Name(name), err))
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

// StripACL reports whether entries made in dir inherit an ACL. If the run has created dir, StripACL
// first removes the ACL that dir has inherited.
func (s *Store) StripACL(dir *fsys.Dir, isNew bool) (inherits bool, err error) {
	list, err := dir.Xattrs(func(name string) bool { return name == aclDefault || isNew && name == aclAccess })
	if err != nil {
		return false, fsys.IgnoreRefusal(err)
	}
	if !isNew {
		return len(list) > 0, nil
	}
	for _, x := range list {
		if err := dir.RemoveXattr(x.Name); err != nil {
			return false, err
		}
	}
	return false, nil
}

// ReplaceACLs removes the ACLs that dir has inherited from its parent, and returns those of from,
// which the caller sets. Without them, the mask of an ACL would become a permission of the group.
func (s *Store) ReplaceACLs(dir, from *fsys.Dir) ([]fsys.Xattr, error) {
	if !s.KeepsACLs() {
		return nil, nil
	}
	if _, err := s.StripACL(dir, true); err != nil {
		return nil, err
	}
	list, err := from.Xattrs(isACL)
	return list, fsys.IgnoreRefusal(err)
}
