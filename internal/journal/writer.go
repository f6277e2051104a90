package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// bufferSize is how much a Writer collects before it writes, in bytes.
const bufferSize = 64 << 10

// ErrUnfit says that something cannot be recorded: a path that is too long, a
// time without sense. Nothing was written; the log is as it was.
var ErrUnfit = errors.New("cannot be recorded")

func unfit(what string) error { return fmt.Errorf("%s: %w", what, ErrUnfit) }

// NewID returns a fresh id of a log: 16 hexadecimal digits.
func NewID() string {
	var id [idDigits / 2]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Writer appends to a log. Records are collected and written some lines at a
// time, always whole ones. It is not safe for concurrent use.
//
// Methods that record something return ErrUnfit if it cannot be recorded. Otherwise they
// return the error of the underlying writer. All later calls return that error, too,
// because the content of the log is unknown from then on.
type Writer struct {
	w    io.Writer
	sum  uint32 // checksum of the id
	buf  []byte // lines that were not written yet
	size int64  // of what was written
	upto int64  // of the last checkpoint
	err  error  // sticky
}

// Create begins a log in w, which is empty, and writes the header at once.
func Create(w io.Writer, h Header) (*Writer, error) {
	switch {
	case !validID(h.ID):
		return nil, unfit("id")
	case !validTime(h.Begun):
		return nil, unfit("time")
	case !validOptions(h.Options):
		return nil, unfit("options")
	case h.Source == "" || len(h.Source) > MaxPath:
		return nil, unfit("source")
	}
	log := newWriter(w)
	start := log.begin()
	b := append(log.buf, headerWord+" "+version+" "...)
	b = append(append(b, h.ID...), ' ')
	b = append(appendTime(b, h.Begun), ' ')
	b = append(append(b, h.Options...), ' ')
	log.buf = appendEscaped(b, h.Source)
	if err := log.end(start, 0); err != nil {
		return nil, err
	}
	log.sum = checksum(h.ID)
	return log, log.Flush()
}

// Continue appends to a log of size bytes that was read: h is its Header and size
// its Size, and what follows has been cut off. File records that no checkpoint
// covers hold no more; so they need not be cut off.
//
// Like any record, the line that says so is written with the first ones that are.
func Continue(w io.Writer, h Header, size int64) *Writer {
	log := newWriter(w)
	log.size = size
	if !validID(h.ID) || size <= 0 {
		log.err = unfit("log that was not read")
		return log
	}
	id := NewID()
	start := log.begin()
	log.buf = append(append(log.buf, runLetter, ' '), id...)
	log.err = log.end(start, checksum(h.ID))
	log.sum = checksum(id)
	log.upto = log.Size()
	return log
}

func newWriter(w io.Writer) *Writer {
	// A line is added before the buffer is found to be full.
	return &Writer{w: w, buf: make([]byte, 0, bufferSize+4<<10)}
}

// File records a file at the destination. The record counts when a checkpoint covers
// it.
func (w *Writer) File(f *File) error {
	switch {
	case w.err != nil:
		return w.err
	case f.Size < 0:
		return unfit("size")
	case !validTime(f.Mtime) || !validTime(f.Ctime):
		return unfit("time")
	case len(f.Path) > MaxPath || !validPath(f.Path):
		return unfit("path")
	}
	for _, d := range f.Digests {
		if len(d) == 0 {
			return unfit("digest")
		}
	}
	start := w.begin()
	b := append(w.buf, fileLetter, ' ')
	b = append(strconv.AppendInt(b, f.Size, 10), ' ')
	b = append(appendTime(b, f.Mtime), ' ')
	b = append(appendTime(b, f.Ctime), ' ')
	b = append(appendDigests(b, f.Digests), ' ')
	w.buf = appendEscaped(b, f.Path)
	return w.end(start, w.sum)
}

// Partial records the beginning of a file that is on the device, in place of
// earlier records of its path.
func (w *Writer) Partial(p *Partial) error { return w.partial(partialLetter, p) }

// Written records the beginning of a file that was written and need not be on the
// device, in place of earlier such records of its path.
func (w *Writer) Written(p *Partial) error { return w.partial(writtenLetter, p) }

func (w *Writer) partial(letter byte, p *Partial) error {
	switch {
	case w.err != nil:
		return w.err
	case p.Offset <= 0 || p.Offset > p.Size:
		return unfit("offset")
	case !validTime(p.Mtime) || !validTime(p.Ctime):
		return unfit("time")
	case !validTemp(p.Temp):
		return unfit("temporary")
	case len(p.Path) > MaxPath || !validPath(p.Path):
		return unfit("path")
	}
	start := w.begin()
	b := append(w.buf, letter, ' ')
	b = append(strconv.AppendInt(b, p.Offset, 10), ' ')
	b = append(strconv.AppendInt(b, p.Size, 10), ' ')
	b = append(appendTime(b, p.Mtime), ' ')
	b = append(appendTime(b, p.Ctime), ' ')
	b = append(append(b, p.Temp...), ' ')
	b = append(appendStates(b, p.States), ' ')
	w.buf = appendEscaped(b, p.Path)
	return w.end(start, w.sum)
}

// Done records that the partials of path hold no more: the temporary is gone or
// has the file's name.
func (w *Writer) Done(path string) error {
	if w.err != nil {
		return w.err
	}
	if len(path) > MaxPath || !validPath(path) {
		return unfit("path")
	}
	start := w.begin()
	w.buf = appendEscaped(append(w.buf, doneLetter, ' '), path)
	return w.end(start, w.sum)
}

// Checkpoint records that at this time everything was on the device that file
// records before upto tell of, a Size that was asked for earlier. ErrUnfit if that
// is more than the log has, less than the last checkpoint, or before Continue.
//
// Take upto before you begin to force the files to the device, and the time, too.
func (w *Writer) Checkpoint(upto int64, at fsys.Time) error {
	switch {
	case w.err != nil:
		return w.err
	case upto < w.upto || upto > w.Size():
		return unfit("checkpoint")
	case !validTime(at):
		return unfit("time")
	}
	start := w.begin()
	b := append(w.buf, checkpointLetter, ' ')
	b = append(strconv.AppendInt(b, upto, 10), ' ')
	w.buf = appendTime(b, at)
	err := w.end(start, w.sum)
	if err == nil {
		w.upto = upto
	}
	return err
}

// Size is the length of the log in bytes, with what was not written yet: where
// the next line begins.
func (w *Writer) Size() int64 { return w.size + int64(len(w.buf)) }

// Flush writes what was collected. It does not force it to the device.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	n, err := w.w.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = err
		return w.err
	}
	w.size += int64(n)
	w.buf = w.buf[:0]
	return nil
}

// begin leaves space for the checksum of a line, which begins at start.
func (w *Writer) begin() (start int) {
	start = len(w.buf)
	w.buf = append(w.buf, "00000000 "...)
	return start
}

// end completes the line that begins at start. before is the checksum of what
// stands before its rest.
func (w *Writer) end(start int, before uint32) error {
	if len(w.buf)-start >= maxLine {
		w.buf = w.buf[:start]
		return unfit("line of more than 2 MiB")
	}
	line := w.buf[start:]
	appendSum(line[:0], crc32.Update(before, castagnoli, line[sumDigits+1:]))
	w.buf = append(w.buf, '\n')
	if len(w.buf) >= bufferSize {
		return w.Flush()
	}
	return nil
}
