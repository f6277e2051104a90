//go:build linux && (386 || arm)

package fsys

import "golang.org/x/sys/unix"

// On these processors, the older calls have 32 bits for seconds, which end in 2038.

// sysUtimensat is the call with 64 bits, which is new in Linux 5.1.
const sysUtimensat = unix.SYS_UTIMENSAT_TIME64

// statAt describes name in the directory fd, or fd itself with AT_EMPTY_PATH.
func statAt(fd int, name string, flags int) (Info, error) {
	var st unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st) })
	if err != nil {
		return Info{}, err
	}
	info := infoOf(&unix.Stat_t{
		Dev:    unix.Mkdev(st.Dev_major, st.Dev_minor),
		Ino:    st.Ino,
		Mode:   uint32(st.Mode),
		Nlink:  st.Nlink,
		Uid:    st.Uid,
		Gid:    st.Gid,
		Rdev:   unix.Mkdev(st.Rdev_major, st.Rdev_minor),
		Size:   int64(st.Size),   //nolint:gosec // as the system's own off_t
		Blocks: int64(st.Blocks), //nolint:gosec // no more than there are
	})
	info.Atime, info.Mtime, info.Ctime = timeOfStatx(st.Atime), timeOfStatx(st.Mtime), timeOfStatx(st.Ctime)
	return info, nil
}

func (o *Object) stat() (Info, error) { return statAt(o.fd, "", unix.AT_EMPTY_PATH) }

func timeOfStatx(t unix.StatxTimestamp) Time { return Time{Sec: t.Sec, Nsec: int64(t.Nsec)} }
