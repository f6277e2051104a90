package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// ErrStopped is the answer of a Stream that was waiting when its Stop was raised.
var ErrStopped = errors.New("stopped")

// Stream is something that the user named, or the process has inherited, and that
// bytes come from or go to in order: a file, a device, a pipe, a terminal. It is
// used by one goroutine at a time.
type Stream struct {
	File
	Info    Info
	Size    int64 // bytes, of a regular file and of a block device; -1 for others
	Start   int64 // the position of an inherited descriptor, in bytes; 0 for others
	Seeks   bool  // reads and writes are at offsets; else they follow one another
	Records bool  // a read or a write is a record: a tape, a terminal
	Memory  bool  // a device that is the system's memory: /dev/null, /dev/zero, /dev/random

	stop   *Stop
	system streamSystem
}

// Stop ends the waiting of all streams that were opened with it.
type Stop struct {
	once   sync.Once
	raised chan struct{}
	system stopSystem
}

// NewStop makes a Stop that is not raised. The caller must Close it.
func NewStop() (*Stop, error) {
	s := &Stop{raised: make(chan struct{})}
	return s, s.open()
}

// Raise ends all waiting, now and from now on, with ErrStopped.
func (s *Stop) Raise() {
	s.once.Do(func() {
		close(s.raised)
		s.wake()
	})
}

// Close closes the descriptors. No goroutine may wait any more.
func (s *Stop) Close() {
	s.Raise()
	s.close()
}

// StatPath describes what the user named. Symbolic links are followed.
func (sys *FS) StatPath(path string) (Info, error) {
	if err := sys.fault(OpStat, path); err != nil {
		return Info{}, err
	}
	return statPath(path)
}

// OpenInput opens what the user named for reading. Symbolic links are followed. A
// fifo waits for its writer, or for the Stop.
func (sys *FS) OpenInput(path string, stop *Stop) (*Stream, error) {
	if err := sys.fault(OpOpen, path); err != nil {
		return nil, err
	}
	return sys.openInput(path, stop)
}

// OpenOutput opens the output that the user named for writing in place. It creates a missing
// file with mode 0666 and the umask, and then created is true. It opens a block device
// exclusively: EBUSY if that is mounted. For a fifo it waits for the reader, or for the
// Stop.
func (sys *FS) OpenOutput(path string, stop *Stop) (s *Stream, created bool, err error) {
	if err := sys.fault(OpOpen, path); err != nil {
		return nil, false, err
	}
	return sys.openOutput(path, stop)
}

// streamFault asks about an operation, by the path that the stream was opened by.
func (s *Stream) streamFault(op Op) error {
	if s.descriptor == nil {
		return nil
	}
	return s.FS().fault(op, s.descriptor.Path)
}

// ReadSome is one read, which waits for at least one byte: 0 bytes without an
// error are the end. off counts where the stream seeks.
func (s *Stream) ReadSome(p []byte, off int64) (int, error) {
	if err := s.streamFault(OpRead); err != nil {
		return 0, err
	}
	n, err := s.read(p, off)
	return max(n, 0), err
}

// WriteAll writes all of p, with one write where the system takes it, and returns
// how many bytes were written before an error. off counts where the stream seeks.
func (s *Stream) WriteAll(p []byte, off int64) (n int, err error) {
	if err := s.streamFault(OpWrite); err != nil {
		return 0, err
	}
	for n < len(p) {
		some, err := s.write(p[n:], off+int64(n))
		n += max(some, 0)
		if err != nil {
			return n, err
		}
		if some == 0 { // no system documents it; a loop would never end
			return n, errNoProgress
		}
	}
	return n, nil
}

// Zero makes zeros of n bytes at off without writing them, if the file or the device
// supports that. Unsupported, or InvalidArgument for a range that fits no block, mean that
// the caller has to write them.
func (s *Stream) Zero(off, n int64) error {
	if err := s.streamFault(OpPunch); err != nil {
		return err
	}
	return s.punch(off, n)
}

// CloseWritten closes the stream and returns errors of lost writes that only close reports,
// as on NFS.
func (s *Stream) CloseWritten() error {
	err := s.close()
	if err == nil {
		err = s.streamFault(OpCloseFile)
	}
	return err
}

// RemoveNew removes the file that path led to when s created it, unless it is another
// by now or has content.
func (s *Stream) RemoveNew(path string) {
	if now, err := s.FS().StatPath(path); err == nil && now.ID == s.Info.ID && now.Size == 0 {
		_ = removeResolved(path) // empty, and it says nothing
	}
}

// removeResolved removes a file and not the link that leads to it.
func removeResolved(path string) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	return os.Remove(resolved)
}

// SyncParent forces the name of a new file to the device.
func (sys *FS) SyncParent(path string) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return BareError(err)
	}
	dir, err := sys.OpenRoot(filepath.Dir(resolved))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
