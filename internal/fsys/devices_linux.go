package fsys

import "golang.org/x/sys/unix"

// noDevices reports whether the directory's file system is mounted so that its
// device nodes cannot be opened.
func (d *Dir) noDevices() bool {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(d.fd, &st) })
	return err == nil && st.Flags&unix.MS_NODEV != 0 // ST_NODEV has its value
}
