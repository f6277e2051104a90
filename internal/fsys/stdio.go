package fsys

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// OpenFile opens the file that a user named for reading and describes it.
// Symbolic links in path are followed: the path is the user's own. It does not
// wait for a writer of a fifo; the caller checks the kind.
func (sys *FS) OpenFile(path string) (*File, Info, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return sys.openWithoutPath(path, BareError(err))
	}
	dir, err := sys.OpenLookup(filepath.Dir(resolved))
	if err != nil {
		return nil, Info{}, err
	}
	defer dir.Close()
	return dir.Open(filepath.Base(resolved))
}

// BareError returns the system's error in an error of package os, without the path.
func BareError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// ReaderAt is a file as an io.ReaderAt: it returns io.EOF if p is not filled.
type ReaderAt struct{ *File }

// ReadAt implements io.ReaderAt.
func (r ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.File.ReadAt(p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Reader returns a reader of the first size bytes of the file.
func (f *File) Reader(size int64) *io.SectionReader {
	return io.NewSectionReader(ReaderAt{f}, 0, size)
}

// Writer writes a file from its beginning.
type Writer struct {
	File *File
	off  int64
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) { return w.File.writeNext(p, &w.off) }

// writeNext writes p at off, and moves off behind it.
func (f *File) writeNext(p []byte, off *int64) (int, error) {
	if err := f.WriteAt(p, *off); err != nil {
		return 0, err
	}
	*off += int64(len(p))
	return len(p), nil
}

// Spill is a temporary file that is written from its beginning. Close removes it.
type Spill struct {
	*Pending
	off int64
}

// Write implements io.Writer.
func (s *Spill) Write(p []byte) (int, error) { return s.writeNext(p, &s.off) }

// ReadAt implements io.ReaderAt.
func (s *Spill) ReadAt(p []byte, off int64) (int, error) {
	return ReaderAt{&s.File}.ReadAt(p, off)
}

// Close implements io.Closer.
func (s *Spill) Close() error {
	s.Abort()
	return nil
}
