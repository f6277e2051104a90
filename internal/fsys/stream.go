package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// ErrStopped is the error of a Stream whose wait was ended by Stop.Raise.
var ErrStopped = errors.New("stopped")

// Stream is a file, a device, a pipe or a terminal that the user named or the process
// inherited. Bytes are read from it or written to it in order. Use it from one goroutine at a
// time.
type Stream struct {
	File
	Info    Info
	Size    int64 // size of a regular file or a block device in bytes; -1 for others
	Start   int64 // the position of an inherited descriptor, in bytes; 0 for others
	Seeks   bool  // true if reads and writes have offsets; otherwise they follow one another
	Records bool  // true if each read or write is a record, as on a tape or a terminal
	Memory  bool  // true for a device of the kernel without storage: /dev/null, /dev/zero, /dev/random

	stop   *Stop
	system streamSystem
}

// Stop ends the waits of all streams that were opened with it.
type Stop struct {
	once   sync.Once
	raised chan struct{}
	system stopSystem
}

// NewStop returns a Stop that is not raised. The caller must Close it.
func NewStop() (*Stop, error) {
	s := &Stop{raised: make(chan struct{})}
	return s, s.open()
}

// Raise ends all present and future waits with ErrStopped.
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

// StatPath describes the object at a path that the user named. It follows symbolic links.
func (sys *FS) StatPath(path string) (Info, error) {
	if err := sys.fault(OpStat, path); err != nil {
		return Info{}, err
	}
	return statPath(path)
}

// OpenInput opens a path that the user named for reading. It follows symbolic links. For a
// fifo it waits for the writer, or for the Stop.
func (sys *FS) OpenInput(path string, stop *Stop) (*Stream, error) {
	if err := sys.fault(OpOpen, path); err != nil {
		return nil, err
	}
	return sys.openInput(path, stop)
}

// OpenOutput opens the output that the user named for writing in place. It creates a missing
// file with mode 0666 and the umask, and then created is true. It opens a block device
// exclusively: EBUSY if that is mounted. For a fifo it waits for the reader, or for the
// Stop. It fails with a *LinkError if the path leads through a link that is not trusted.
func (sys *FS) OpenOutput(path string, stop *Stop) (s *Stream, created bool, err error) {
	if err := sys.fault(OpOpen, path); err != nil {
		return nil, false, err
	}
	return sys.openOutput(path, stop)
}

// streamFault calls FS.Fault for an operation, with the path by which the stream was opened.
func (s *Stream) streamFault(op Op) error {
	if s.descriptor == nil {
		return nil
	}
	return s.FS().fault(op, s.descriptor.Path)
}

// ReadSome reads once, and waits for at least one byte. 0 bytes without an error mean the end.
// off has an effect only if Seeks is true.
func (s *Stream) ReadSome(p []byte, off int64) (int, error) {
	if err := s.streamFault(OpRead); err != nil {
		return 0, err
	}
	n, err := s.read(p, off)
	return max(n, 0), err
}

// WriteAll writes all of p, with one write if the system accepts that, and returns how many
// bytes were written before an error. off has an effect only if Seeks is true.
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
		if some == 0 { // no system documents this result; without the check, the loop would never end
			return n, errNoProgress
		}
	}
	return n, nil
}

// Zero sets n bytes at off to zero without writing them, if the file or the device supports
// that. If Unsupported, or InvalidArgument for a range that fits no block, holds for the
// error, the caller has to write the zeros.
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

// RemoveNew removes the file that s created at path, unless path leads to another file now or
// the file has content.
func (s *Stream) RemoveNew(path string) {
	if now, err := s.FS().StatPath(path); err == nil && now.ID == s.Info.ID && now.Size == 0 {
		_ = removeResolved(path) // the file is empty, so an error does not matter
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

// SyncParent flushes the name of a new file to the device.
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
