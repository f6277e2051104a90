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

// Spill is the temporary file of a Builder, which writes it from its beginning. Close must
// remove it.
type Spill interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Builder collects the entries of manifests in any order and writes them sorted
// by the raw bytes of the unescaped path, in memory that does not depend on
// their number. It is used from one goroutine.
//
// About each path the last Put or Drop counts. Where there is none, Write can keep
// the line of a previous manifest.
//
// An error of the spill is returned by the call that meets it and by all later
// ones: a manifest that lost records must not be written.
type Builder struct {
	// Named says that paths are spelled as users name files: "./a" and "/b" are valid
	// and "-" is standard input. Otherwise paths are those of a tree, and the file "-"
	// is written as "./-". It is set before the first Put.
	Named bool

	hashes     []hash.Algorithm
	restSize   int // bytes of a record after the path
	newSpill   func() (Spill, error)
	digests    hash.Digests // of the entry that is being written
	arena      []byte       // records, one after the other
	offsets    []uint32     // of the records; in the order of arrival, or sorted
	maxBytes   int          // of arena
	maxRecords int          // of offsets

	spill   Spill // nil until the arena was full once
	spilled int64 // bytes
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

// NewBuilder returns an empty Builder for entries with digests of the hashes. When
// its records exceed memoryLimit bytes they are sorted and written to a file
// from newSpill, which is called at most once, and not for small trees. A
// memoryLimit of 0 means DefaultMemory. Writing takes up to about 2 MiB more, and
// 4 KiB for each run beyond 512. The caller must Close the Builder.
func NewBuilder(hashes []hash.Algorithm, newSpill func() (Spill, error), memoryLimit int) *Builder {
	if memoryLimit <= 0 {
		memoryLimit = DefaultMemory
	}
	// Offsets get an eighth; records are longer than 32 bytes, so that the
	// arena is full first in all but odd cases.
	b := &Builder{
		hashes:     hashes,
		restSize:   fixedRest,
		newSpill:   newSpill,
		maxBytes:   min(memoryLimit-memoryLimit/8, maxArena),
		maxRecords: max(memoryLimit/8/4, 1),
	}
	for _, a := range hashes {
		b.restSize += a.Size()
	}
	return b
}

// Put states what is to be listed. The error is that of the spill, or says that the path
// is empty, holds a NUL or is longer than 512 MiB, or that a digest has the wrong length.
func (b *Builder) Put(e Entry) error {
	if len(e.Digests) != len(b.hashes) {
		return fmt.Errorf("manifest: %d digests, want %d", len(e.Digests), len(b.hashes))
	}
	for i, a := range b.hashes {
		if len(e.Digests[i]) != a.Size() {
			return fmt.Errorf("manifest: digest of %d bytes, want %d", len(e.Digests[i]), a.Size())
		}
	}
	if e.Path == "" || len(e.Path) > maxPath || strings.IndexByte(e.Path, 0) >= 0 {
		return fmt.Errorf("manifest: %.100q cannot be listed", e.Path)
	}
	return b.add(put, e)
}

// Drop states that path gets no line, whatever a previous manifest says. A
// later Put of the same path overrides it. The error is that of the spill.
func (b *Builder) Drop(path string) error {
	if len(path) > maxPath {
		return nil
	}
	return b.add(drop, Entry{Path: path})
}

// Document says what Write writes. The functions may be nil, are called in the order of
// the paths, and must not call methods of the Builder.
type Document struct {
	Format Format           // nil: the usual one of the first hash
	Hashes []hash.Algorithm // some of the Builder's; nil: all
	Zero   bool             // for Sums: end lines with NUL bytes and do not escape names
	Prefix string           // precedes each path of the Builder; only without Previous

	// Previous has, for each hash, its lines of a manifest in the form in which Sums are
	// written, which BuildOwnIndex or OwnBlocks has checked; nil if there are none.
	Previous []io.ReadSeeker
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

// Write writes a manifest, sorted. Write may be called again, also after further Puts.
//
// A file named "-" at the root is written as "./-", because "sha256sum -c"
// takes "-" for its standard input. The error is that of w, of the spill, of reading
// the previous manifest, or of the document's functions; what was written by then is no
// manifest.
func (b *Builder) Write(w io.Writer, doc Document) (Counts, error) {
	d := &document{Document: doc, builder: b}
	if d.Hashes == nil {
		d.Hashes = b.hashes
	}
	if d.Format == nil {
		d.Format = FormatOf(d.Hashes[0])
	}
	out := bufio.NewWriterSize(w, ioBuffer)
	if err := d.Format.write(out, d); err != nil {
		return d.counts, err
	}
	return d.counts, out.Flush()
}

// document is what a Format writes.
type document struct {
	Document
	builder *Builder
	counts  Counts
}

// each calls yield for the entries, sorted by the raw bytes of their paths: those of the
// Builder, and those of Previous for hash i that are kept. So everything below a directory
// is together. It may be called again. The digests are valid during the call of yield.
func (d *document) each(i int, yield func(Entry) error) error {
	var before previousLines
	if i < len(d.Previous) && d.Previous[i] != nil {
		if _, err := d.Previous[i].Seek(0, io.SeekStart); err != nil {
			return err
		}
		format, _ := d.Format.(Sums)
		before.in = newOwnLines(d.Previous[i], format, d.builder.Named, d.Hashes[i])
	}
	write := func(e Entry) error {
		if d.omits(e.Path) {
			return nil
		}
		d.counts.Lines++
		e.Path = d.Prefix + e.Path
		return yield(e)
	}
	keep := func() error {
		e := Entry{Path: string(before.path), Digests: make(hash.Digests, len(d.Hashes))}
		e.Digests[i] = before.digest
		if d.Keep != nil {
			var err error
			if e.Digests[i], err = d.Keep(e.Path, before.digest); err != nil {
				return err
			}
		}
		if e.Digests[i] == nil {
			d.drop(e.Path)
			return nil
		}
		return write(e)
	}
	if err := before.next(); err != nil {
		return err
	}
	err := d.builder.each(func(rec record) error {
		for before.ok && bytes.Compare(before.path, rec.path) < 0 {
			if err := cmp.Or(keep(), before.next()); err != nil {
				return err
			}
		}
		listed := before.ok && bytes.Equal(before.path, rec.path)
		if listed {
			if err := before.next(); err != nil {
				return err
			}
		}
		if rec.kind == put {
			return write(d.builder.entry(rec, d.Hashes))
		}
		if listed {
			d.drop(string(rec.path))
		}
		return nil
	})
	for err == nil && before.ok {
		err = cmp.Or(keep(), before.next())
	}
	return err
}

func (d *document) omits(path string) bool { return d.Omit != nil && d.Omit(path) }

// drop counts a line of the previous manifest that is not kept.
func (d *document) drop(path string) {
	if !d.omits(path) {
		d.counts.Dropped++
	}
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
	in           *ownLines // nil without one
	ok           bool      // path and digest are those of a line
	path, digest []byte
}

func (p *previousLines) next() error {
	p.ok = false
	if p.in == nil {
		return nil
	}
	f, err := p.in.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if errors.As(err, new(*FormError)) {
		err = fmt.Errorf("it changed since it was indexed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("manifest: read previous manifest: %w", err)
	}
	p.path, p.digest, p.ok = append(p.path[:0], f.path...), append(p.digest[:0], f.digest...), true
	return nil
}

// Each calls yield for the entries that have a Put, in the order of Write and at the same cost. The
// digests are valid during the call. Each may be called before further Puts, Drops
// and Writes, but yield must not call methods of the Builder: they fail, and so
// does everything after them.
//
// The error is the first one of yield, as it is, or that of the spill.
func (b *Builder) Each(yield func(Entry) error) error {
	return b.each(func(rec record) error {
		if rec.kind != put {
			return nil
		}
		return yield(b.entry(rec, b.hashes))
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
