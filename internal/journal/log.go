package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

const (
	// Limits of the valid partials. A run has one for each large file in progress. A log with
	// more is not from Sealift.
	maxPartials     = 1 << 16
	maxPartialBytes = 64 << 20 // bytes of the lines of partials
)

// ErrDamaged means that a log has no valid header, so nothing in it can be used.
var ErrDamaged = errors.New("journal is damaged")

// Log has the valid records of a log: those before the first line that cannot be trusted. For
// each file record it keeps 8 bytes in memory, so a million need 8 MB; the lines stay on disk.
// Several goroutines may call its methods if they may call ReadAt of the source.
type Log struct {
	Header Header
	Size   int64 // length of the valid part in bytes, where a Writer continues
	Why    error // why the line after the valid part is not valid; nil if none follows

	lines       *lookup.File
	entries     []lookup.Entry     // file records that a checkpoint covers; paths are escaped
	covered     int                // number of entries that a checkpoint covers, while the log is read
	upto        int64              // upto of the last checkpoint
	checkpoints []checkpoint       // checkpoints that cover more than the ones before
	runs        []run              // runs by start; the first is the header's
	partials    map[string]partial // the valid partial records, by path
	held        int                // bytes of the lines of partials
	scratch     sync.Pool          // a pool of *buffers
}

// checkpoint covers the lines that begin before upto.
type checkpoint struct {
	upto int64
	at   fsys.Time
}

// run has the beginning of the checksums of all lines from start on.
type run struct {
	start int64
	sum   uint32
}

type partial struct {
	Partial
	held int // length of its line in bytes
}

// Read reads a log of size bytes from its beginning up to the first line that is torn,
// damaged, or out of place. The error is ErrDamaged if that is the header, otherwise the error
// of r. The Log uses r as long as it exists, and never closes it. The valid part must not
// change in the meantime.
func Read(r io.ReaderAt, size int64) (*Log, error) { return read(r, size, nil) }

func read(r io.ReaderAt, size int64, hash func([]byte) uint64) (*Log, error) {
	l := &Log{lines: lookup.New(r, size, hash), partials: map[string]partial{}}
	l.scratch.New = func() any { return &buffers{} }
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), int(min(size+1, maxLine)))
	for l.Size < size && l.Why == nil {
		line, err := in.ReadSlice('\n')
		switch ended := errors.Is(err, io.EOF); {
		case errors.Is(err, bufio.ErrBufferFull):
			l.Why = errors.New("line is too long")
		case ended && l.Size+int64(len(line)) < size:
			return nil, fmt.Errorf("cannot read: %w", io.ErrUnexpectedEOF)
		case err != nil && !ended:
			return nil, fmt.Errorf("cannot read: %w", err)
		case ended:
			l.Why = errors.New("line has no end")
		default:
			if l.Why = l.take(line[:len(line)-1]); l.Why == nil {
				l.Size += int64(len(line))
			}
		}
	}
	if l.Size == 0 {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, cmp.Or(l.Why, errors.New("it is empty")))
	}
	if l.Why != nil {
		l.Why = fmt.Errorf("at byte %d: %w", l.Size, l.Why)
	}
	l.dropUncovered()
	l.lines.Cut(l.Size)
	slices.Sort(l.entries)
	return l, nil
}

// take records the line at l.Size, without its LF. If the line is not valid, take changes
// nothing, and the error says why.
func (l *Log) take(line []byte) error {
	if l.Size == 0 {
		return l.takeHeader(line)
	}
	f, err := l.parse(line, l.Size)
	if err != nil {
		return err
	}
	switch f.letter {
	case fileLetter:
		l.entries = append(l.entries, l.lines.Entry(f.path, l.Size))
	case partialLetter:
		return l.takePartial(f, len(line))
	case doneLetter:
		path, _ := unescape(f.path)
		l.drop(path)
	case checkpointLetter:
		if f.offset > l.Size || f.offset < l.upto {
			return errors.New("checkpoint out of range")
		}
		l.upto = f.offset
		before := l.covered
		for l.covered < len(l.entries) && l.lines.Offset(l.entries[l.covered]) < f.offset {
			l.covered++
		}
		if l.covered > before {
			l.checkpoints = append(l.checkpoints, checkpoint{f.offset, f.time})
		}
	case runLetter:
		l.dropUncovered()
		l.runs = append(l.runs, run{l.Size + int64(len(line)) + 1, checksum(string(f.id))})
	}
	return nil
}

// dropUncovered drops the file records that no checkpoint covers, or ever will.
func (l *Log) dropUncovered() { l.entries = l.entries[:l.covered] }

