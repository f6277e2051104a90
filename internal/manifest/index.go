package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// firstRead is how much of a line Lookup asks for at first, in bytes; most
// lines are shorter than 200.
const firstRead = 512

// Index finds paths in a manifest that stays on disk. Of each line it keeps 8 bytes,
// which hold its offset and as much of a hash of the path as there is room for, and
// a bit for Meet, so that a million lines take 8 MB.
//
// Paths are compared as a walk of the tree spells them: "./a" and "b//c" of
// the file, as "find . -exec sha256sum" writes them, are found as "a" and
// "b/c". Paths with ".." and absolute ones are compared as they are.
type Index struct {
	src       io.ReaderAt
	size      int64
	algorithm hash.Algorithm
	hash      func([]byte) uint64
	entries   []entry         // by hash, then offset
	offBits   int             // of an entry, for the offset
	met       []atomic.Uint32 // a bit for each entry, in their order
	malformed int
	scratch   sync.Pool // of *lookup
	format    Format    // of lines of any origin
	form      *ownForm  // not nil: every line must have the form that Builder writes
}

// entry is the highest bits of a path's hash, above the offset of its line. A manifest
// of a million lines leaves 37 bits or so to the hash, so that a path which is not
// listed costs the reading of a line once in 100,000 times.
type entry uint64

func (ix *Index) entry(path []byte, offset int64) entry {
	return entry(ix.hash(path)&^ix.offMask() | uint64(offset))
}

func (ix *Index) offMask() uint64 { return 1<<ix.offBits - 1 }

// offset is that of the line of entry i.
func (ix *Index) offset(i int) int64 { return int64(uint64(ix.entries[i]) & ix.offMask()) }

// sameHash reports whether nothing but their lines tells the paths of two entries apart.
func (ix *Index) sameHash(a, b entry) bool { return a>>ix.offBits == b>>ix.offBits }

// first returns the place of the first entry that path can have.
func (ix *Index) first(path []byte) (e entry, i int) {
	e = ix.entry(path, 0)
	i, _ = slices.BinarySearch(ix.entries, e)
	return e, i
}

// BuildCheckIndex reads the manifest of size bytes in src once. It can have any
// origin: every line that NewCheckReader accepts in format f counts, except that lines
// of other algorithms than a are malformed.
//
// The error is that of reading src, which the Index uses for as long as it
// lives and never closes. The file must not change in the meantime.
func BuildCheckIndex(src io.ReaderAt, size int64, f Format, a hash.Algorithm) (*Index, error) {
	return (&Index{src: src, size: size, algorithm: a, format: f}).build()
}

// BuildOwnIndex is BuildCheckIndex of a manifest in exactly the form that a Builder of
// the algorithm writes in its first Style; see FormError. A file of size 0 has that form.
func BuildOwnIndex(src io.ReaderAt, size int64, a hash.Algorithm) (*Index, error) {
	return (&Index{src: src, size: size, algorithm: a, form: &ownForm{algorithm: a, style: styleOf(a)}}).build()
}

// reader reads the manifest from its beginning.
func (ix *Index) reader() *Reader {
	in := io.NewSectionReader(ix.src, 0, ix.size)
	if ix.form == nil {
		return NewCheckReader(in, ix.format, ix.algorithm)
	}
	r := NewReader(in, ix.algorithm)
	r.strict = true
	return r
}

