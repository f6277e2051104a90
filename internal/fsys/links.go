package fsys

import (
	"fmt"
	"os/user"
	"strconv"
)

// A trusted link is a symbolic link that belongs to root or to the caller. Another user could have
// made any other link to redirect what a program writes. So paths that the user gave, except those of
// sources, lead only through trusted links.

// A LinkError means that a path leads through a symbolic link that is not trusted.
type LinkError struct {
	Link   string // path of the link
	Target string // the path to which it leads
	UID    uint32 // the user that owns the link
}

func (e *LinkError) Error() string {
	uid := strconv.FormatUint(uint64(e.UID), 10)
	owner := "the user with the ID " + uid
	if u, err := user.LookupId(uid); err == nil {
		owner = u.Username
	}
	return fmt.Sprintf("the symbolic link %q leads to %q and belongs to %s, who could change where it leads; if that is the right place, give its path without the link",
		e.Link, e.Target, owner)
}
