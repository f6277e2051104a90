package engine

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// reasonOf returns the reason of a transfer's outcome as text for people, for example "size
// differs". It returns "" for outcomes that need no reason, such as a new file.
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

// whyReplaced returns the reason why an existing file was replaced. equal means that the
// content was compared and is equal.
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
	case d.unreadable:
		return "content cannot be read"
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
