//go:build !linux

package fsys

func (d *Dir) mkdirUnfinished(name string) error { return d.mkdir(name) }

// IsUnfinished is always false: mkdir ignores the sticky bit here.
func (i *Info) IsUnfinished() bool { return false }
