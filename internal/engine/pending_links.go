package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// pendingLinks stores the link groups of which the walk has not met all names. There can be as
// many groups as files. If the other names are outside the source, a group stays until the end. So
// each group is packed into a record of about 100 bytes. When the records exceed a limit,
// they move to a temporary file. A hash table finds them and uses about 12 bytes for each.
// pendingLinks is not safe for concurrent use. See docs/adr/0003.
type pendingLinks struct {
	seed   maphash.Seed
	limit  int // bytes of records in memory
	spill  func() (spillFile, error)
	slots  []uint64 // hash table with open addressing: bits of the id's hash and the place of the record; 0 is free
	used   int
	tail   []byte // records in memory
	start  int64  // place of the first record of tail; those before it are in the file
	file   spillFile
	filed  bool      // spill was called; file is nil if it failed
	era    int       // incremented when all records are dropped; places of earlier eras are invalid
	buf    []byte    // of one record, used again
	dirs   []heldDir // the directories of the primaries' names; records contain an index into it
	unused []uint32  // free indexes of dirs
	number map[*walk.Dir]uint32

	targets int // number of destinations; a group has a primary for each
}

// spillFile stores the records that exceed the memory limit.
type spillFile interface {
	io.ReaderAt
	WriteAt(p []byte, off int64) error
	io.Closer
}

// heldDir is a directory and the number of primaries that hold it.
type heldDir struct {
	dir   *walk.Dir
	holds int
}

// pendingLinksMemory is the default limit of the records in memory, in bytes. It is enough for
// about 80,000 files, so most trees need no temporary file.
const pendingLinksMemory = 8 << 20

const (
	placeBits    = 36 // low bits of a slot, for the place; the high bits are from the hash
	placeUnit    = 8  // bytes; each record begins at a multiple of it
	firstSlots   = 1 << 10
	firstTail    = 16 << 10 // bytes
	firstRead    = 256      // bytes of the first read of a record; most records are shorter
	recordLength = 4        // bytes of the length at the beginning of a record
	recordFixed  = recordLength + 16 + 8 + 1
)

func newPendingLinks(targets, limit int, spill func() (spillFile, error)) *pendingLinks {
	return &pendingLinks{
		targets: targets, era: 1, seed: maphash.MakeSeed(), limit: limit, spill: spill, start: placeUnit,
		slots: make([]uint64, firstSlots), number: map[*walk.Dir]uint32{},
	}
}

// hashOf returns the bits of the hash of id that a slot contains.
func (p *pendingLinks) hashOf(id fsys.ID) uint64 { return maphash.Comparable(p.seed, id) >> placeBits }

// home returns the preferred index of a slot.
func (p *pendingLinks) home(slot uint64) int { return int(slot>>placeBits) & (len(p.slots) - 1) }

// after returns the next index, at which probing continues.
func (p *pendingLinks) after(i int) int { return (i + 1) & (len(p.slots) - 1) }

// place returns the place of the record of a slot: its offset, in the file or in tail.
func (p *pendingLinks) place(slot uint64) int64 { return int64(slot&(1<<placeBits-1)) * placeUnit }

// take removes and returns the group of id, nil if there is none.
func (p *pendingLinks) take(id fsys.ID) (*linkGroup, error) {
	want := p.hashOf(id)
	for i := p.home(want << placeBits); p.slots[i] != 0; i = p.after(i) {
		if p.slots[i]>>placeBits != want {
			continue
		}
		place := p.place(p.slots[i])
		record, err := p.read(place)
		if err != nil {
			return nil, err
		}
		if idOfRecord(record) != id {
			continue
		}
		g, err := p.unpack(record)
		if err != nil {
			return nil, err
		}
		g.place, g.length, g.era = place, len(record), p.era
		p.free(i)
		return g, nil
	}
	return nil, nil
}

// put stores a group. The caller must not use the group afterwards.
func (p *pendingLinks) put(g *linkGroup) {
	record := p.pack(g)
	place := g.place
	if g.era != p.era || g.length != len(record) || !p.overwrite(place, record) {
		place = p.append(record)
	}
	p.insert(p.hashOf(g.id)<<placeBits | uint64(place/placeUnit))
	if p.used++; p.used*4 > len(p.slots)*3 {
		p.grow()
	}
}

// insert adds a slot to the table, which has a free one.
func (p *pendingLinks) insert(slot uint64) {
	i := p.home(slot)
	for p.slots[i] != 0 {
		i = p.after(i)
	}
	p.slots[i] = slot
}

