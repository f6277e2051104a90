package fsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// canNowait is true: RWF_NOWAIT of preadv2(2) and pwritev2(2) has the effect of O_NONBLOCK for
// one call, and not for all processes that share the descriptor. Pipes and sockets support it
// since Linux 6.4.
const canNowait = true

// pipePortion is the number of bytes that a pipe accepts without waiting after poll has
// reported it as ready: PIPE_BUF of pipe(7).
const pipePortion = 4096 // bytes

func readNowait(fd int, p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Preadv2(fd, [][]byte{p}, -1, unix.RWF_NOWAIT) })
}

func writeNowait(fd int, p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Pwritev2(fd, [][]byte{p}, -1, unix.RWF_NOWAIT) })
}

// isMemoryDevice reports whether a device is null, zero, full, random or urandom of mem(4),
// which have the major number 1.
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
	err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return int64(size), err
}

// punch makes a hole. On a block device, the range then reads as zeros, which discarding alone
// does not guarantee (fallocate(2)).
func (s *Stream) punch(off, n int64) error {
	return retry(func() error {
		return unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}
