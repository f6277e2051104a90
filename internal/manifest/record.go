package manifest

import (
	"encoding/binary"
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// maxPath is the longest path of a record, in bytes.
const maxPath = 1<<29 - 1

// A kind is the statement of a record about its path.
type kind byte

const (
	put  kind = iota // The file exists and has this digest.
	drop             // The path gets no line.
)

// record is one statement about a path. The sorter has it under the path: the kind in one byte,
// and the rest of the entry if it is put. The rest has size and time in eight bytes each, and the
// digests.
type record struct {
	kind       kind
	path, rest []byte
}

const fixedRest = 16 // bytes of the rest before the digests

// add adds a record.
func (b *Builder) add(k kind, e Entry) error {
	b.value = append(b.value[:0], byte(k))
	if k == put {
		b.value = binary.LittleEndian.AppendUint64(b.value, uint64(e.Size))
		b.value = binary.LittleEndian.AppendUint64(b.value, uint64(e.Mtime))
		for _, d := range e.Digests {
			b.value = append(b.value, d...)
		}
	}
	return b.sorter.Add([]byte(pathOf(e.Path, b.Named)), b.value)
}

// each calls yield for the newest record of each path, in order. The record is valid during the
// call. The error is that of yield or of the spill.
func (b *Builder) each(yield func(record) error) error {
	return b.sorter.EachLast(func(path, value []byte) error {
		return yield(record{kind(value[0]), path, value[1:]})
	})
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
