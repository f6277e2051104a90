//go:build unix

package fsys

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// streamSystem has the fields of a Stream that only Unix needs.
type streamSystem struct {
	waits   bool // true if a read or a write may wait for ever
	nowait  bool // true if calls that do not wait may work
	portion int  // largest number of bytes of a write after poll; 0 for no limit
}

// stopSystem is a pipe. Its reading end becomes ready when the writing end is closed.
type stopSystem struct{ r, w *os.File }

func (s *Stop) open() (err error) {
	s.system.r, s.system.w, err = os.Pipe()
	return BareError(err)
}

func (s *Stop) wake() { _ = s.system.w.Close() }

func (s *Stop) close() { _ = s.system.r.Close() }

func statPath(path string) (Info, error) { return statAt(unix.AT_FDCWD, path, 0) }

const streamFlags = unix.O_CLOEXEC | unix.O_NOCTTY

func (sys *FS) openInput(path string, stop *Stop) (*Stream, error) {
	fd, err := sys.openStream(path, unix.O_RDONLY|streamFlags, stop, openPath)
	if err != nil {
		return nil, err
	}
	return sys.newStream(fd, path, stop, false)
}

func (sys *FS) openOutput(path string, stop *Stop) (s *Stream, created bool, err error) {
	const flags = unix.O_WRONLY | streamFlags
	fd := -1
	info, err := sys.StatPath(path)
	switch {
	case err == unix.ENOENT:
		var o Object
		o, err = openTrusted(path, flags|unix.O_CREAT|unix.O_EXCL, 0o666)
		fd, created = o.fd, err == nil
		if err == unix.EEXIST { // another process was faster
			fd, err = sys.openStream(path, flags, stop, openTrustedPath)
		}
	case err != nil:
	case info.Kind == BlockDevice:
		fd, err = sys.openStream(path, flags|unix.O_EXCL, stop, openTrustedPath)
	default:
		fd, err = sys.openStream(path, flags, stop, openTrustedPath)
	}
	if err != nil {
		return nil, false, err
	}
	if s, err = sys.newStream(fd, path, stop, true); err != nil && created {
		_ = removeResolved(path)
	}
	return s, created && err == nil, err
}

// InheritStream returns a Stream for standard input or output, f, at its position. It does not
// change the descriptor's flags. The owner of f closes it.
func (sys *FS) InheritStream(f *os.File, stop *Stop, output bool) (*Stream, error) {
	o, err := (&Object{fd: int(f.Fd())}).dup()
	if err != nil {
		return nil, err
	}
	s, err := sys.newStream(o.fd, "-", stop, output)
	if err != nil || s.Info.Kind != Regular && s.Info.Kind != BlockDevice {
		return s, err
	}
	if output && s.Info.Kind == BlockDevice && mounted(s.fd) {
		s.Close()
		return nil, unix.EBUSY
	}
	if flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0); err == nil && flags&unix.O_APPEND != 0 && output {
		s.Seeks = false // O_APPEND ignores the offsets of writes
	} else if s.Start, err = unix.Seek(s.fd, 0, unix.SEEK_CUR); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// mounted reports whether another user of the block device has exclusive access. The shell
