package scrub

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

// Schedule joins the state, the lines of the manifests and the names of the tree by path, and orders
// the files that are due. All of that is sorted in bounded memory, with temporary files.
//
//	Remember, List, Alias, Walked ──by path──▶ Order ──by urgency──▶ Each ──▶ checks ──▶ Record ──▶ Write
//
// One goroutine may call Each while another one calls Record and Write.
type Schedule struct {
	byPath *extsort.Sorter // records of all kinds, by path
	due    *extsort.Sorter // files to check, by urgency
	state  *extsort.Sorter // entries of the listed files; the last one of a path counts

	Listed  int64 // files that the manifests list
	Due     int64 // those that are due
	Known   int64 // listed files with an entry in the state
	Dropped int64 // entries whose files no manifest lists any more
}

// Memory limits of the sorters, in bytes.
const (
	joinMemory = 16 << 20
	dueMemory  = 8 << 20
)

// The kinds of records by path: the first byte of the value.
const (
	kindEntry  = 'e' // an entry of the state
	kindLine   = 'l' // a line of a manifest
	kindAlias  = 'a' // the path is another spelling of a listed one
	kindWalked = 'w' // the tree has a regular file of the path
	kindOther  = 'o' // the tree has another kind of entry there
)

// NewSchedule returns an empty Schedule. The caller must Close it.
func NewSchedule() *Schedule {
	return &Schedule{
		byPath: extsort.New(extsort.TempFile, joinMemory),
		due:    extsort.New(extsort.TempFile, dueMemory),
		state:  extsort.New(extsort.TempFile, dueMemory),
	}
}

// Close removes the temporary files.
func (s *Schedule) Close() error {
	return errors.Join(s.byPath.Close(), s.due.Close(), s.state.Close())
}

// Remember adds an entry of the state.
func (s *Schedule) Remember(path string, e Entry) error {
	return s.byPath.Add([]byte(path), e.append([]byte{kindEntry}))
}

// List adds a line of a manifest, in any encoding.
func (s *Schedule) List(path string, line []byte) error {
	return s.byPath.Add([]byte(path), append([]byte{kindLine}, line...))
}

// Alias adds another spelling of a listed path.
func (s *Schedule) Alias(path string) error { return s.byPath.Add([]byte(path), []byte{kindAlias}) }

// Walked adds an entry of the tree.
func (s *Schedule) Walked(path string, regular bool) error {
	kind := byte(kindOther)
	if regular {
		kind = kindWalked
	}
	return s.byPath.Add([]byte(path), []byte{kind})
}

// Rules say which files are due.
type Rules struct {
	Now       int64 // the time of the run; later checks count as none
	DueBefore int64 // a file is due if its last check is not after this time

	Gone func(path string) bool  // reports whether a file that was not walked does not exist
	New  func(path string) error // gets each file that no manifest lists
}

// File is a file to check.
type File struct {
	Path    string
	Entry   Entry    // entry of the state; zero if there is none
	Gone    bool     // the file does not exist, so that the check needs no time
	Damaged bool     // the last check was not good
	Lines   [][]byte // lines as List has got them
}

// Order makes the order of the files that are due. Nothing can be added afterwards.
//
// Files that do not exist come first, then damaged ones, because their repair should be noticed, then
// those with the oldest checks. Files with equal times are in the order of their paths.
func (s *Schedule) Order(r Rules) error {
	g := &group{}
	err := s.byPath.Each(func(key, value []byte) error {
		if g.path != string(key) {
			if err := s.finish(g, r); err != nil {
				return err
			}
			g = &group{path: string(key)}
		}
		return s.take(g, value, r)
	})
	if err == nil {
		err = s.finish(g, r)
	}
	return errors.Join(err, s.byPath.Close())
}

// group has the records of one path, which is "" before the first one.
type group struct {
	path   string
	entry  Entry
	lines  [][]byte
	listed bool // true if a line was added to lines, perhaps a part of them that is already due
	alias  bool
	walked byte // kindWalked or kindOther; 0 if the walk has not met the path
}

