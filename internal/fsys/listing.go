package fsys

import (
	"slices"
	"sort"
	"unsafe"
)

// Listing holds the names of one directory, without "." and "..", packed into
// one string: a directory of a million entries costs about 12 bytes a name
// beyond the names themselves.
type Listing struct {
	names   string
	entries []listed
}

type listed struct {
	ino  uint64
	off  uint32 // into names; 4 GiB of names in one directory is beyond any file system here
	size uint16
	kind Kind
}

// Len is the number of entries.
func (l *Listing) Len() int { return len(l.entries) }

// Name returns the name of entry i. It shares memory with the whole listing:
// clone it to keep it longer than the directory's work.
func (l *Listing) Name(i int) string {
	e := l.entries[i]
	return l.names[e.off : e.off+uint32(e.size)]
}

// Kind returns the kind of entry i, or Unknown.
func (l *Listing) Kind(i int) Kind { return l.entries[i].kind }

// SetKind records what a later look at entry i has found.
func (l *Listing) SetKind(i int, k Kind) { l.entries[i].kind = k }

// SortForManifest puts the entries in the order in which a depth-first walk
// meets full paths in byte order: a directory sorts as "name/".
func (l *Listing) SortForManifest() {
	slices.SortFunc(l.entries, func(a, b listed) int {
		return compareForManifest(l.name(a), a.kind == Directory, l.name(b), b.kind == Directory)
	})
}

// SortByName puts the entries in byte order of their names, as Find needs it.
func (l *Listing) SortByName() {
	slices.SortFunc(l.entries, func(a, b listed) int {
		x, y := l.name(a), l.name(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// Has reports whether a listing in the order of SortByName holds exactly name.
func (l *Listing) Has(name string) bool {
	i := sort.Search(len(l.entries), func(i int) bool { return l.Name(i) >= name })
	return i < len(l.entries) && l.Name(i) == name
}

// NameOf returns the name of the entry with the inode number ino, as far as
// the listing knows inode numbers.
func (l *Listing) NameOf(ino uint64) (name string, ok bool) {
	for i, e := range l.entries {
		if e.ino == ino && ino != 0 {
			return l.Name(i), true
		}
	}
	return "", false
}

func (l *Listing) name(e listed) string { return l.names[e.off : e.off+uint32(e.size)] }

func compareForManifest(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return nextByte(a, aDir, n) - nextByte(b, bDir, n)
}

// nextByte is the byte after the first n of a path that goes through name, with
// 0 for its end: less than any byte that a name can hold.
func nextByte(name string, dir bool, n int) int {
	switch {
	case len(name) > n:
		return int(name[n])
	case dir:
		return '/'
	}
	return 0
}

// listingBuilder collects names; its buffer becomes the listing's one string.
type listingBuilder struct {
	buf     []byte
	entries []listed
}

func (b *listingBuilder) add(name []byte, ino uint64, kind Kind) {
	b.entries = append(b.entries, listed{ino: ino, off: uint32(len(b.buf)), size: uint16(len(name)), kind: kind})
	b.buf = append(b.buf, name...)
}

func (b *listingBuilder) done() *Listing {
	// The buffer is not touched again: no need for a copy of a million names.
	return &Listing{names: unsafe.String(unsafe.SliceData(b.buf), len(b.buf)), entries: b.entries}
}

// NewListing makes a listing of given names, all of Unknown kind.
func NewListing(names []string) *Listing {
	var b listingBuilder
	for _, name := range names {
		b.add([]byte(name), 0, Unknown)
	}
	return b.done()
}

// Retain keeps the entries for which keep returns true, with the kind that it
// returns.
func (l *Listing) Retain(keep func(name string, kind Kind) (Kind, bool)) {
	kept := l.entries[:0]
	for _, e := range l.entries {
		kind, ok := keep(l.name(e), e.kind)
		if ok {
			e.kind = kind
			kept = append(kept, e)
		}
	}
	l.entries = kept
}
