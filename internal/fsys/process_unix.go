//go:build unix

package fsys

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Umask returns the process's file mode creation mask.
var Umask = sync.OnceValue(func() uint32 {
	mask := unix.Umask(0o077) // the only way to read it is to set it; no file gets wider permissions in between
	unix.Umask(mask)
	return uint32(mask)
})

// OddMode is a mode that new files never have and that chmod can set.
const OddMode = 0o640

// WritesMoveTimes says that a write through a descriptor sets the modification time, also after
// the times were set through it.
const WritesMoveTimes = true

// Identity returns the user and group that new files get.
func Identity() (uid, gid uint32) { return uint32(unix.Geteuid()), uint32(unix.Getegid()) }

// Private reports whether the object belongs to the user of this process, and its mode does
// not allow other users to write to it.
func (i Info) Private() bool { return i.UID == uint32(unix.Geteuid()) && i.Mode&0o022 == 0 }

// Privileged reports whether the process may change the owners of files and create device
// nodes.
func Privileged() bool { return unix.Geteuid() == 0 }

// OpenLimit returns how many descriptors the process may have open.
func OpenLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || r.Cur > 1<<20 {
		return 1 << 20
	}
	return int(r.Cur)
}
