package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	// DefaultMemory is how much a Builder keeps in memory before it spills,
	// in bytes: about 120,000 files with paths of 80 bytes, so that most
	// trees never touch a temporary file.
	DefaultMemory = 16 << 20

	// ioBuffer is the size of the buffers before the spill and the result,
	// in bytes.
	ioBuffer = 64 << 10
)

// Spill is the temporary file of a Builder. Close must remove it.
type Spill interface {
	io.ReadWriteSeeker
	io.Closer
}

// Builder collects the lines of a manifest in any order and writes them sorted
// by the raw bytes of the unescaped path, in memory that does not depend on
// their number. It is used from one goroutine.
//
// About each path the last Put or Drop counts. Where there is none, Write can keep
// the line of a previous manifest.
//
// An error of the spill is returned by the call that meets it and by all later
// ones: a manifest that lost records must not be written.
type Builder struct {
	// Style is that of the lines that Write writes.
	Style Style
	// Named says that paths are spelled as users name files: "./a" and "/b" are valid
	// and "-" is standard input. Otherwise paths are those of a tree, and the file "-"
	// is written as "./-". It is set before the first Put.
	Named bool

	algorithm  hash.Algorithm
	digestSize int
	newSpill   func() (Spill, error)
	arena      []byte   // records, one after the other
	offsets    []uint32 // of the records; in the order of arrival, or sorted
	maxBytes   int      // of arena
	maxRecords int      // of offsets

	spill   Spill // nil until the arena was full once
	runs    []run
	out     *bufio.Writer // to spill
	reading bool          // Write or Each is at work
	err     error         // sticky
}

// run is a sorted sequence of records in the spill, from start up to end,
// with at most one record for each path. Later runs hold later records.
type run struct{ start, end int64 }

var (
	errClosed  = errors.New("manifest: builder is closed")
	errReading = errors.New("manifest: builder is used by what its own method calls")
)

// NewBuilder returns an empty Builder for digests of an algorithm, with the Style of the
// algorithm: its lines are tagged if the algorithm needs that. When
// its records exceed memoryLimit bytes they are sorted and written to a file
// from newSpill, which is called at most once, and not for small trees. A
// memoryLimit of 0 means DefaultMemory. Writing takes up to about 2 MiB more, and
// 4 KiB for each run beyond 512. The caller must Close the Builder.
func NewBuilder(a hash.Algorithm, newSpill func() (Spill, error), memoryLimit int) *Builder {
	if memoryLimit <= 0 {
		memoryLimit = DefaultMemory
	}
	// Offsets get an eighth; records are longer than 32 bytes, so that the
	// arena is full first in all but odd cases.
	return &Builder{
		Style:      styleOf(a),
		algorithm:  a,
		digestSize: a.Size(),
		newSpill:   newSpill,
		maxBytes:   min(memoryLimit-memoryLimit/8, maxArena),
		maxRecords: max(memoryLimit/8/4, 1),
	}
}

// Put states that the file exists and has this digest. The error is that of
// the spill, or says that the path is empty, holds a NUL or is longer than
// 1 GiB, or that the digest has the wrong length.
func (b *Builder) Put(path string, digest []byte) error {
	if len(digest) != b.digestSize {
		return fmt.Errorf("manifest: digest of %d bytes, want %d", len(digest), b.digestSize)
	}
	if path == "" || len(path) > maxPath || strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("manifest: %.100q cannot be listed", path)
	}
	return add(b, put, pathOf(path, b.Named), digest)
}

// Drop states that path gets no line, whatever a previous manifest says. A
// later Put of the same path overrides it. The error is that of the spill.
func (b *Builder) Drop(path string) error {
	if len(path) > maxPath {
		return nil
	}
	return add(b, drop, pathOf(path, b.Named), nil)
}

// Carry says which lines Write takes over from a previous manifest and which paths it
// leaves out. The functions may be nil, are called in the order of the lines, and must
// not call methods of the Builder.
type Carry struct {
	// Previous is a manifest in the form that the Builder writes, which BuildOwnIndex
	// or OwnBlocks has checked; nil if there is none.
	Previous io.Reader
	// Keep is asked about each line of Previous for a path that no Put or Drop names.
	// It returns the digest to write, nil to drop the line. Without it all are kept.
	Keep func(path string, digest []byte) ([]byte, error)
	// Omit reports the paths that get no line, whatever the records say.
	Omit func(path string) bool
}

// Counts is what Write has done.
type Counts struct {
	Lines   int // written
	Dropped int // lines of the previous manifest for paths that have none any more, those omitted aside
}

