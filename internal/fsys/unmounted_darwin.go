package fsys

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountedAt returns the directory at which the file system of the path is mounted; "" if it is
// unknown. The path need not exist.
func mountedAt(path string) string {
	for {
		var st unix.Statfs_t
		if err := retry(func() error { return unix.Statfs(path, &st) }); err == nil {
			return unix.ByteSliceToString(st.Mntonname[:])
		}
		if path == filepath.Dir(path) {
			return ""
		}
		path = filepath.Dir(path)
	}
}