func (ix *Index) build() (*Index, error) {
	if ix.hash == nil {
		seed := maphash.MakeSeed()
		ix.hash = func(path []byte) uint64 { return maphash.Bytes(seed, path) }
	}
	ix.offBits = bits.Len64(uint64(ix.size))
	r := ix.reader()
	ix.scratch.New = func() any {
		// The first lines have decided how all are to be read.
		return &lookup{buf: make([]byte, 0, firstRead), parse: parser{algorithm: ix.algorithm, forms: r.parse.forms, padded: r.parse.padded, bagIt: r.parse.bagIt}}
	}
	for {
		f, err := r.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if other := (*FormError)(nil); errors.As(err, &other) {
				return nil, err
			}
			return nil, fmt.Errorf("manifest: read for index: %w", err)
		}
		if !f.isOf(ix.algorithm) {
			r.reject()
			continue
		}
		if ix.form != nil {
			if err := ix.form.check(r, f); err != nil {
				return nil, err
			}
		}
		if n := len(ix.entries); n == cap(ix.entries) {
			// As many as the lines so far let expect: append would leave a few times as
			// much garbage, and spare room.
			more := int64(n) * (ix.size - r.offset) / max(r.offset, 1)
			ix.entries = slices.Grow(ix.entries, int(more)+n/16+64)
		}
		ix.entries = append(ix.entries, ix.entry(canonical(f.path), r.offset))
	}
	if r.next != ix.size {
		return nil, fmt.Errorf("manifest: read for index: %w", io.ErrUnexpectedEOF)
	}
	ix.malformed, _ = r.Malformed()
	slices.Sort(ix.entries)
	ix.met = make([]atomic.Uint32, (len(ix.entries)+31)/32)
	return ix, nil
}

// Len returns the number of well-formed lines, duplicates included.
func (ix *Index) Len() int { return len(ix.entries) }

// Malformed returns the number of lines that were not indexed, blank lines and
// comments aside.
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

// Lookup returns the digest that the manifest gives for path. It reads the
// line again and compares the path itself; equal hashes alone prove nothing.
// Not ok means that path is not listed, or with different digests.
//
// The error is that of reading the manifest, or says that it changed since it
// was indexed. The digest belongs to the caller. Lookup may be called from
// several goroutines if the ReadAt of the source may.
func (ix *Index) Lookup(path string) (digest []byte, ok bool, err error) {
	disputed := false
	err = ix.find(path, func(_ int, f fields) (more bool) {
		switch {
		case ok && !bytes.Equal(f.digest, digest):
			disputed = true
		case !ok:
			digest, ok = bytes.Clone(f.digest), true
		}
		return !disputed
	})
	if err != nil || disputed {
		return nil, false, err
	}
	return digest, ok, nil
}

// find calls yield for each entry of path, in the order of the file, until it
// returns false. The fields are valid during the call.
func (ix *Index) find(path string, yield func(i int, f fields) (more bool)) error {
	l := ix.scratch.Get().(*lookup)
	defer ix.scratch.Put(l)
	l.path = append(l.path[:0], path...)
	e, i := ix.first(l.path)
	for ; i < len(ix.entries) && ix.sameHash(ix.entries[i], e); i++ {
		f, err := l.read(ix, ix.offset(i))
		if err != nil {
			return err
		}
		if bytes.Equal(canonical(f.path), l.path) && !yield(i, f) {
			return nil
		}
	}
	return nil
}

// A lookup holds the buffers of one call.
type lookup struct {
	path, buf []byte
	parse     parser
}

// read returns the fields of the line at offset.
func (l *lookup) read(ix *Index, offset int64) (fields, error) {
	l.buf = l.buf[:0]
	var line []byte
	for {
		n := len(l.buf)
		more := int(min(int64(max(firstRead, n)), ix.size-offset-int64(n)))
		l.buf = slices.Grow(l.buf, more)[:n+more]
		got, err := ix.src.ReadAt(l.buf[n:], offset+int64(n))
		if got < more {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fields{}, fmt.Errorf("manifest: read line at offset %d: %w", offset, err)
		}
		if end := bytes.IndexByte(l.buf[n:], '\n'); end >= 0 {
			line = l.buf[:n+end]
			break
		}
		if len(l.buf) >= MaxLine || offset+int64(len(l.buf)) == ix.size {
			line = l.buf
			break
		}
	}
	if ix.form == nil && offset == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	f, err := l.parse.parse(line)
	if err != nil || !f.isOf(ix.algorithm) {
		return fields{}, changedAt(offset)
	}
	return f, nil
}

func changedAt(offset int64) error {
	return fmt.Errorf("manifest: line at offset %d changed since it was indexed", offset)
}

// canonical spells path, in place, as a walk of the tree does: without "."
// elements and doubled slashes. It leaves absolute paths alone, ".." elements,
// and paths that end in "/" or "/.", which name no file.
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
