package metadata

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Outdated reports whether o lacks metadata of v that could be set, or has extended attributes
// that v lacks. o is a file at the destination, and dst is its description.
func (s *Store) Outdated(o *fsys.Object, v *Values, dst fsys.Info) (bool, error) {
	if s.Differs(v.Info, dst) {
		return true, nil
	}
	if v.Info.Kind == fsys.Symlink || !s.Rules.Preserve.keepsXattrs() {
		return false, nil
	}
	list, err := o.Xattrs(s.Rules.wants)
	if err != nil && Refused(err) { // setting the attributes reports that
		return false, nil
	}
	if err != nil {
		return false, err
	}
	differs := func(a, b []fsys.Xattr) bool {
		return slices.ContainsFunc(a, func(x fsys.Xattr) bool {
			kind := xattrKind(x.Name)
			if s.cannot(kind) || kind == kindACL && s.ForgetsModes { // a new file would lack this kind, too
				return false
			}
			return !bytes.Equal(valueOf(b, x.Name), x.Value) || valueOf(b, x.Name) == nil
		})
	}
	return differs(v.Xattrs, list) || !v.Unread && differs(list, v.Xattrs), nil
}

// Differs reports whether a file at the destination lacks metadata that could be set, extended
// attributes aside.
func (s *Store) Differs(src, dst fsys.Info) bool {
	return s.OwnerDiffers(src, dst) || s.ModeDiffers(src, dst) || s.TimeDiffers(src, dst)
}

// OwnerDiffers reports whether the run would change the owner or group of a file at the destination.
func (s *Store) OwnerDiffers(src, dst fsys.Info) bool {
	return !SameOwner(src, dst) && s.Rules.setsOwner() && !s.ForgetsOwners && !s.cannot(kindOwner)
}

// ModeDiffers reports whether the run would change the mode of a file at the destination.
func (s *Store) ModeDiffers(src, dst fsys.Info) bool {
	return src.Kind != fsys.Symlink && s.Rules.ModeFor(src, dst, false, SameOwner(src, dst)) != dst.Mode && !s.ForgetsModes && !s.cannot(kindMode)
}

// TimeDiffers reports whether the run would change the mtime of a file at the destination.
func (s *Store) TimeDiffers(src, dst fsys.Info) bool {
	return s.Rules.Preserve&PreserveTimes != 0 && !s.SameTime(src.Mtime, dst.Mtime)
}

// IsCurrent reports whether an existing regular file, name in dir, has the right metadata: neither it
// nor the source has extended attributes, and all other metadata is equal. It does not open the file.
// Most files of an idle run need no more than this check.
func (s *Store) IsCurrent(dir *fsys.Dir, name string, v *Values, dst fsys.Info) bool {
	src := v.Info
	if src.Kind != fsys.Regular || dst.Kind != fsys.Regular || len(v.Xattrs) > 0 || s.Differs(src, dst) {
		return false
	}
	// A mode or owner that the file system does not store is no difference. Apply warns of it.
	if s.ForgetsModes && src.Mode != dst.Mode || s.ForgetsOwners && !SameOwner(src, dst) {
		return false
	}
	return !s.Rules.Preserve.keepsXattrs() || !dir.MayHaveXattrs(name)
}

// GivesRights reports whether the metadata of v would make an existing regular file a program that
// runs with the rights of its owner or group, or with capabilities.
func (s *Store) GivesRights(v *Values, dst fsys.Info) bool {
	setID := s.OwnerDiffers(v.Info, dst) && s.Rules.ModeFor(v.Info, dst, false, true)&(fsys.ModeSetuid|fsys.ModeSetgid) != 0
	return s.Rules.Privileged && !s.ForgetsOwners && (setID || valueOf(v.Xattrs, fileCapability) != nil && !s.cannot(xattrKind(fileCapability)))
}

// FirstMode returns the mode with which a file without a name is created. That is the final mode
// if the file has its final owner from the start, no ACL changes the permissions, and the umask
// removes none. Otherwise, the mode gives other users no permission. fresh has the owner, group and
// mode of new files there. inherits means that they get an ACL.
func (s *Store) FirstMode(v *Values, fresh fsys.Info, inherits bool) uint32 {
	if s.OwnerDiffers(v.Info, fresh) || inherits || len(v.Xattrs) > 0 {
		return PrivateMode
	}
	mode := s.Rules.ModeFor(v.Info, fresh, true, SameOwner(v.Info, fresh))
	if mode&^0o777 != 0 || mode&fsys.Umask() != 0 {
		return PrivateMode
	}
	return mode
}

// PrivateMode is the mode of a new file that gives other users no permission.
const PrivateMode = 0o600

// OutdatedKinds lists, as text for people, the kinds of metadata of dst that differ from src and could
// be set. It does not compare extended attributes: if nothing else differs, it returns these.
func (s *Store) OutdatedKinds(src, dst fsys.Info) string {
	var kinds []string
	if s.OwnerDiffers(src, dst) {
		kinds = append(kinds, "owner")
	}
	if s.ModeDiffers(src, dst) {
		kinds = append(kinds, "mode")
	}
	if s.TimeDiffers(src, dst) {
		kinds = append(kinds, "modification time")
	}
	if kinds == nil {
		return "extended attributes"
	}
	return strings.Join(kinds, ", ")
}