// that opened it for this process did not check that.
func mounted(fd int) bool {
	again, err := retryN(func() (int, error) {
		return unix.Open(fmt.Sprintf("/dev/fd/%d", fd), unix.O_WRONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	})
	if err == nil {
		_ = unix.Close(again) // nothing was written
	}
	return err == unix.EBUSY
}

// openTrustedPath is openPath for a path that leads through trusted links only.
func openTrustedPath(path string, flags int) (Object, error) { return openTrusted(path, flags, 0) }

// openStream opens a path with open. For a fifo it does not wait for ever: the Stop ends the wait for
// the other end.
func (sys *FS) openStream(path string, flags int, stop *Stop, open func(string, int) (Object, error)) (int, error) {
	info, err := sys.StatPath(path)
	if err != nil || info.Kind != Fifo {
		o, err := open(path, flags)
		return o.fd, err
	}
	type opened struct {
		Object
		err error
	}
	done := make(chan opened, 1)
	go func() {
		o, err := open(path, flags)
		done <- opened{o, err}
	}()
	select {
	case o := <-done:
		return o.fd, o.err
	case <-stop.raised:
	}
	// Opening a fifo for both directions does not wait, and provides the other end that the
	// call above waits for.
	other, err := open(path, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return -1, ErrStopped // the other open cannot be ended, because permissions allow only one direction
	}
	if o := <-done; o.err == nil {
		_ = unix.Close(o.fd)
	}
	_ = unix.Close(other.fd)
	return -1, ErrStopped
}

// newStream takes over the descriptor and determines what kind of object it is.
func (sys *FS) newStream(fd int, name string, stop *Stop, output bool) (*Stream, error) {
	s := &Stream{File: File{Object: Object{fd: fd, descriptor: sys.opened(name)}}, Size: -1, stop: stop}
	var err error
	if s.Info, err = s.Stat(); err != nil {
		s.Close()
		return nil, err
	}
	switch s.Info.Kind {
	case Regular:
		s.Seeks, s.Size = true, s.Info.Size
	case BlockDevice:
		s.Seeks = true
		if s.Size, err = deviceSize(fd); err != nil {
			s.Close()
			return nil, err
		}
	case CharDevice:
		s.Memory = isMemoryDevice(s.Info)
		s.Records = !s.Memory
		s.system.waits = !s.Memory
	default:
		s.system.waits = true
		if output {
			s.system.portion = pipePortion
		}
	}
	s.system.nowait = s.system.waits && canNowait
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_NONBLOCK != 0 {
		s.system.portion = 0
	}
	return s, nil
}

// Skip moves a stream without offsets forward by n bytes, without reading or writing them,
// and reports whether that is possible. Memory devices have the same content everywhere, and
// some other devices have a position.
func (s *Stream) Skip(n int64) bool {
	if s.Memory || n == 0 {
		return true
	}
	if s.Info.Kind != CharDevice {
		return false
	}
	before, err := unix.Seek(s.fd, 0, unix.SEEK_CUR)
	if err != nil {
		return false
	}
	after, err := unix.Seek(s.fd, n, unix.SEEK_CUR)
	return err == nil && after == before+n
}

// Leave sets the position of an inherited descriptor that seeks, as if ordinary reads or
// writes had moved it.
func (s *Stream) Leave(off int64) error {
	_, err := unix.Seek(s.fd, off, unix.SEEK_SET)
	return err
}

func (s *Stream) read(p []byte, off int64) (int, error) {
	if s.Seeks {
		return s.pread(p, off)
	}
	return s.unlessStopped(unix.POLLIN, p, len(p), unix.Read, readNowait)
}

func (s *Stream) write(p []byte, off int64) (int, error) {
	if s.Seeks {
		return s.pwrite(p, off)
	}
	portion := len(p)
	if s.system.portion > 0 {
		portion = min(portion, s.system.portion)
	}
	return s.unlessStopped(unix.POLLOUT, p, portion, unix.Write, writeNowait)
}

// unlessStopped reads or writes once. It first waits until that is possible or the Stop is
// raised. Without calls that do not wait it moves at most portion bytes.
func (s *Stream) unlessStopped(ready int16, p []byte, portion int, call, nowait func(fd int, p []byte) (int, error)) (int, error) {
	for s.system.waits {
		n, err := -1, error(unix.EAGAIN)
		if s.system.nowait {
			n, err = nowait(s.fd, p)
			if s.nowaitRefused(err) {
				continue
			}
		}
		if err != unix.EAGAIN {
			return n, err
		}
		if err := s.wait(ready); err != nil {
			return 0, err
		}
		if s.system.nowait {
			continue
		}
		n, err = retryN(func() (int, error) { return call(s.fd, p[:portion]) })
		if err != unix.EAGAIN { // otherwise another process was faster
			return n, err
		}
	}
	return retryN(func() (int, error) { return call(s.fd, p) })
}

// nowaitRefused remembers that this stream has no calls that do not wait.
func (s *Stream) nowaitRefused(err error) bool {
	if !Unsupported(err) && err != unix.EINVAL {
		return false
	}
	s.system.nowait = false
	return true
}

// wait returns when the descriptor is ready or has an error to return. After Raise it returns
// ErrStopped.
func (s *Stream) wait(events int16) error {
	fds := [2]unix.PollFd{
		{Fd: int32(s.fd), Events: events},
		{Fd: int32(s.stop.system.r.Fd()), Events: unix.POLLIN},
	}
	if _, err := retryN(func() (int, error) { return unix.Poll(fds[:], -1) }); err != nil {
		return err
	}
	if fds[1].Revents != 0 {
		return ErrStopped
	}
	return nil
}
