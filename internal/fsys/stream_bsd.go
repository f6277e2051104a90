//go:build darwin || freebsd

package fsys

import (
	"golang.org/x/sys/unix"
)

// canNowait: no call does not wait unless all do who share the descriptor.
const canNowait = false

// pipePortion is what a pipe takes without waiting once poll has said that it takes
// something: PIPE_BUF of <sys/syslimits.h>, the least of all systems.
const pipePortion = 512 // bytes

func readNowait(int, []byte) (int, error)  { return 0, unix.ENOTSUP }
func writeNowait(int, []byte) (int, error) { return 0, unix.ENOTSUP }

// isMemoryDevice knows them by their names: numbers differ from one start of the
// system to the next.
func isMemoryDevice(info Info) bool {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"} {
		if device, err := (*FS)(nil).StatPath(name); err == nil && device.Kind == CharDevice && device.Rdev == info.Rdev {
			return true
		}
	}
	return false
}

// punch is not supported.
func (s *Stream) punch(_, _ int64) error { return unix.ENOTSUP }

// WritesBehind is false: see StartWriteback.
func (s *Stream) WritesBehind() bool { return false }
