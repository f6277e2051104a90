package fsys

import "golang.org/x/sys/unix"

// SetDirect makes further reads keep their data out of memory, or ends that (F_NOCACHE of
// fcntl(2)). Reads still return data that is already in memory, so fromDevice is always false.
func (f *File) SetDirect(on bool) (fromDevice bool, err error) {
	arg := 0
	if on {
		arg = 1
	}
	_, err = unix.FcntlInt(uintptr(f.fd), unix.F_NOCACHE, arg)
	f.direct.Store(on && err == nil)
	return false, err
}

// DropCacheBehind does nothing: SetDirect before reading does it here.
func (f *File) DropCacheBehind(int64, int64) {}
