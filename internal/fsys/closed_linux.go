//go:build amd64 || arm64

package fsys

import "golang.org/x/sys/unix"

// stdoutAtEntry is what fcntl(1, F_GETFD) returned before the Go runtime began: a
// negative errno or the flags. sealift_entry, in assembly, writes it. It is 0 where the
// program was linked without "-E sealift_entry".
var stdoutAtEntry int

// KeepStdoutClosed makes writes to a standard output that was closed when the program
// began fail with EBADF, as they do in other programs. The Go runtime opens /dev/null
// for reading and writing there (runtime/fds_unix.go), and all output would be lost. After
// that, it looks the same as a /dev/null that Python's subprocess or Node.js passes. So the
// check is at the program's entry.
func KeepStdoutClosed() error {
	if stdoutAtEntry != -int(unix.EBADF) {
		return nil
	}
	fd, err := retryN(func() (int, error) { return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only opened
	return unix.Dup3(fd, 1, unix.O_CLOEXEC)
}
