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

// bufferSize is the size of the buffer of a Writer, in bytes.
const bufferSize = 64 << 10

// ErrUnfit means that a record is not possible, because its path is too long or a time is not
// valid. Nothing was written, and the log is unchanged.
var ErrUnfit = errors.New("cannot be recorded")

func unfit(what string) error { return fmt.Errorf("%s: %w", what, ErrUnfit) }

// NewID returns a new id of a log: 16 hexadecimal digits.
func NewID() string {
	var id [idDigits / 2]byte
	rand.Read(id[:]) // this call never fails
	return hex.EncodeToString(id[:])
}

// Writer appends to a log. It buffers records, and always writes complete lines. It is not
// safe for concurrent use.
//
// Methods that record something return ErrUnfit if it cannot be recorded. Otherwise they
// return the error of the underlying writer. All later calls return that error, too, because
// the content of the log is unknown from then on.
type Writer struct {
	w    io.Writer
	sum  uint32 // checksum of the id
	buf  []byte // lines that were not written yet
	size int64  // number of written bytes
	upto int64  // upto of the last checkpoint
	err  error  // the first error of w, returned by all later calls
}

// Create begins a log in w, which must be empty, and writes the header at once.
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
	b = append(h.Begun.AppendDecimal(b), ' ')
	b = append(append(b, h.Options...), ' ')
	log.buf = appendEscaped(b, h.Source)
	if err := log.end(start, 0); err != nil {
		return nil, err
	}
	log.sum = checksum(h.ID)
	return log, log.Flush()
}

// Continue appends to a log that was read: h is its Header and size its Size. The caller has
// truncated it to that size. File records that no checkpoint covers stay in the log and are
// not valid any more, because Continue records a new run.
//
// The line of that run is written together with the first record.
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
	// Space for one more line, because a line is added before the buffer is checked.
	return &Writer{w: w, buf: make([]byte, 0, bufferSize+4<<10)}
}

// File records a file at the destination. The record is valid when a checkpoint covers it.
func (w *Writer) File(f *File) error {
	switch {
	case w.err != nil:
		return w.err
	case f.Size < 0:
		return unfit("size")
	case !validTime(f.Mtime) || !validTime(f.Ctime):
		return unfit("time")
	case !validPath(f.Path):
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
	b = append(f.Mtime.AppendDecimal(b), ' ')
	b = append(f.Ctime.AppendDecimal(b), ' ')
	b = append(f.Digests.AppendHex(b), ' ')
	w.buf = appendEscaped(b, f.Path)
	return w.end(start, w.sum)
}

// Partial records that the beginning of a file is on the device. It replaces earlier records
// of its path.
func (w *Writer) Partial(p *Partial) error {
	switch {
	case w.err != nil:
		return w.err
	case p.Offset <= 0 || p.Offset > p.Size:
		return unfit("offset")
	case !validTime(p.Mtime) || !validTime(p.Ctime):
		return unfit("time")
	case !validTemp(p.Temp):
		return unfit("temporary")
	case !validPath(p.Path):
		return unfit("path")
	}
	start := w.begin()
	b := append(w.buf, partialLetter, ' ')
	b = append(strconv.AppendInt(b, p.Offset, 10), ' ')
	b = append(strconv.AppendInt(b, p.Size, 10), ' ')
	b = append(p.Mtime.AppendDecimal(b), ' ')
	b = append(p.Ctime.AppendDecimal(b), ' ')
	b = append(append(b, p.Temp...), ' ')
	b = append(appendStates(b, p.States), ' ')
	w.buf = appendEscaped(b, p.Path)
	return w.end(start, w.sum)
}

// Done records that the partial record of path is not valid any more: the
// temporary was removed or has the file's name.
func (w *Writer) Done(path string) error {
	if w.err != nil {
		return w.err
	}
	if !validPath(path) {
		return unfit("path")
	}
	start := w.begin()
	w.buf = appendEscaped(append(w.buf, doneLetter, ' '), path)
	return w.end(start, w.sum)
}

// Checkpoint records that, at the time at, all files were on the device whose records begin
// before upto. That is an earlier result of Size. The error is ErrUnfit if upto is beyond the
// end of the log, before the last checkpoint, or before Continue.
//
// Read upto and the time before you begin to flush the files to the device.
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
	w.buf = at.AppendDecimal(b)
	err := w.end(start, w.sum)
	if err == nil {
		w.upto = upto
	}
	return err
}

// Size returns the length of the log in bytes, including the buffer: the next line begins
// there.
func (w *Writer) Size() int64 { return w.size + int64(len(w.buf)) }

// Flush writes the buffered records. It does not flush them to the device.
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

// begin reserves space for the checksum of a line, and returns the start of the line.
func (w *Writer) begin() (start int) {
	start = len(w.buf)
	w.buf = append(w.buf, "00000000 "...)
	return start
}

// end completes the line that begins at start. before is the checksum of the text that
// precedes the line's rest.
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
