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

// pendingLinks holds the link groups that wait for a name to be met, packed: there may be
// as many as files, and most may wait in vain, for names outside the source. Each has
// a record, of about 100 bytes; beyond a limit the records go into a temporary file.
// The table that finds them takes about 12 bytes each. It is not for concurrent use.
type pendingLinks struct {
	seed   maphash.Seed
	limit  int // bytes of records in memory
	spill  func() (spillFile, error)
	slots  []uint64 // open addressing: some of the hash of the id, the place of the record; 0 is free
	used   int
	tail   []byte // records that are not in the file
	start  int64  // place of the first of them
	file   spillFile
	filed  bool      // the file was asked for: it is there, or there is none
	era    int       // how often all records were dropped: places of earlier eras are invalid
	buf    []byte    // of a record
	dirs   []heldDir // that the primaries' names are in; records have their numbers
	unused []uint32  // numbers that are free
	number map[*walk.Dir]uint32

	targets int // primaries of a group
}

// spillFile takes records that outgrow memory.
type spillFile interface {
	io.ReaderAt
	WriteAt(p []byte, off int64) error
	io.Closer
}

// heldDir is a directory with how many primaries hold it.
type heldDir struct {
	dir   *walk.Dir
	holds int
}

// pendingLinksMemory is how much of the records is kept in memory, in bytes: about 80,000
// files, so that most trees never touch a temporary file.
const pendingLinksMemory = 8 << 20

const (
	placeBits    = 36 // of a slot; the rest is of the hash
	placeUnit    = 8  // bytes; records begin at a multiple
	firstSlots   = 1 << 10
	firstTail    = 16 << 10 // bytes
	firstRead    = 256      // bytes that are read at first; most records are shorter
	recordLength = 4        // bytes of its length, which it begins with
	recordFixed  = recordLength + 16 + 8 + 1
)

func newPendingLinks(targets, limit int, spill func() (spillFile, error)) *pendingLinks {
	return &pendingLinks{
		targets: targets, era: 1, seed: maphash.MakeSeed(), limit: limit, spill: spill, start: placeUnit,
		slots: make([]uint64, firstSlots), number: map[*walk.Dir]uint32{},
	}
}

func (p *pendingLinks) hashOf(id fsys.ID) uint64 { return maphash.Comparable(p.seed, id) >> placeBits }

// home is where a slot is to be, if that is free.
func (p *pendingLinks) home(slot uint64) int { return int(slot>>placeBits) & (len(p.slots) - 1) }

func (p *pendingLinks) after(i int) int { return (i + 1) & (len(p.slots) - 1) }

func (p *pendingLinks) place(slot uint64) int64 { return int64(slot&(1<<placeBits-1)) * placeUnit }

// take takes the group of id out, nil if there is none.
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

// put stores a group, which the caller must not use any more.
func (p *pendingLinks) put(g *linkGroup) {
	record := p.pack(g)
	place := g.place
	if g.era != p.era || g.length != len(record) || !p.overwrite(place, record) {
		place = p.append(record)
	}
	slot := p.hashOf(g.id)<<placeBits | uint64(place/placeUnit)
	i := p.home(slot)
	for p.slots[i] != 0 {
		i = p.after(i)
	}
	p.slots[i] = slot
	if p.used++; p.used*4 > len(p.slots)*3 {
		p.grow()
	}
}

// free makes a slot free. What follows without a gap moves up, unless it would come
// before its home.
func (p *pendingLinks) free(i int) {
	p.slots[i] = 0
	for j := p.after(i); p.slots[j] != 0; j = p.after(j) {
		home := p.home(p.slots[j])
		if (j-home)&(len(p.slots)-1) >= (j-i)&(len(p.slots)-1) {
			p.slots[i], p.slots[j] = p.slots[j], 0
			i = j
		}
	}
	if p.used--; p.used == 0 { // no record is wanted any more
		p.tail, p.start = p.tail[:0], placeUnit
		p.era++
	}
}

func (p *pendingLinks) grow() {
	old := p.slots
	p.slots = make([]uint64, 2*len(old))
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		i := p.home(slot)
		for p.slots[i] != 0 {
			i = p.after(i)
		}
		p.slots[i] = slot
	}
}

// append adds a record and returns its place.
func (p *pendingLinks) append(record []byte) int64 {
	size := (len(record) + placeUnit - 1) / placeUnit * placeUnit
	if len(p.tail) > 0 && len(p.tail)+size > p.limit {
		p.flush()
	}
	place := p.start + int64(len(p.tail))
	if n := len(p.tail) + size; n > cap(p.tail) { // in few steps, because each leaves its predecessor as garbage
		p.tail = append(make([]byte, 0, max(n, min(4*cap(p.tail), p.limit), firstTail)), p.tail...)
	}
	p.tail = append(p.tail, record...)
	p.tail = p.tail[:place-p.start+int64(size)]
	return place
}

// flush moves the records to the file. Where there is none, or it takes nothing, they
// stay in memory.
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

// overwrite replaces a record by one of the same length, if that is possible.
func (p *pendingLinks) overwrite(place int64, record []byte) bool {
	if place >= p.start {
		copy(p.tail[place-p.start:], record)
		return true
	}
	return p.file.WriteAt(record, place) == nil
}

// read returns the record at place, valid until the next call of anything.
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

// What of a primary is in its record.
const (
	primaryThere    = 1 << iota
	primaryExpected // a manifest of the source lists its name
	primaryRepeated // of its name and its content the same as of the primary before
	primaryHashed   // it has digests
)

// pack makes a record, valid until the next call of anything: its length, the id, the
// names seen, whether the group is broken, then for each target a byte that says what
// there is of a primary, and that. Two records of a group differ in length only if
// their primaries do.
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

func (l *primary) like(other *primary) bool {
	return l.name == other.name && l.size == other.size && l.mtime == other.mtime &&
		(l.digests == nil) == (other.digests == nil) && slices.EqualFunc(l.digests, other.digests, bytes.Equal)
}

func appendField[F string | []byte](b []byte, f F) []byte {
	return append(binary.AppendUvarint(b, uint64(len(f))), f...)
}

// idOfRecord returns the id that a record is about.
func idOfRecord(record []byte) fsys.ID {
	b := record[recordLength:]
	return fsys.ID{Dev: binary.LittleEndian.Uint64(b), Ino: binary.LittleEndian.Uint64(b[8:])}
}

// unpack undoes pack. The primaries hold their directories themselves again.
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
		l := primary{expected: what&primaryExpected != 0}
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

// recordFields takes a record apart.
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

// hold takes over one hold of a directory and returns its number.
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

// letGo hands one hold of a directory back.
func (p *pendingLinks) letGo(d *walk.Dir) {
	n := p.number[d]
	if p.dirs[n].holds--; p.dirs[n].holds > 0 {
		return
	}
	p.dirs[n].dir = nil
	delete(p.number, d)
	p.unused = append(p.unused, n)
}

// close lets go of everything.
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
