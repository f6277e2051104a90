package fsys

import (
	"slices"
	"strings"
	"unsafe"
)

// Listing holds the names of one directory, without "." and "..", packed into a few
// strings: each entry costs 8 bytes beyond its name.
type Listing struct {
	names   []string
	entries []listed
}

type listed struct {
	part uint16 // index of names; no supported file system has 4 GiB of names in one directory
	off  uint16 // offset of the name in that string, in bytes
	size uint16
	kind Kind
}

// partSize is the number of bytes of names in one string, and partEntries the number of
// entries that are collected at once. Buffers that grow by doubling would leave as much
// garbage as they have data.
const (
	partSize    = 64 << 10
	partEntries = 8 << 10
)

// List reads the names in the directory.
func (d *Dir) List() (*Listing, error) {
	var b listingBuilder
	err := d.Each(func(name []byte, _ uint64, kind Kind) bool {
		b.add(name, kind)
		return true
	})
	if err != nil {
		return nil, err
	}
	return b.done(), nil
}

// Len returns the number of entries.
func (l *Listing) Len() int { return len(l.entries) }

// Name returns the name of entry i. It shares memory with the complete listing: clone it to
// keep it after the listing.
func (l *Listing) Name(i int) string { return l.name(l.entries[i]) }

func (l *Listing) name(e listed) string { return l.names[e.part][e.off:][:e.size] }

// Kind returns the kind of entry i, or Unknown.
func (l *Listing) Kind(i int) Kind { return l.entries[i].kind }

// SetKind records the kind that a later check of entry i has found.
func (l *Listing) SetKind(i int, k Kind) { l.entries[i].kind = k }

// SortForManifest sorts the entries into the order in which a depth-first walk meets full
// paths in byte order. A directory sorts as "name/".
func (l *Listing) SortForManifest() {
	slices.SortFunc(l.entries, func(a, b listed) int {
		return CompareForManifest(l.name(a), a.kind == Directory, l.name(b), b.kind == Directory)
	})
}

// CompareForManifest compares two names of a directory in the order of SortForManifest.
func CompareForManifest(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return nextByte(a, aDir, n) - nextByte(b, bDir, n)
}

// nextByte returns the byte at index n of a path that continues through name. At the end of
// the path it returns 0, which is less than any byte of a name.
func nextByte(name string, dir bool, n int) int {
	switch {
	case len(name) > n:
		return int(name[n])
	case dir:
		return '/'
	}
	return 0
}

// listingBuilder collects names.
type listingBuilder struct {
	names   []string // the full strings of names
	part    []byte   // the string of names that is not full yet
	full    [][]listed
	entries []listed // entries that full does not have yet
}

func (b *listingBuilder) add(name []byte, kind Kind) {
	if len(b.part)+len(name) > partSize && len(b.part) > 0 {
		b.seal()
		b.part = make([]byte, 0, max(partSize, len(name)))
	}
	if len(b.entries) == partEntries {
		b.full = append(b.full, b.entries)
		b.entries = make([]listed, 0, partEntries)
	}
	b.entries = append(b.entries, listed{part: uint16(len(b.names)), off: uint16(len(b.part)), size: uint16(len(name)), kind: kind})
	b.part = append(b.part, name...)
}

// seal turns the part into a string. The part is not changed again.
func (b *listingBuilder) seal() {
	b.names = append(b.names, unsafe.String(unsafe.SliceData(b.part), len(b.part)))
}

func (b *listingBuilder) done() *Listing {
	b.seal()
	if len(b.full) == 0 {
		return &Listing{names: b.names, entries: b.entries}
	}
	return &Listing{names: b.names, entries: slices.Concat(append(b.full, b.entries)...)}
}

// NewListing returns a listing of the given names. Their kind is Unknown, and each is shorter
// than 64 KiB.
func NewListing(names []string) *Listing {
	var b listingBuilder
	for _, name := range names {
		b.add([]byte(name), Unknown)
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
