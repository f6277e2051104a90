package fsys

import (
	"sync"

	"golang.org/x/sys/unix"
)

// systemCalls are the calls that other kernels and file systems lack or answer differently.
// Tests replace them.
type systemCalls struct {
	procFD          string
	mkdir           func(dir int, name string, mode uint32) error
	rename          func(oldDir int, oldName string, newDir int, newName string) error
	keepsDoubles    func(fd int) bool // nil everywhere but on macOS
	exclusiveRename func(dirfd int, oldName, newName string) error
	hardLink        func(oldDir int, oldName string, newDir int, newName string, flags int) error
	directWrite     func(fd int, p []byte, off int64) (int, error)
	cachestat       func(fd uint, r *unix.CachestatRange, s *unix.Cachestat_t, flags uint) error
	fileClone       func(dst, src int) error
	copyFileRange   func(from int, fromOff *int64, to int, toOff *int64, n, flags int) (int, error)
	rangesTrusted   func() bool // reports whether copyFileRange works between file systems
}

var system = systemCalls{
	procFD:          "/proc/self/fd/",
	mkdir:           unix.Mkdirat,
	rename:          unix.Renameat,
	exclusiveRename: renameNoReplace,
	hardLink:        unix.Linkat,
	directWrite:     unix.Pwrite,
	cachestat:       unix.Cachestat,
	fileClone:       unix.IoctlFileClone,
	copyFileRange:   unix.CopyFileRange,
	rangesTrusted: sync.OnceValue(func() bool {
		var u unix.Utsname
		return unix.Uname(&u) == nil && releaseAtLeast(unix.ByteSliceToString(u.Release[:]), 5, 3)
	}),
}
