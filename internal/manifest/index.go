package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// Index finds paths in a manifest that stays on disk. For each entry it keeps 8 bytes, and
// a bit for Meet, so a million entries need 8 MB.
//
// Paths are compared in the spelling of a walk of the tree. The lines "./a" and "b//c", as
// "find . -exec sha256sum" writes them, are found as "a" and "b/c". Paths with ".." and
// absolute ones are compared unchanged.
type Index struct {
	src       io.ReaderAt
	size      int64
	algorithm hash.Algorithm
	open      func(io.Reader) entries // reads the manifest from its beginning
	file      *lookup.File
	entries   []lookup.Entry
	met       []atomic.Uint32 // a bit for each entry, in their order
	malformed int
	asterisks bool      // true if a line has the asterisk of earlier versions; only BuildExactIndex sets it
	again     sync.Pool // a pool of *reread
}

// reread reads entries again, with entries.again.
type reread struct {
	at   func(offset int64) (fields, error)
	path []byte // the path to find
}

// BuildCheckIndex reads the manifest of size bytes in src once. Any program may have
// written it. Every entry that NewReader accepts in format f counts, except that lines of
// other algorithms than a are malformed.
//
// The error is that of reading src. The Index uses src as long as it exists and never
// closes it. The file must not change in the meantime.
func BuildCheckIndex(src io.ReaderAt, size int64, f Format, a hash.Algorithm) (*Index, error) {
	open := func(r io.Reader) entries { return f.read(r, a) }
	return (&Index{src: src, size: size, algorithm: a, open: open}).build(nil)
}

// BuildExactIndex is BuildCheckIndex of a manifest in exactly the form that a Builder
// writes in the usual format of the algorithm; see FormError. A file of size 0 has that form.
func BuildExactIndex(src io.ReaderAt, size int64, a hash.Algorithm) (*Index, error) {
	open := func(r io.Reader) entries { return newOwnLines(r, FormatOf(a), false, a) }
	return (&Index{src: src, size: size, algorithm: a, open: open}).build(nil)
}

// reader reads the manifest from its beginning.
func (ix *Index) reader() *Reader {
	return &Reader{in: ix.open(io.NewSectionReader(ix.src, 0, ix.size))}
}

// build reads the manifest. hash is nil except in tests.
func (ix *Index) build(hash func(path []byte) uint64) (*Index, error) {
	ix.file = lookup.New(ix.src, ix.size, hash)
	r := ix.reader()
	f, err := r.scan()
	for ; err == nil; f, err = r.scan() {
		if !f.isOf(ix.algorithm) {
			if f.listed == nil {
				ix.malformed++
			}
			continue
		}
		if n := len(ix.entries); n == cap(ix.entries) {
			// Space for the expected number of lines: append would discard slices of
			// several times that size, and keep unused space.
			more := int64(n) * (ix.size - f.offset) / max(f.offset, 1)
			ix.entries = slices.Grow(ix.entries, int(more)+n/16+64)
		}
		ix.entries = append(ix.entries, ix.file.Entry(canonical(f.path), f.offset))
	}
	switch {
	case errors.As(err, new(*FormError)):
		return nil, err
	case errors.Is(err, io.EOF) && f.offset != ix.size:
		err = io.ErrUnexpectedEOF
		fallthrough
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("manifest: read for index: %w", err)
	}
	malformed, _ := r.Malformed()
	ix.malformed += malformed
	if exact, ok := r.in.(*exactLines); ok {
		ix.asterisks = exact.asterisks
	}
	ix.again.New = func() any { return &reread{at: r.in.again(ix.file)} }
	slices.Sort(ix.entries)
	ix.met = make([]atomic.Uint32, (len(ix.entries)+31)/32)
	return ix, nil
}

// Len returns the number of well-formed lines, duplicates included.
func (ix *Index) Len() int { return len(ix.entries) }

// Malformed returns the number of lines that were not indexed, without blank lines and
// comments.
func (ix *Index) Malformed() int { return ix.malformed }

// MayList reports whether the manifest has a line for path or cannot be read.
func (ix *Index) MayList(path string) bool {
	listed := false
	err := ix.find(path, func(int, fields) (more bool) {
		listed = true
		return false
	})
	return listed || err != nil
}

// Lookup returns the digest of path in the manifest. It reads the line again and compares
// the path itself, because different paths can have equal hashes. ok is false if path is
// not listed, or has different digests.
//
// The error is that of reading the manifest, or says that it changed since it was indexed.
// The digest belongs to the caller. Several goroutines may call Lookup if they may call the
// ReadAt of the source.
func (ix *Index) Lookup(path string) (digest []byte, ok bool, err error) {
	p, err := ix.Listing(path)
	if err != nil || len(p.Digests) != 1 {
		return nil, false, err
	}
	return p.Digests[0], true, nil
}

// find calls yield for each entry of path, in the order of the file, until it
// returns false. The fields are valid during the call.
func (ix *Index) find(path string, yield func(i int, f fields) (more bool)) (err error) {
	r := ix.again.Get().(*reread)
	defer func() {
		if err == nil { // otherwise the data in memory may be wrong
			ix.again.Put(r)
		}
	}()
	r.path = append(r.path[:0], path...)
	first, end := ix.file.Find(ix.entries, r.path)
	for i := first; i < end; i++ {
		offset := ix.file.Offset(ix.entries[i])
		f, err := r.at(offset)
		if errors.Is(err, errMalformed) || errors.Is(err, errNothing) || err == nil && !f.isOf(ix.algorithm) {
			return changedAt(offset)
		}
		if err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		if bytes.Equal(canonical(f.path), r.path) && !yield(i, f) {
			return nil
		}
	}
	return nil
}

func changedAt(offset int64) error {
	return fmt.Errorf("manifest: line at offset %d changed since it was indexed", offset)
}

// canonical changes path, in place, to the spelling of a walk: without "." elements and
// doubled slashes. It does not change absolute paths, ".." elements, and paths that end in
// "/" or "/.", which name no file.
func canonical(path []byte) []byte {
	if len(path) == 0 || path[0] == '/' ||
		!bytes.HasPrefix(path, []byte("./")) && !bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/./")) {
		return path
	}
	if last := path[bytes.LastIndexByte(path, '/')+1:]; len(last) == 0 || string(last) == "." {
		return path
	}
	out := path[:0]
	for element := range bytes.SplitSeq(path, []byte("/")) {
		if len(element) == 0 || string(element) == "." {
			continue
		}
		if len(out) > 0 {
			out = append(out, '/')
		}
		out = append(out, element...)
	}
	return out
}
