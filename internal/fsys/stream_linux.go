package fsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// canNowait: preadv2(2) and pwritev2(2) with RWF_NOWAIT do for one call what
// O_NONBLOCK does for everybody who shares the descriptor; for pipes and sockets
// since Linux 6.4.
const canNowait = true

// pipePortion is what a pipe takes without waiting once poll has said that it takes
// something: PIPE_BUF of pipe(7).
const pipePortion = 4096 // bytes

func readNowait(fd int, p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Preadv2(fd, [][]byte{p}, -1, unix.RWF_NOWAIT) })
}

func writeNowait(fd int, p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Pwritev2(fd, [][]byte{p}, -1, unix.RWF_NOWAIT) })
}

// isMemoryDevice knows null, zero, full, random and urandom of mem(4), whose major
// number is 1.
func isMemoryDevice(info Info) bool {
	if unix.Major(info.Rdev) != 1 {
		return false
	}
	switch unix.Minor(info.Rdev) {
	case 3, 5, 7, 8, 9:
		return true
	}
	return false
}

// deviceSize returns the size of a block device in bytes.
func deviceSize(fd int) (int64, error) {
	var size uint64
	err := retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	return int64(size), err
}

// punch makes a hole; on a block device too that means zeros, other than what is
// only discarded (fallocate(2)).
func (s *Stream) punch(off, n int64) error {
	return retry(func() error {
		return unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}
