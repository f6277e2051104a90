//go:build linux && (386 || arm)

package fsys

import (
	"sync"

	"golang.org/x/sys/unix"
)

// On these processors, the older calls have 32 bits for seconds, which end in 2038. statx(2)
// is new in Linux 4.11. The check uses an invalid descriptor, as for renameat2.
var hasStatx = sync.OnceValue(func() bool {
	return unix.Statx(-1, "a", 0, 0, new(unix.Statx_t)) == unix.EBADF
})

// statAt describes name in the directory fd, or fd itself with AT_EMPTY_PATH.
func statAt(fd int, name string, flags int) (Info, error) {
	if !hasStatx() {
		var st unix.Stat_t
		if err := retry(func() error { return unix.Fstatat(fd, name, &st, flags) }); err != nil {
			return Info{}, err
		}
		return infoOf(&st), nil
	}
	var stx unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &stx) })
	if err != nil {
		return Info{}, err
	}
	return infoOfStatx(&stx), nil
}

func (o *Object) stat() (Info, error) {
	if hasStatx() {
		return statAt(o.fd, "", unix.AT_EMPTY_PATH)
	}
	var st unix.Stat_t
	if err := retry(func() error { return o.fstat(&st) }); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func infoOfStatx(stx *unix.Statx_t) Info {
	info := infoOf(&unix.Stat_t{
		Dev:    unix.Mkdev(stx.Dev_major, stx.Dev_minor),
		Ino:    stx.Ino,
		Mode:   uint32(stx.Mode),
		Nlink:  stx.Nlink,
		Uid:    stx.Uid,
		Gid:    stx.Gid,
		Rdev:   unix.Mkdev(stx.Rdev_major, stx.Rdev_minor),
		Size:   int64(stx.Size),   //nolint:gosec // as the system's own off_t
		Blocks: int64(stx.Blocks), //nolint:gosec // no more than there are
	})
	info.Atime, info.Mtime, info.Ctime = timeOfStatx(stx.Atime), timeOfStatx(stx.Mtime), timeOfStatx(stx.Ctime)
	return info
}

func timeOfStatx(t unix.StatxTimestamp) Time { return Time{Sec: t.Sec, Nsec: int64(t.Nsec)} }
