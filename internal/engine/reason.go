package engine

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// reasonOf says for people why a transfer has ended as it has: "size differs". It is "" for
// what needs no reason, such as a new file.
func reasonOf(o observation, d decision, equal bool, done outcome) string {
	switch done {
	case outReplaced:
		return o.whyReplaced(d, equal)
	case outUpToDate:
		switch {
		case d.content.known:
			return "copied by the interrupted run"
		case equal:
			return "same content"
		case o.source == fsys.Regular:
			return "same size and modification time"
		}
	case outLeft:
		if o.policy == PolicyNever {
			return "--overwrite-policy=never"
		}
	}
	return ""
}

// whyReplaced is reasonOf for an existing name that got new content. equal says that the
// content was compared and is the same.
func (o observation) whyReplaced(d decision, equal bool) string {
	switch {
	case o.ours:
		return "the source changed while it was copied"
	case o.source != o.have:
		return "was a " + o.have.String()
	case equal || d.act == actKeep:
		return "shares its inode with other names"
	case d.suspect:
		return "perhaps damaged when the last run was interrupted"
	case d.act == actCompare && d.different != actReplace:
		return "damaged: differs from the previous manifest"
	case o.policy == PolicyAlways:
		return "--overwrite-policy=always"
	case o.source == fsys.Symlink:
		return "link target differs"
	case o.source != fsys.Regular:
		return "device number differs"
	case !o.sameSize:
		return "size differs"
	case d.act == actCompare:
		return "content differs"
	}
	return "modification time differs"
}

// outdatedKinds lists for people the metadata of have at the destination that differs from
// that of src and could be set. If there is none, it was extended attributes.
func (r *run) outdatedKinds(s *fileSystem, src, have fsys.Info) string {
	var kinds []string
	for _, kind := range []struct {
		name    string
		differs bool
	}{
		{"owner", r.ownerDiffers(s, src, have)},
		{"mode", r.modeDiffers(s, src, have)},
		{"modification time", r.timeDiffers(s, src, have)},
	} {
		if kind.differs {
			kinds = append(kinds, kind.name)
		}
	}
	if kinds == nil {
		return "extended attributes"
	}
	return strings.Join(kinds, ", ")
}
