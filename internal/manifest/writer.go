package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	// DefaultMemory is the memory of a Builder before it spills, in bytes. It is enough for
	// about 120,000 files with paths of 80 bytes, so most trees need no temporary file.
	DefaultMemory = 16 << 20

	// ioBuffer is the size of the buffer before the result, in bytes.
	ioBuffer = 64 << 10
)

// Builder collects the entries of manifests in any order and writes them sorted by the raw
// bytes of the unescaped path. Its memory does not depend on their number. One goroutine
// uses it.
//
// For each path, the last Put or Drop counts. If there is none, Write can keep the line of
// a previous manifest.
//
// An error of the spill is returned by the call that causes it and by all later ones,
// because a manifest that lost records must not be written.
type Builder struct {
	// Named means that paths are spelled as users name files: "./a" and "/b" are valid and
	// "-" is standard input. Otherwise paths are those of a tree, and the file "-" is
	// written as "./-". The caller sets it before the first Put.
	Named bool

	hashes  []hash.Algorithm
	sorter  *extsort.Sorter
	value   []byte       // value of the record that is being added
	digests hash.Digests // digests of the entry that is being written
}

// NewBuilder returns an empty Builder for entries with digests of the hashes. When its
// records exceed memoryLimit bytes, it sorts them and writes them to a file from newSpill.
// It calls newSpill at most once, and never for small trees. A memoryLimit of 0 means
// DefaultMemory. The caller must Close the Builder.
func NewBuilder(hashes []hash.Algorithm, newSpill func() (extsort.Spill, error), memoryLimit int) *Builder {
	if memoryLimit <= 0 {
		memoryLimit = DefaultMemory
	}
	return &Builder{hashes: hashes, sorter: extsort.New(newSpill, memoryLimit)}
}

// Put adds an entry. The error is that of the spill. It is also an error if the path is
// empty, contains a NUL or is longer than 512 MiB, or if a digest has the wrong length.
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

// Drop removes path from the manifest, also if a previous manifest lists it. A later Put of
// the same path overrides it. The error is that of the spill.
func (b *Builder) Drop(path string) error {
	if len(path) > maxPath {
		return nil
	}
	return b.add(drop, Entry{Path: path})
}

// Document says what Write writes. The functions may be nil. Write calls them in the order
// of the paths, and they must not call methods of the Builder.
type Document struct {
	Format Format           // format to write; nil for the usual one of the first hash
	Hashes []hash.Algorithm // hashes to write, some of the Builder's; nil for all
	Zero   bool             // Sums: end lines with NUL bytes and do not escape names
	Prefix string           // text before each path of the Builder; only without Previous

	// Previous has, for each hash, its lines of a previous manifest in the form of Sums,
	// checked by BuildExactIndex or ExactBlocks. It is nil if there are none.
	Previous []io.ReadSeeker
	// Index is that of the only Previous. Lines for which Stay was called are kept without a
	// call of Keep. It may be nil.
	Index *Index
	// Keep is called for each line of Previous whose path has no Put or Drop. It returns
	// the digest to write, or nil to drop the line. If it is nil, all lines are kept.
	Keep func(path string, digest []byte) ([]byte, error)
	// Omit reports whether a path gets no line, whatever the records contain.
	Omit func(path string) bool
}

// Counts has the numbers of a Write.
type Counts struct {
	Lines   int // number of written lines
	Dropped int // lines of the previous manifest whose paths have none now, without omitted ones
}

// Write writes a manifest, sorted. Write may be called again, also after further Puts.
//
// A file named "-" at the root is written as "./-", because "sha256sum -c" reads "-" as its
// standard input. The error is that of w, of the spill, of reading the previous manifest,
// or of the document's functions. After an error, the output is incomplete.
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

// document is the content that a Format writes.
type document struct {
	Document
	builder *Builder
	counts  Counts
}

// each calls yield for the entries, sorted by the raw bytes of their paths: those of the
// Builder, and those of Previous for hash i that are kept. So the entries below a directory
// are consecutive. It may be called again. The digests are valid during the call of yield.
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
		if d.Keep != nil && !d.Index.stays(before.path, before.offset) {
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

// listedName returns the name of path in a line: see Write about "-".
func listedName[P string | []byte](path P, named bool) P {
	if len(path) == 1 && path[0] == '-' && !named {
		return P("./-")
	}
	return path
}

// pathOf returns the path for the name in a line or from a caller: the opposite of
// listedName.
func pathOf[P string | []byte](name P, named bool) P {
	if len(name) == 3 && string(name) == "./-" && !named {
		return name[2:]
	}
	return name
}

// previousLines reads a previous manifest one line ahead.
type previousLines struct {
	in           *exactLines // the lines; nil without a previous manifest
	ok           bool        // true if path, digest and offset are those of a line
	path, digest []byte
	offset       int64
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
	p.path, p.digest, p.offset, p.ok = append(p.path[:0], f.path...), append(p.digest[:0], f.digest...), f.offset, true
	return nil
}

// Each calls yield for the entries that have a Put, in the order of Write and in the same
// time. The digests are valid during the call. Each may be called before further Puts,
// Drops and Writes. But yield must not call methods of the Builder: they fail, and so do
// all later calls.
//
// The error is the first one of yield, unchanged, or that of the spill.
func (b *Builder) Each(yield func(Entry) error) error {
	return b.each(func(rec record) error {
		if rec.kind != put {
			return nil
		}
		return yield(b.entry(rec, b.hashes))
	})
}

// Close closes the spill and returns its error. The Builder cannot be used afterwards;
// closing it again has no effect.
func (b *Builder) Close() error { return b.sorter.Close() }
