package manifest

import (
	"bufio"
	"bytes"
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
// About each path the last Put or Drop counts. Where there is none, the line
// of a previous manifest is kept.
//
// An error of the spill is returned by the call that meets it and by all later
// ones: a manifest that lost records must not be written.
type Builder struct {
	// Style is that of the lines that Write writes.
	Style Style
	// Dash says that the path "-" is standard input, which is written as it is.
	Dash bool

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
	ignored int
	reading bool  // Write or Each is at work
	err     error // sticky
}

// run is a sorted sequence of records in the spill, from start up to end,
// with at most one record for each path. Later runs hold later records.
type run struct{ start, end int64 }

var (
	errClosed  = errors.New("manifest: builder is closed")
	errReading = errors.New("manifest: builder is used by what its own method calls")
)

// NewBuilder returns an empty Builder for digests of an algorithm. Its lines are tagged
// from the start if the algorithm needs that. When
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
	b := &Builder{
		algorithm:  a,
		digestSize: a.Size(),
		newSpill:   newSpill,
		maxBytes:   min(memoryLimit-memoryLimit/8, maxArena),
		maxRecords: max(memoryLimit/8/4, 1),
	}
	if a.NeedsTag() {
		b.Style.Tag = a.Tags()[0]
	}
	return b
}

// Put states that the file stands and has this digest. The error is that of
// the spill, or says that the path is empty, holds a NUL or is longer than
// 1 GiB, or that the digest has the wrong length.
func (b *Builder) Put(path string, digest []byte) error {
	if len(digest) != b.digestSize {
		return fmt.Errorf("manifest: digest of %d bytes, want %d", len(digest), b.digestSize)
	}
	if path == "" || len(path) > maxPath || strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("manifest: %.100q cannot be listed", path)
	}
	return add(b, put, path, digest)
}

// Drop states that path gets no line, whatever a previous manifest says. A
// later Put of the same path overrides it. The error is that of the spill.
func (b *Builder) Drop(path string) error {
	if len(path) > maxPath {
		return nil
	}
	return add(b, drop, path, nil)
}

// Previous takes over the lines of a previous manifest, in any order, for all
// paths that no Put or Drop names, be it earlier or later. Paths are spelled
// as in Index, so that a stale "./a" does not survive the Put of "a". A path
// that is listed with different digests, here or in another previous manifest,
// gets no line.
//
// Malformed lines are passed over, and so are lines of another algorithm; Ignored
// counts them. The error is that of r or of the spill.
func (b *Builder) Previous(r io.Reader) error {
	in := NewReader(r, b.algorithm)
	for {
		f, err := in.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("manifest: read previous manifest: %w", err)
		}
		if !f.isOf(b.algorithm) {
			in.reject()
			continue
		}
		k := previous
		if f.binary {
			k = unproven
		}
		if err := add(b, k, canonical(f.path), f.digest); err != nil {
			return err
		}
	}
	malformed, _ := in.Malformed()
	b.ignored += malformed
	return nil
}

// Ignored returns how many lines of previous manifests were not taken over
// because they were malformed or not of this kind.
func (b *Builder) Ignored() int { return b.ignored }

// Write writes the manifest in Style, sorted, and returns the number of its
// lines. Paths for which omit reports true are left out. Write may be called
// again, also after further Puts.
//
// A line that is taken over from a previous manifest is older than the manifest
// that now holds it, and the file may have changed in between. proven is asked
// about each; where it reports false, the line gets the mark of binary mode,
// "hex *name", which means nothing to "sha256sum -c" but tells Index, for good,
// that it vouches for nothing. There is no such mark in BSD's form, so that these
// lines are never tagged. omit and proven may be nil: nothing is omitted, and
// everything proven. proven is asked in the order of the lines. They must not call
// methods of the Builder.
//
// A file named "-" at the root is written as "./-", because "sha256sum -c"
// takes "-" for its standard input. The error is that of w or of the spill;
// what was written by then is no manifest.
func (b *Builder) Write(w io.Writer, omit, proven func(path string) bool) (lines int, err error) {
	out := bufio.NewWriterSize(w, ioBuffer)
	var line []byte
	err = b.each(func(rec record) error {
		if rec.kind == drop || rec.kind == disputed || omit != nil && omit(string(rec.path)) {
			return nil
		}
		path, style := rec.path, b.Style
		if string(path) == "-" && !b.Dash {
			path = []byte("./-")
		}
		marked := rec.kind == unproven || rec.kind == previous && proven != nil && !proven(string(rec.path))
		if marked {
			style.Tag = ""
		}
		line = appendStyled(style, b.algorithm, line[:0], rec.digest, path)
		if marked {
			line[bytes.IndexByte(line, ' ')+1] = '*'
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
		lines++
		return nil
	})
	if err != nil {
		return lines, err
	}
	return lines, out.Flush()
}

// Each calls yield for the paths that Write would write because of a Put, not
// for those of previous manifests, in the order of Write and at the same cost. The
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

// each calls yield for the record that stands for each path, in order. The
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
