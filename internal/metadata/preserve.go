package metadata

import (
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Preserve is the set of metadata to keep.
type Preserve uint8

// The kinds of metadata.
const (
	PreserveMode Preserve = 1 << iota
	PreserveTimes
	PreserveOwner // This kind has an effect only in a privileged process.
	PreserveLinks
	PreserveXattr
	PreserveACL

	PreserveNone Preserve = 0
	PreserveAll           = PreserveMode | PreserveTimes | PreserveOwner | PreserveLinks | PreserveXattr | PreserveACL
)

// preserveKinds has the name of bit i of a Preserve at index i.
var preserveKinds = choice.Table[Preserve]{What: "kind of metadata", Names: []string{"mode", "times", "owner", "links", "xattr", "acl"}}

// PreserveNames lists the values of --preserve other than all and none.
func PreserveNames() []string { return preserveKinds.List() }

// ParsePreserve reads the value of --preserve: "all", "none" or a comma-separated list.
func ParsePreserve(s string) (Preserve, error) {
	switch s {
	case "all":
		return PreserveAll, nil
	case "none":
		return PreserveNone, nil
	}
	var set Preserve
	for name := range strings.SplitSeq(s, ",") {
		if name == "all" || name == "none" {
			return 0, fmt.Errorf("%s cannot be combined with other kinds of metadata", name)
		}
		bit, err := preserveKinds.Parse(strings.TrimSpace(name))
		if err != nil {
			return 0, err
		}
		set |= 1 << bit
	}
	return set, nil
}

// Names returns the names of the kinds of metadata in the set.
func (p Preserve) Names() []string {
	names := []string{}
	for bit, name := range preserveKinds.Names {
		if p&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// keepsXattrs reports whether extended attributes are copied, perhaps only those of ACLs.
func (p Preserve) keepsXattrs() bool { return p&(PreserveXattr|PreserveACL) != 0 }

// Values are the metadata of one entry of the source.
type Values struct {
	Info   fsys.Info
	Xattrs []fsys.Xattr
	Unread bool // true if the entry may have further attributes, which this user must not read
}

// Rules say which metadata a run copies.
type Rules struct {
	Preserve   Preserve
	Privileged bool // true if the process may set any owner
}

// setsOwner reports whether a new file gets the owner and group of the source.
func (r *Rules) setsOwner() bool { return r.Privileged && r.Preserve&PreserveOwner != 0 }

// ModeFor returns the mode that a copy gets. Without --preserve=mode, the umask decides for a
// new file, and the mode of an existing file stays. owned says that owner and group of the
// copy are those of the source; otherwise setuid and setgid are removed. A directory keeps a
// setgid bit that it has inherited from its parent directory, together with the group.
func (r *Rules) ModeFor(src, dst fsys.Info, isNew, owned bool) uint32 {
	keeps := r.Preserve&PreserveMode != 0
	if !keeps && !isNew {
		return dst.Mode
	}
	var inherited uint32
	if src.Kind == fsys.Directory {
		inherited = dst.Mode & fsys.ModeSetgid
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

// SameOwner reports whether owner and group are equal.
func SameOwner(src, dst fsys.Info) bool { return src.UID == dst.UID && src.GID == dst.GID }
