//go:build !linux

package fsys

// noDevices reports whether the directory's file system is mounted so that its
// device nodes cannot be opened: it is not asked here.
func (d *Dir) noDevices() bool { return false }