// free removes a slot from the table. The table uses open addressing with linear probing, so the
// following slots move into the gap, except those whose preferred index is after the gap.
func (p *pendingLinks) free(i int) {
	p.slots[i] = 0
	for j := p.after(i); p.slots[j] != 0; j = p.after(j) {
		home := p.home(p.slots[j])
		if (j-home)&(len(p.slots)-1) >= (j-i)&(len(p.slots)-1) {
			p.slots[i], p.slots[j] = p.slots[j], 0
			i = j
		}
	}
	if p.used--; p.used == 0 { // all records are unused now
		p.tail, p.start = p.tail[:0], placeUnit
		p.era++
	}
}

// grow doubles the table.
func (p *pendingLinks) grow() {
	old := p.slots
	p.slots = make([]uint64, 2*len(old))
	for _, slot := range old {
		if slot != 0 {
			p.insert(slot)
		}
	}
}

// append adds a record and returns its place.
func (p *pendingLinks) append(record []byte) int64 {
	size := (len(record) + placeUnit - 1) / placeUnit * placeUnit
	if len(p.tail) > 0 && len(p.tail)+size > p.limit {
		p.flush()
	}
	place := p.start + int64(len(p.tail))
	if n := len(p.tail) + size; n > cap(p.tail) { // a factor of 4, because each step leaves the old slice as garbage
		p.tail = append(make([]byte, 0, max(n, min(4*cap(p.tail), p.limit), firstTail)), p.tail...)
	}
	p.tail = append(p.tail, record...)
	p.tail = p.tail[:place-p.start+int64(size)]
	return place
}

// flush moves the records in memory to the file. If there is no file or it cannot be written,
// they stay in memory, and the limit doubles.
func (p *pendingLinks) flush() {
	if !p.filed {
		p.filed = true
		if file, err := p.spill(); err == nil {
			p.file = file
		}
	}
	if p.file == nil || p.file.WriteAt(p.tail, p.start) != nil {
		p.limit *= 2
		return
	}
	p.start += int64(len(p.tail))
	p.tail = p.tail[:0]
}

// overwrite replaces a record by one of the same length. It returns false if that is not
// possible.
func (p *pendingLinks) overwrite(place int64, record []byte) bool {
	if place >= p.start {
		copy(p.tail[place-p.start:], record)
		return true
	}
	return p.file.WriteAt(record, place) == nil
}

// read returns the record at place. It is valid until the next call of any method.
func (p *pendingLinks) read(place int64) ([]byte, error) {
	if place >= p.start {
		record := p.tail[place-p.start:]
		return record[:binary.LittleEndian.Uint32(record)], nil
	}
	p.buf = slices.Grow(p.buf[:0], firstRead)[:firstRead]
	n, err := p.file.ReadAt(p.buf, place)
	if n < recordLength {
		return nil, cannotRead(err)
	}
	size := int(binary.LittleEndian.Uint32(p.buf))
	if size < recordFixed || int64(size) > p.start-place { // another process has changed the file
		return nil, cannotRead(nil)
	}
	if size > n && n == firstRead {
		p.buf = slices.Grow(p.buf, size-n)[:size]
		var more int
		more, err = p.file.ReadAt(p.buf[n:], place+int64(n))
		n += more
	}
	if size > n {
		return nil, cannotRead(err)
	}
	return p.buf[:size], nil
}

func cannotRead(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the temporary file with the names of hard links: %w", err)
}

// Flags of a primary in a record.
const (
	primaryThere    = 1 << iota
	primaryExpected // a manifest of the source lists its name
	primaryRepeated // name and content equal those of the previous primary and are left out
	primaryHashed   // it has digests
	primaryCompared
)

