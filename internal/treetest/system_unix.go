//go:build unix

package treetest

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// applyMetadata sets the metadata of an entry: the owner first, because that clears set-id
// bits, and the times last, because everything else changes them.
func applyMetadata(path string, e *entry) error {
	if e.chown {
		if err := os.Lchown(path, e.uid, e.gid); err != nil {
			return err
		}
	}
	for name, value := range e.xattrs {
		if err := setXattr(path, name, value); err != nil {
			return fmt.Errorf("%s: %s: %w", path, name, err)
		}
	}
	if e.chmod {
		if err := os.Chmod(path, e.mode); err != nil {
			return err
		}
	}
	if e.mtime.IsZero() {
		return nil
	}
	ts, err := unix.TimeToTimespec(e.mtime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

func makeSpecial(path string, e *entry) error {
	kinds := map[kind]uint32{fifo: unix.S_IFIFO, socket: unix.S_IFSOCK, charDevice: unix.S_IFCHR}
	return mknod(path, kinds[e.kind]|0o666, unix.Mkdev(e.major, e.minor))
}

// identityOf returns the inode of a file, and whether the file has several names.
func identityOf(info fs.FileInfo) (identity, bool) {
	st := info.Sys().(*syscall.Stat_t)
	return identity{uint64(st.Dev), uint64(st.Ino)}, st.Nlink > 1 //nolint:unconvert // the types differ between systems
}

// holeSlack is how many bytes a file system may allocate beyond the data:
// blocks, clusters and extents are not the same size everywhere.
const holeSlack = 64 << 10

// system compares the metadata that only Unix has.
func (c *comparison) system(p, name string, dirs [2]*os.Root, infos [2]fs.FileInfo) {
	want, got := infos[0].Sys().(*syscall.Stat_t), infos[1].Sys().(*syscall.Stat_t)
	if infos[0].Mode()&fs.ModeDevice != 0 && want.Rdev != got.Rdev {
		c.differ(p, "want device %d, got %d", want.Rdev, got.Rdev)
	}
	if os.Geteuid() == 0 && !c.options.NoOwners && (want.Uid != got.Uid || want.Gid != got.Gid) {
		c.differ(p, "want owner %d:%d, got %d:%d", want.Uid, want.Gid, got.Uid, got.Gid)
	}
	if infos[0].Mode().IsRegular() && !c.options.NoHoles && want.Size == got.Size {
		allocated, has := int64(want.Blocks)*512, int64(got.Blocks)*512 //nolint:unconvert // as above
		if want.Size-allocated > 2*holeSlack && has > allocated+holeSlack {
			c.differ(p, "want holes, %d bytes allocated of %d; got %d", allocated, want.Size, has)
		}
	}
	if !c.options.NoXattrs {
		c.xattrs(p, name, dirs)
	}
}