// maxLines limits how many lines a File has. They are kept in memory.
const maxLines = 1000

// take adds a record to a group.
func (s *Schedule) take(g *group, value []byte, r Rules) error {
	switch value[0] {
	case kindEntry:
		g.entry, _ = parseEntry(string(value[1:])) // Remember has written it
	case kindLine:
		g.lines = append(g.lines, bytes.Clone(value[1:]))
		if len(g.lines) == maxLines {
			return s.schedule(g, r)
		}
	case kindAlias:
		g.alias = true
	default:
		g.walked = value[0]
	}
	return nil
}

// finish finds out what follows from a complete group.
func (s *Schedule) finish(g *group, r Rules) error {
	switch {
	case len(g.lines) > 0 || g.listed:
		return s.schedule(g, r)
	case g.entry != Entry{}:
		s.Dropped++
	}
	if g.walked == kindWalked && !g.alias {
		return r.New(g.path)
	}
	return nil
}

// schedule adds the file of a group with its lines to those that are due, if it is.
func (s *Schedule) schedule(g *group, r Rules) error {
	if !g.listed {
		g.listed = true
		s.Listed++
		if g.entry != (Entry{}) {
			s.Known++
			if err := s.Record(g.path, g.entry); err != nil {
				return err
			}
		}
	}
	if len(g.lines) == 0 {
		return nil
	}
	checked := g.entry.Checked
	key := make([]byte, keyPrefix, keyPrefix+len(g.path))
	switch {
	case g.walked == 0 && r.Gone(g.path):
		key[0] = goneFirst
	case g.entry.Result != Good:
		key[0] = damagedNext
	case checked > r.Now: // the clock was wrong, then or now, but the dates have an order
		key[0] = futureNext
	case checked > r.DueBefore:
		return nil
	default:
		key[0] = othersLast
	}
	s.Due++
	binary.BigEndian.PutUint64(key[1:], uint64(checked))
	var value []byte
	if g.entry == (Entry{}) {
		value = appendBytes(value, nil)
	} else {
		value = appendBytes(value, g.entry.append(nil))
	}
	for _, line := range g.lines {
		value = appendBytes(value, line)
	}
	g.lines = nil
	return s.due.Add(append(key, g.path...), value)
}

// keyPrefix is the length of the key of a file that is due, before its path: one of the constants
// below, and the time of the last check.
const keyPrefix = 1 + 8

const (
	goneFirst byte = iota
	damagedNext
	futureNext
	othersLast
)

// Each calls yield for the files that are due, in their order.
func (s *Schedule) Each(yield func(*File) error) error {
	return s.due.Each(func(key, value []byte) error {
		f := &File{Path: string(key[keyPrefix:]), Gone: key[0] == goneFirst, Damaged: key[0] == damagedNext}
		text, rest := cutBytes(value)
		f.Entry, _ = parseEntry(string(text)) // schedule has written it, or nothing
		for len(rest) > 0 {
			var line []byte
			line, rest = cutBytes(rest)
			f.Lines = append(f.Lines, bytes.Clone(line))
		}
		return yield(f)
	})
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// cutBytes returns what appendBytes has appended, and the rest.
func cutBytes(b []byte) (first, rest []byte) {
	n, size := binary.Uvarint(b)
	return b[size:][:n], b[size:][n:]
}

// Record replaces the entry of a listed file.
func (s *Schedule) Record(path string, e Entry) error {
	return s.state.Add([]byte(path), e.append(nil))
}

// Write writes the state of a run that began at a time, and returns the statistics of its entries.
// Checks after now count as none, and those before overdue are too old.
func (s *Schedule) Write(w io.Writer, run, now, overdue int64) (stats Stats, err error) {
	if err := writeHead(w, run); err != nil {
		return stats, err
	}
	var line []byte
	err = s.state.EachLast(func(path, entry []byte) error {
		e, _ := parseEntry(string(entry)) // Record has written it
		stats.add(e, now, overdue)
		line = appendLine(line[:0], string(path), entry)
		_, err := w.Write(line)
		return err
	})
	return stats, err
}