// pack returns the record of a group. It is valid until the next call of any method. A record
// contains:
//
//   - its length, 4 bytes
//   - the id, 16 bytes
//   - the number of names seen, 8 bytes
//   - whether the group is broken, 1 byte
//   - for each target the flags of its primary, 1 byte, and the fields that the flags select
//
// Two records of one group have the same length unless their primaries differ.
func (p *pendingLinks) pack(g *linkGroup) []byte {
	b := append(p.buf[:0], 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, g.id.Dev)
	b = binary.LittleEndian.AppendUint64(b, g.id.Ino)
	b = binary.LittleEndian.AppendUint64(b, g.seen)
	if g.broken {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	var before *primary
	for i := range g.primaries {
		l := &g.primaries[i]
		if l.held == nil {
			b = append(b, 0)
			continue
		}
		what := byte(primaryThere)
		if l.expected {
			what |= primaryExpected
		}
		if l.compared {
			what |= primaryCompared
		}
		if l.digests != nil {
			what |= primaryHashed
		}
		if before != nil && before.like(l) {
			what |= primaryRepeated
		}
		b = append(b, what)
		if what&primaryRepeated == 0 {
			b = appendField(b, l.name)
			b = binary.AppendVarint(b, l.size)
			b = binary.AppendVarint(b, l.mtime.Sec)
			b = binary.AppendVarint(b, l.mtime.Nsec)
			b = binary.AppendUvarint(b, uint64(len(l.digests)))
			for _, d := range l.digests {
				b = appendField(b, d)
			}
		}
		b = binary.AppendUvarint(b, uint64(p.hold(l.held)))
		b = binary.AppendUvarint(b, l.id.Dev)
		b = binary.AppendUvarint(b, l.id.Ino)
		before = l
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	p.buf = b
	return b
}

// like reports whether two primaries have the same name and content.
func (l *primary) like(other *primary) bool {
	return l.name == other.name && l.size == other.size && l.mtime == other.mtime &&
		(l.digests == nil) == (other.digests == nil) && slices.EqualFunc(l.digests, other.digests, bytes.Equal)
}

// appendField appends the length of f and f.
func appendField[F string | []byte](b []byte, f F) []byte {
	return append(binary.AppendUvarint(b, uint64(len(f))), f...)
}

// idOfRecord returns the id of a record's group.
func idOfRecord(record []byte) fsys.ID {
	b := record[recordLength:]
	return fsys.ID{Dev: binary.LittleEndian.Uint64(b), Ino: binary.LittleEndian.Uint64(b[8:])}
}

// unpack returns the group of a record. The holds on directories pass from pendingLinks to the
// primaries of the group.
func (p *pendingLinks) unpack(record []byte) (*linkGroup, error) {
	b := record[recordLength+16:]
	g := &linkGroup{id: idOfRecord(record), seen: binary.LittleEndian.Uint64(b), broken: b[8] != 0}
	in := recordFields{rest: b[9:]}
	var before primary
	for len(in.rest) > 0 && !in.bad {
		what := in.rest[0]
		in.rest = in.rest[1:]
		if what == 0 {
			g.primaries = append(g.primaries, primary{})
			continue
		}
		l := primary{expected: what&primaryExpected != 0, compared: what&primaryCompared != 0}
		if what&primaryRepeated != 0 {
			l.name, l.size, l.mtime, l.digests = before.name, before.size, before.mtime, before.digests
		} else {
			l.name = string(in.field())
			l.size = in.number()
			l.mtime = fsys.Time{Sec: in.number(), Nsec: in.number()}
			n := in.count()
			if what&primaryHashed != 0 {
				l.digests = hash.Digests{}
			}
			for ; n > 0 && !in.bad; n-- {
				l.digests = append(l.digests, bytes.Clone(in.field()))
			}
		}
		number := in.count()
		l.id = fsys.ID{Dev: in.count(), Ino: in.count()}
		if in.bad || number >= uint64(len(p.dirs)) || p.dirs[number].holds == 0 || len(g.primaries) == p.targets {
			return nil, cannotRead(nil)
		}
		l.held = p.dirs[number].dir
		l.dd = l.held.State.(destDirs)[len(g.primaries)]
		g.primaries = append(g.primaries, l)
		before = l
	}
	if in.bad || len(g.primaries) != p.targets {
		return nil, cannotRead(nil)
	}
	for i := range g.primaries {
		if g.primaries[i].held != nil {
			p.letGo(g.primaries[i].held)
		}
	}
	return g, nil
}

// recordFields reads the fields of a record one after the other. After a field that is not
// valid, bad is true.
type recordFields struct {
	rest []byte
	bad  bool
}

func (f *recordFields) count() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad, n = true, 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *recordFields) number() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		f.bad, n = true, 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *recordFields) field() []byte {
	n := f.count()
	if f.bad || n > uint64(len(f.rest)) {
		f.bad = true
		return nil
	}
	field := f.rest[:n]
	f.rest = f.rest[n:]
	return field
}

// hold takes over one hold on a directory and returns the index of the directory in dirs.
func (p *pendingLinks) hold(d *walk.Dir) uint32 {
	n, known := p.number[d]
	switch {
	case known:
	case len(p.unused) > 0:
		n = p.unused[len(p.unused)-1]
		p.unused = p.unused[:len(p.unused)-1]
	default:
		n = uint32(len(p.dirs))
		p.dirs = append(p.dirs, heldDir{})
	}
	p.number[d] = n
	p.dirs[n].dir = d
	p.dirs[n].holds++
	return n
}

// letGo removes one hold on a directory from the table. A primary takes it over.
func (p *pendingLinks) letGo(d *walk.Dir) {
	n := p.number[d]
	if p.dirs[n].holds--; p.dirs[n].holds > 0 {
		return
	}
	p.dirs[n].dir = nil
	delete(p.number, d)
	p.unused = append(p.unused, n)
}

// close releases all directories and removes the temporary file.
func (p *pendingLinks) close() {
	for _, held := range p.dirs {
		for range held.holds {
			held.dir.Done()
		}
	}
	p.dirs, p.slots, p.tail = nil, nil, nil
	if p.file != nil {
		_ = p.file.Close() // a temporary that is not needed any more
		p.file = nil
	}
}
