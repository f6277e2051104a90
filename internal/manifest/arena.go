package manifest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	// maxArena keeps offsets into the arena within 32 bits, and int, in bytes.
	maxArena = 1 << 30

	// maxPath is the longest path of a record, in bytes; its length shares
	// 32 bits with the kind.
	maxPath = 1<<29 - 1

	// kindBits is the number of bits of a record's header that its kind uses.
	kindBits = 3
)

// A kind is the statement of a record about its path.
type kind uint32

const (
	put  kind = iota // the file exists and has this digest
	drop             // no line
)

// record is one statement about a path. In the arena and in the spill it is
// len(path)<<3|kind in four bytes, little endian, then the path, then the rest of the
// entry. The rest has a fixed size and no meaning for drop: size and time in eight bytes
// each, and the digests.
type record struct {
	kind       kind
	path, rest []byte
}

const (
	recordHeader = 4  // bytes
	fixedRest    = 16 // bytes of the rest before the digests
)

// add appends a record to the arena. If the arena is full, add spills it first.
func (b *Builder) add(k kind, e Entry) error {
	if b.err == nil && b.reading {
		b.err = errReading
	}
	if b.err != nil {
		return b.err
	}
	path := pathOf(e.Path, b.Named)
	need := recordHeader + len(path) + b.restSize
	if len(b.offsets) == b.maxRecords || len(b.offsets) > 0 && len(b.arena)+need > b.maxBytes {
		if b.err = b.spillArena(); b.err != nil {
			return b.err
		}
	}
	b.arena = grow(b.arena, need, b.maxBytes)
	b.offsets = grow(b.offsets, 1, b.maxRecords)
	b.offsets = append(b.offsets, uint32(len(b.arena)))
	end := len(b.arena) + need
	b.arena = binary.LittleEndian.AppendUint32(b.arena, uint32(len(path))<<kindBits|uint32(k))
	b.arena = append(b.arena, path...)
	b.arena = binary.LittleEndian.AppendUint64(b.arena, uint64(e.Size))
	b.arena = binary.LittleEndian.AppendUint64(b.arena, uint64(e.Mtime))
	for _, d := range e.Digests {
		b.arena = append(b.arena, d...)
	}
	b.arena = b.arena[:end]
	return nil
}

// entry returns the entry of a put, with the digests of some of the Builder's hashes. The
// digests are valid until the next call, and not longer than the record.
func (b *Builder) entry(rec record, hashes []hash.Algorithm) Entry {
	e := Entry{
		Path:    string(rec.path),
		Size:    int64(binary.LittleEndian.Uint64(rec.rest)),
		Mtime:   int64(binary.LittleEndian.Uint64(rec.rest[8:])),
		Digests: slices.Grow(b.digests[:0], len(hashes))[:len(hashes)],
	}
	b.digests = e.Digests
	rest := rec.rest[fixedRest:]
	for _, a := range b.hashes {
		if i := slices.Index(hashes, a); i >= 0 {
			e.Digests[i] = rest[:a.Size()]
		}
		rest = rest[a.Size():]
	}
	return e
}

// grow makes space for need more elements in a few steps, the last of which reaches the
// limit. The doubling of append would discard a slice of half the limit in its last step.
func grow[E any](s []E, need, limit int) []E {
	want := len(s) + need
	if want <= cap(s) {
		return s
	}
	size := max(want, limit)
	for _, step := range [...]int{4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		if want <= step && step < limit {
			size = step
			break
		}
	}
	return append(make([]E, 0, size), s...)
}

// at returns the record at offset in the arena.
func (b *Builder) at(offset uint32) record {
	header := binary.LittleEndian.Uint32(b.arena[offset:])
	path := b.arena[offset+recordHeader:][:header>>kindBits]
	return record{kindOf(header), path, b.arena[int(offset)+recordHeader+len(path):][:b.restSize]}
}

// sortArena sorts the offsets by path and keeps one for each path. Records that arrived
// later have higher offsets.
func (b *Builder) sortArena() {
	slices.SortFunc(b.offsets, func(x, y uint32) int {
		return cmp.Or(bytes.Compare(b.at(x).path, b.at(y).path), cmp.Compare(x, y))
	})
	kept := b.offsets[:0]
	for i, offset := range b.offsets {
		if i+1 == len(b.offsets) || !bytes.Equal(b.at(b.offsets[i+1]).path, b.at(offset).path) {
			kept = append(kept, offset) // the newest of its path
		}
	}
	b.offsets = kept
}

func kindOf(header uint32) kind { return kind(header & (1<<kindBits - 1)) }
