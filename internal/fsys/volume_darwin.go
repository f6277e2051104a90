package fsys

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Volume describes the file system of the directory. macOS mounts a volume under its label. The
// other properties are not read.
func (d *Dir) Volume() Volume {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return Volume{dev: d.deviceNumber()}
	}
	v := Volume{
		FileSystem: unix.ByteSliceToString(st.Fstypename[:]),
		Mount:      unix.ByteSliceToString(st.Mntonname[:]),
		Source:     unix.ByteSliceToString(st.Mntfromname[:]),
		dev:        d.deviceNumber(),
	}
	if filepath.Dir(v.Mount) == "/Volumes" {
		v.Label = filepath.Base(v.Mount)
	}
	return v
}
