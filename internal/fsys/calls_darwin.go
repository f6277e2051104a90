package fsys

import "golang.org/x/sys/unix"

// systemCalls are the calls that other systems and file systems lack. Tests replace them.
type systemCalls struct {
	mkdir           func(dir int, name string, mode uint32) error
	rename          func(oldDir int, oldName string, newDir int, newName string) error
	keepsDoubles    func(fd int) bool
	exclusiveRename func(dirfd int, oldName, newName string) error
	hardLink        func(oldDir int, oldName string, newDir int, newName string, flags int) error
}

var system = systemCalls{
	mkdir:           unix.Mkdirat,
	rename:          unix.Renameat,
	keepsDoubles:    keepsDoubles,
	exclusiveRename: renameNoReplace,
	hardLink:        unix.Linkat,
}

// Memory returns how many bytes of memory the machine has; 0 if it is unknown (sysctl).
func Memory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

// openLeased returns EAGAIN: macOS has no leases.
func (d *Dir) openLeased(string) (Object, error) { return Object{}, unix.EAGAIN }

func (f *File) pread(p []byte, off int64) (int, error) {
	return retryN(func() (int, error) { return unix.Pread(f.fd, p, off) })
}

func (f *File) pwrite(p []byte, off int64) (int, error) {
	return retryN(func() (int, error) { return unix.Pwrite(f.fd, p, off) })
}

// linkUnnamed is not supported, and never called, because createUnnamed is not supported
// either.
func (p *Pending) linkUnnamed(string) error { return unix.ENOTSUP }

// Available returns how many bytes an ordinary user can write to the file system of the
// directory, or -1 if that is unknown.
func (d *Dir) Available() int64 {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return -1
	}
	return max(int64(st.Bavail), 0) * int64(st.Bsize) //nolint:gosec // it is small
}

// KeepsChangeTime reports whether the file system stores when a file was changed. Those of the
// FAT family do not: they report the modification time, which programs can set.
func (d *Dir) KeepsChangeTime() bool {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return false
	}
	switch unix.ByteSliceToString(st.Fstypename[:]) {
	case "msdos", "exfat":
		return false
	}
	return true
}

// canNowait is false: macOS has no call that does not wait for one process only.
// O_NONBLOCK would affect all processes that share the descriptor.
const canNowait = false

// pipePortion is the number of bytes that a pipe accepts without waiting after poll has
// reported it as ready: PIPE_BUF of <sys/syslimits.h>, the smallest of all systems.
const pipePortion = 512 // bytes

func readNowait(int, []byte) (int, error)  { return 0, unix.ENOTSUP }
func writeNowait(int, []byte) (int, error) { return 0, unix.ENOTSUP }

// isMemoryDevice compares names, because device numbers differ from one start of the system to
// the next.
func isMemoryDevice(info Info) bool {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"} {
		if device, err := (*FS)(nil).StatPath(name); err == nil && device.Kind == CharDevice && device.Rdev == info.Rdev {
			return true
		}
	}
	return false
}
