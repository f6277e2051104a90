package fsys

import "golang.org/x/sys/unix"

// linkTarget returns where the symbolic link leads that link has open.
func (d *Dir) linkTarget(_ string, link *Object) (string, error) {
	return (&Dir{Object: *link}).readlink("")
}

// followedBySystem reports whether the link is one of /proc, where no user can make links. Some of
// them lead to an open pipe or to a removed file, which have no path.
func (o *Object) followedBySystem() bool { return o.fileSystem() == unix.PROC_SUPER_MAGIC }
