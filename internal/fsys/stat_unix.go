//go:build unix && !(linux && (386 || arm))

package fsys

import "golang.org/x/sys/unix"

// statAt describes name in the directory fd: fstatat(2).
func statAt(fd int, name string, flags int) (Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(fd, name, &st, flags) }); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func (o *Object) stat() (Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return o.fstat(&st) }); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}