func (l *Log) takeHeader(line []byte) error {
	sum, rest, err := cutSum(line)
	if err != nil {
		return err
	}
	if sum != crc32.Checksum(rest, castagnoli) {
		return errWrongSum
	}
	if l.Header, err = parseHeader(rest); err != nil {
		return err
	}
	l.runs = []run{{0, checksum(l.Header.ID)}}
	return nil
}

// parse splits the line at offset, without its LF, and compares its checksum.
func (l *Log) parse(line []byte, offset int64) (fields, error) {
	sum, rest, err := cutSum(line)
	if err != nil {
		return fields{}, err
	}
	i, _ := slices.BinarySearchFunc(l.runs, offset+1, func(r run, end int64) int { return cmp.Compare(r.start, end) })
	before := l.runs[i-1].sum // the last run that starts at offset or before
	if bytes.HasPrefix(rest, []byte{runLetter, ' '}) {
		before = l.runs[0].sum
	}
	if sum != crc32.Update(before, castagnoli, rest) {
		return fields{}, errWrongSum
	}
	return parse(rest)
}

func (l *Log) takePartial(f fields, length int) error {
	states, err := decodeStates(f.list)
	if err != nil {
		return err
	}
	path, _ := unescape(f.path)
	earlier, known := l.partials[path]
	if !known && len(l.partials) >= maxPartials || l.held-earlier.held+length > maxPartialBytes {
		return errors.New("too many partials")
	}
	l.held += length - earlier.held
	l.partials[path] = partial{Partial{
		Path: path, Temp: string(f.temp), Offset: f.offset, Size: f.size,
		Mtime: f.mtime, Ctime: f.ctime, States: states,
	}, length}
	return nil
}

func (l *Log) drop(path string) {
	l.held -= l.partials[path].held
	delete(l.partials, path)
}

// Files returns the number of file records that a checkpoint covers. Earlier records of the
// same path count, too.
func (l *Log) Files() int64 { return int64(len(l.entries)) }

// Partial returns the valid partial record of path. The caller must not change its States.
func (l *Log) Partial(path string) (Partial, bool) {
	p, ok := l.partials[path]
	return p.Partial, ok
}

// Partials yields all valid partial records, in no order. The caller must not change their States.
func (l *Log) Partials() iter.Seq[Partial] {
	return func(yield func(Partial) bool) {
		for p := range maps.Values(l.partials) {
			if !yield(p.Partial) {
				return
			}
		}
	}
}

// File returns the last file record of path that a checkpoint covers, and the
// time of the first checkpoint that does. It reads the line again and compares
// the path itself; equal hashes alone prove nothing.
//
// The file may have been replaced since, also by Sealift: a later record that
// no checkpoint covers does not count. So if the change time of the file is after at, the
// record may not describe it.
//
// The error is that of reading the log, or says that it changed since it was read.
func (l *Log) File(path string) (f File, at fsys.Time, ok bool, err error) {
	b := l.scratch.Get().(*buffers)
	defer l.scratch.Put(b)
	b.path = appendEscaped(b.path[:0], path)
	first, end := l.lines.Find(l.entries, b.path)
	for _, e := range slices.Backward(l.entries[first:end]) {
		offset := l.lines.Offset(e)
		found, err := b.read(l, offset)
		if err != nil {
			return File{}, at, false, err
		}
		if !bytes.Equal(found.path, b.path) {
			continue
		}
		digests, err := decodeDigests(found.list)
		if err != nil {
			return File{}, at, false, changedAt(offset)
		}
		c, _ := slices.BinarySearchFunc(l.checkpoints, offset+1, func(c checkpoint, end int64) int { return cmp.Compare(c.upto, end) })
		return File{Path: path, Size: found.size, Mtime: found.mtime, Ctime: found.ctime, Digests: digests}, l.checkpoints[c].at, true, nil
	}
	return File{}, at, false, nil
}

// buffers are the buffers of one call.
type buffers struct{ path, line []byte }

// read returns the fields of the file line at offset.
func (b *buffers) read(l *Log, offset int64) (fields, error) {
	var err error
	if b.line, err = l.lines.ReadLine(b.line, offset, maxLine); err != nil {
		return fields{}, err
	}
	f, err := l.parse(b.line, offset)
	if err != nil || f.letter != fileLetter {
		return fields{}, changedAt(offset)
	}
	return f, nil
}

func changedAt(offset int64) error {
	return fmt.Errorf("line at byte %d changed since it was read", offset)
}
