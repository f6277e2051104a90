package fsys

import "golang.org/x/sys/unix"

// unfinishedMode has the sticky bit, which mkdir sets together with the other bits. It means
// nothing where only the owner has access, so no user gives a directory this mode.
const unfinishedMode = 0o1700

func (d *Dir) mkdirUnfinished(name string) error { return unix.Mkdirat(d.fd, name, unfinishedMode) }

// IsUnfinished reports whether MkdirUnfinished created the directory and its mode was not set
// since. A directory can inherit the set-group-ID bit, and a umask can remove permissions of the
// owner. It is false on systems and file systems whose mkdir ignores the sticky bit.
func (i *Info) IsUnfinished() bool {
	return i.Kind == Directory && i.Mode&^0o2700 == unfinishedMode&^0o700
}
