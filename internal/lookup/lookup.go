// Package lookup finds lines of a file by the path in them. The lines stay in the file. Each
// line uses 8 bytes of memory.
package lookup

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/bits"
	"slices"
)

// Entry is the highest bits of the hash of a line's path, above the offset of the line.
// A file of a million lines leaves about 37 bits for the hash. So a search for a path
// without a line reads a wrong line once in 100,000 times. Entries sort by hash, then by offset.
type Entry uint64

// File computes the entries of one file, and reads its lines.
type File struct {
	src     io.ReaderAt
	size    int64
	hash    func(path []byte) uint64
	offBits int // number of bits of an entry that the offset has
}

// New returns the File of a file of size bytes. hash is nil except in tests.
func New(src io.ReaderAt, size int64, hash func(path []byte) uint64) *File {
	if hash == nil {
		seed := maphash.MakeSeed()
		hash = func(path []byte) uint64 { return maphash.Bytes(seed, path) }
	}
	return &File{src, size, hash, bits.Len64(uint64(size))}
}

// Cut sets the end of the file to size. Later bytes are not read.
func (f *File) Cut(size int64) { f.size = size }

// Entry returns the entry of a line.
func (f *File) Entry(path []byte, offset int64) Entry {
	return Entry(f.hash(path)&^f.offMask() | uint64(offset))
}

func (f *File) offMask() uint64 { return 1<<f.offBits - 1 }

// Offset returns the offset of an entry's line.
func (f *File) Offset(e Entry) int64 { return int64(uint64(e) & f.offMask()) }

// Find returns the range [first, end) of the sorted entries that can be lines of a path. Only
// the lines themselves prove that they are, because several paths can have the same hash.
func (f *File) Find(entries []Entry, path []byte) (first, end int) {
	e := f.Entry(path, 0)
	first, _ = slices.BinarySearch(entries, e)
	for end = first; end < len(entries) && entries[end]>>f.offBits == e>>f.offBits; {
		end++
	}
	return first, end
}

// From returns a reader of the file from an offset up to its end.
func (f *File) From(offset int64) io.Reader { return io.NewSectionReader(f.src, offset, f.size-offset) }

// firstRead is the size of ReadLine's first read, in bytes. Most lines are shorter than 250.
const firstRead = 512

// ReadLine reads the line at an offset into buf, without its line feed. Of a line that is
// longer than maxLine or ends with the file, it reads the existing part. The error is that of
// reading the file, io.ErrUnexpectedEOF if the file is shorter than it was.
func (f *File) ReadLine(buf []byte, offset int64, maxLine int) ([]byte, error) {
	for buf = buf[:0]; ; {
		n := len(buf)
		more := int(min(int64(max(firstRead, n)), f.size-offset-int64(n)))
		buf = slices.Grow(buf, more)[:n+more]
		got, err := f.src.ReadAt(buf[n:], offset+int64(n))
		if got < more {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return buf, fmt.Errorf("read line at byte %d: %w", offset, err)
		}
		if end := bytes.IndexByte(buf[n:], '\n'); end >= 0 {
			return buf[:n+end], nil
		}
		if len(buf) >= maxLine || offset+int64(len(buf)) == f.size {
			return buf, nil
		}
	}
}

// Window reads lines of a File, which must not change. Use it from one goroutine. Window keeps
// a part of the file in memory. If the lines are requested in about their order in the file,
// as by a walk, one system call reads a hundred of them.
type Window struct {
	file  *File
	bytes []byte // part of the file, from start on
	start int64
}

// windowSize is the size of the part of a file that a Window keeps, in bytes.
const windowSize = 16 << 10

// Window returns an empty Window.
func (f *File) Window() *Window { return &Window{file: f} }

// ReadLine is File.ReadLine.
func (w *Window) ReadLine(buf []byte, offset int64, maxLine int) ([]byte, error) {
	if line, found := w.line(offset); found {
		return append(buf[:0], line...), nil
	}
	end := w.start + int64(len(w.bytes))
	if offset < w.start || offset > end+windowSize {
		w.start, w.bytes = offset, w.bytes[:0] // the next one may be near
		return w.file.ReadLine(buf, offset, maxLine)
	}
	size := int(max(min(windowSize, w.file.size-offset), 0))
	w.bytes = slices.Grow(w.bytes[:0], size)[:size]
	w.start = offset
	n, err := w.file.src.ReadAt(w.bytes, offset)
	w.bytes = w.bytes[:n]
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read line at byte %d: %w", offset, err)
	}
	if line, found := w.line(offset); found {
		return append(buf[:0], line...), nil
	}
	return w.file.ReadLine(buf, offset, maxLine)
}

// line returns the line at an offset if all of it, its line feed included, is in the window.
func (w *Window) line(offset int64) (line []byte, found bool) {
	at := offset - w.start
	if at < 0 || at >= int64(len(w.bytes)) {
		return nil, false
	}
	line, _, found = bytes.Cut(w.bytes[at:], []byte{'\n'})
	return line, found
}