// Write writes the manifest in Style, sorted. Write may be called again, also after
// further Puts.
//
// A file named "-" at the root is written as "./-", because "sha256sum -c"
// takes "-" for its standard input. The error is that of w, of the spill, of reading
// the previous manifest, or of c's functions; what was written by then is no manifest.
func (b *Builder) Write(w io.Writer, c Carry) (n Counts, err error) {
	out := bufio.NewWriterSize(w, ioBuffer)
	var line []byte
	omits := func(path []byte) bool { return c.Omit != nil && c.Omit(string(path)) }
	write := func(path, digest []byte) error {
		if omits(path) {
			return nil
		}
		line = appendStyled(b.Style, b.algorithm, line[:0], digest, listedName(path, b.Named))
		n.Lines++
		_, err := out.Write(line)
		return err
	}
	before := &previousLines{algorithm: b.algorithm, named: b.Named}
	if c.Previous != nil {
		before.in = NewReader(c.Previous, b.algorithm)
		before.in.strict = true
	}
	keep := func() error {
		digest := before.digest
		if c.Keep != nil {
			var err error
			if digest, err = c.Keep(string(before.path), digest); err != nil {
				return err
			}
		}
		if digest != nil {
			return write(before.path, digest)
		}
		if !omits(before.path) {
			n.Dropped++
		}
		return nil
	}
	if err := before.next(); err != nil {
		return n, err
	}
	err = b.each(func(rec record) error {
		for before.ok && bytes.Compare(before.path, rec.path) < 0 {
			if err := cmp.Or(keep(), before.next()); err != nil {
				return err
			}
		}
		if before.ok && bytes.Equal(before.path, rec.path) {
			if rec.kind == drop && !omits(rec.path) {
				n.Dropped++
			}
			if err := before.next(); err != nil {
				return err
			}
		}
		if rec.kind == drop {
			return nil
		}
		return write(rec.path, rec.digest)
	})
	for err == nil && before.ok {
		err = cmp.Or(keep(), before.next())
	}
	if err != nil {
		return n, err
	}
	return n, out.Flush()
}

// listedName is how a line names path: see Write about "-".
func listedName[P string | []byte](path P, named bool) P {
	if len(path) == 1 && path[0] == '-' && !named {
		return P("./-")
	}
	return path
}

// pathOf is the path that a line or a caller names: the opposite of listedName.
func pathOf[P string | []byte](name P, named bool) P {
	if len(name) == 3 && string(name) == "./-" && !named {
		return name[2:]
	}
	return name
}

// previousLines reads a previous manifest one line ahead.
type previousLines struct {
	in           *Reader // nil without one
	algorithm    hash.Algorithm
	named        bool // as Builder.Named
	ok           bool // path and digest are those of a line
	path, digest []byte
}

func (p *previousLines) next() error {
	p.ok = false
	if p.in == nil {
		return nil
	}
	f, err := p.in.scan()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && !f.isOf(p.algorithm) {
		err = errors.New("it changed since it was indexed")
	}
	if err != nil {
		return fmt.Errorf("manifest: read previous manifest: %w", err)
	}
	path := pathOf(f.path, p.named)
	if p.path != nil && bytes.Compare(p.path, path) >= 0 {
		return errors.New("manifest: read previous manifest: it changed since it was indexed")
	}
	p.path, p.digest, p.ok = append(p.path[:0], path...), append(p.digest[:0], f.digest...), true
	return nil
}

// Each calls yield for the paths that have a Put, in the order of Write and at the same cost. The
// digest is valid during the call. Each may be called before further Puts, Drops
// and Writes, but yield must not call methods of the Builder: they fail, and so
// does everything after them.
//
// The error is the first one of yield, as it is, or that of the spill.
func (b *Builder) Each(yield func(path string, digest []byte) error) error {
	return b.each(func(rec record) error {
		if rec.kind != put {
			return nil
		}
		return yield(string(rec.path), rec.digest)
	})
}

// each calls yield for the newest record of each path, in order. The
// record is valid during the call. The error is that of yield or of the spill.
func (b *Builder) each(yield func(record) error) error {
	if b.err == nil && b.reading {
		b.err = errReading
	}
	if b.err != nil {
		return b.err
	}
	b.reading = true
	defer func() { b.reading = false }()
	m, err := b.merge()
	if err != nil {
		b.err = err
		return err
	}
	for {
		rec, err := m.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			b.err = err
			return err
		}
		if err := yield(rec); err != nil {
			return err
		}
		if b.err != nil { // yield has called a method; what is being read is gone
			return b.err
		}
	}
}

// Close closes the spill and returns the error of that. The Builder is of no
// further use; closing it again does nothing.
func (b *Builder) Close() error {
	spill := b.spill
	b.spill, b.arena, b.offsets, b.runs, b.out = nil, nil, nil, nil, nil
	if b.err == nil {
		b.err = errClosed
	}
	if spill == nil {
		return nil
	}
	return spill.Close()
}
