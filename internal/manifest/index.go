package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// firstRead is how much of a line Lookup asks for at first, in bytes; most
// lines are shorter than 200.
const firstRead = 512

// Index finds paths in a manifest that stays on disk. Of each line it keeps a
// 64-bit hash of the path, the line's offset and a bit for Meet, so that a
// million lines take 16 MB.
//
// Paths are compared as a walk of the tree spells them: "./a" and "b//c" of
// the file, as "find . -exec sha256sum" writes them, are found as "a" and
// "b/c". Paths with ".." and absolute ones are compared as they are.
//
// Lines with the mark of binary mode vouch for nothing: Builder marks unproven
// ones so, and nothing tells them from those of "sha256sum --binary".
type Index struct {
	src       io.ReaderAt
	size      int64
	want      filter
	hash      func([]byte) uint64
	entries   []entry         // by hash, then offset
	met       []atomic.Uint32 // a bit for each entry, in their order
	malformed int
	scratch   sync.Pool // of *lookup
	checking  bool      // lines are read as NewCheckReader does
}

type entry struct {
	hash   uint64
	offset int64
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.offset, b.offset))
}

// filter says which lines count: digests of this many bytes, untagged or with
// one of these tags.
type filter struct {
	digestSize int
	tags       []string
}

func (want filter) accepts(f fields) bool {
	if len(f.digest) != want.digestSize {
		return false
	}
	return len(f.tag) == 0 || slices.ContainsFunc(want.tags, func(t string) bool { return t == string(f.tag) })
}

// BuildIndex reads the manifest of size bytes in src once. Lines whose digest
// has another length than digestSize, in bytes, are malformed, and so are
// tagged lines unless their tag is one of tags, usually Tags(algorithm): a
// digest of another algorithm can have the same length.
//
// The error is that of reading src, which the Index uses for as long as it
// lives and never closes. The file must not change in the meantime.
func BuildIndex(src io.ReaderAt, size int64, digestSize int, tags ...string) (*Index, error) {
	return (&Index{src: src, size: size, want: filter{digestSize, tags}}).build()
}

// BuildCheckIndex is BuildIndex of a manifest that anybody may have written: it
// takes every line that NewCheckReader takes.
func BuildCheckIndex(src io.ReaderAt, size int64, digestSize int, tags ...string) (*Index, error) {
	return (&Index{src: src, size: size, want: filter{digestSize, tags}, checking: true}).build()
}

// reader reads the manifest from its beginning.
func (ix *Index) reader() *Reader {
	in := io.NewSectionReader(ix.src, 0, ix.size)
	if ix.checking {
		return NewCheckReader(in, FormatSums)
	}
	return NewReader(in)
}

func (ix *Index) build() (*Index, error) {
	if ix.hash == nil {
		seed := maphash.MakeSeed()
		ix.hash = func(path []byte) uint64 { return maphash.Bytes(seed, path) }
	}
	r := ix.reader()
	ix.scratch.New = func() any {
		// The first lines have decided how all are to be read.
		return &lookup{buf: make([]byte, 0, firstRead), parse: parser{forms: r.parse.forms, padded: r.parse.padded}}
	}
	for {
		f, err := r.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("manifest: read for index: %w", err)
		}
		if !ix.want.accepts(f) {
			r.reject()
			continue
		}
		ix.entries = append(ix.entries, entry{ix.hash(canonical(f.path)), r.offset})
	}
	if r.next != ix.size {
		return nil, fmt.Errorf("manifest: read for index: %w", io.ErrUnexpectedEOF)
	}
	ix.malformed, _ = r.Malformed()
	slices.SortFunc(ix.entries, compareEntries)
	ix.met = make([]atomic.Uint32, (len(ix.entries)+31)/32)
	return ix, nil
}

// Len returns the number of well-formed lines, duplicates included.
func (ix *Index) Len() int { return len(ix.entries) }

// Malformed returns the number of lines that were not indexed, blank lines and
// comments aside.
func (ix *Index) Malformed() int { return ix.malformed }

// MayList reports whether the manifest has a line for path, trusted or not. It
// goes by the hash alone: very rarely it says yes to a path that is not listed.
func (ix *Index) MayList(path string) bool {
	l := ix.scratch.Get().(*lookup)
	defer ix.scratch.Put(l)
	l.path = append(l.path[:0], path...)
	_, found := slices.BinarySearchFunc(ix.entries, ix.hash(l.path), func(e entry, hash uint64) int {
		return cmp.Compare(e.hash, hash)
	})
	return found
}

// Lookup returns the digest that the manifest gives for path. It reads the
// line again and compares the path itself; equal hashes alone prove nothing.
// Not ok means that the manifest vouches for nothing: path is not listed, or
// with the mark of binary mode, or with different digests.
//
// The error is that of reading the manifest, or says that it changed since it
// was indexed. The digest belongs to the caller. Lookup may be called from
// several goroutines if the ReadAt of the source may.
func (ix *Index) Lookup(path string) (digest []byte, ok bool, err error) {
	distrusted := false
	err = ix.find(path, func(_ int, f fields) (more bool) {
		switch {
		case f.binary || ok && !bytes.Equal(f.digest, digest):
			distrusted = true
		case !ok:
			digest, ok = bytes.Clone(f.digest), true
		}
		return !distrusted
	})
	if err != nil || distrusted {
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
	hash := ix.hash(l.path)
	i, _ := slices.BinarySearchFunc(ix.entries, hash, func(e entry, hash uint64) int {
		return cmp.Compare(e.hash, hash)
	})
	for ; i < len(ix.entries) && ix.entries[i].hash == hash; i++ {
		f, err := l.read(ix, ix.entries[i].offset)
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
	if ix.checking && offset == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	f, err := l.parse.parse(line)
	if err != nil || !ix.want.accepts(f) {
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
