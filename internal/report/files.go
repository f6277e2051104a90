package report

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"
)

// Limits of the list of files. With the other tables, a page needs less than 16 MiB for a
// tree of any size.
const (
	maxFiles     = 50_000   // entries that a page lists; a browser cannot show more
	maxFileBytes = 10 << 20 // bytes of names and digests: 200 for each entry
	chunkSize    = 256 << 10
)

// File is one entry of a tree.
type File struct {
	Path    string
	Kind    string // type of the entry; "" for a regular file
	Size    int64  // bytes; -1 if unknown
	Mtime   time.Time
	Digests [][]byte // digests in the order of Page.Digests, nil where there is none
	Results []string // results, one for each destination, or one for all; "" where there is none
}

// Files collects the entries of a run, in any order, and counts them. It keeps their
// records while the page can list them all. One goroutine uses it at a time.
type Files struct {
	Sizes Histogram
	Ages  Histogram

	begun  time.Time
	files  int64 // entries added
	full   bool  // true if there were too many to list; no record is kept
	kept   int64 // bytes in chunks
	chunks [][]byte
	index  []location

	texts   []string         // the texts of results
	textIDs map[string]uint8 // indexes of the texts
}

// location is where the record of an entry begins.
type location struct {
	chunk  uint32
	offset uint32
}

// NewFiles returns an empty list for a run that began at a time. Ages are relative to that
// time.
func NewFiles(begun time.Time) *Files {
	return &Files{begun: begun, Sizes: newHistogram(sizeClasses), Ages: newHistogram(ageClasses), textIDs: map[string]uint8{}}
}

// Add adds an entry. It does not keep f.
func (l *Files) Add(f *File) {
	l.files++
	if f.Kind == "" && f.Size >= 0 {
		l.Sizes.add(f.Size, f.Size)
		if !f.Mtime.IsZero() {
			l.Ages.add(int64(max(l.begun.Sub(f.Mtime), -time.Second)/time.Second), f.Size)
		}
	}
	if l.files > maxFiles {
		l.drop()
	}
	l.append(f, fileRecord)
}

// Mark adds a result to an entry that was or will be added: the entry has a problem.
func (l *Files) Mark(path, result string) {
	l.append(&File{Path: path, Size: -1, Results: []string{result}}, markRecord)
}

// Settle sets the result of an entry that was added, in place of its marks. size is -1 if it is unknown.
func (l *Files) Settle(path string, size int64, result string) {
	l.append(&File{Path: path, Size: size, Results: []string{result}}, settledRecord)
}

// Count returns how many entries were added.
func (l *Files) Count() int64 { return l.files }

// Listed reports whether the page will list all entries.
func (l *Files) Listed() bool { return !l.full }

func (l *Files) drop() {
	l.full = true
	l.chunks, l.index, l.kept = nil, nil, 0
}

// append encodes a record: its kind, texts and numbers, each preceded by its length.
func (l *Files) append(f *File, kind recordKind) {
	if len(l.index) >= 2*maxFiles {
		l.drop()
	}
	if l.full {
		return
	}
	need := 64 + len(f.Path) + len(f.Kind) + len(f.Results)
	for _, d := range f.Digests {
		need += 2 + len(d)
	}
	if l.kept += int64(need); l.kept > maxFileBytes {
		l.drop()
		return
	}
	last := len(l.chunks) - 1
	if last < 0 || cap(l.chunks[last])-len(l.chunks[last]) < need {
		l.chunks = append(l.chunks, make([]byte, 0, max(chunkSize, need)))
		last++
	}
	b := l.chunks[last]
	l.index = append(l.index, location{uint32(last), uint32(len(b))})
	b = appendText(b, f.Path)
	b = append(b, byte(kind))
	b = appendText(b, f.Kind)
	b = binary.AppendVarint(b, f.Size)
	b = append(b, boolByte(!f.Mtime.IsZero()))
	b = binary.AppendVarint(b, f.Mtime.Unix())
	b = append(b, byte(len(f.Digests)))
	for _, d := range f.Digests {
		b = appendText(b, string(d))
	}
	b = append(b, byte(min(len(f.Results), 255)))
	for _, text := range f.Results[:min(len(f.Results), 255)] {
		b = append(b, l.textID(text))
	}
	l.kept += int64(len(b)-len(l.chunks[last])) - int64(need)
	l.chunks[last] = b
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// textID returns the number of a text. There are few texts, because results come from the
// program and not from the tree. All texts beyond the 255th have the same number.
func (l *Files) textID(text string) uint8 {
	id, known := l.textIDs[text]
	switch {
	case known:
		return id
	case len(l.texts) == 255:
		text = "other"
		if id, known = l.textIDs[text]; known {
			return id
		}
	}
	id = uint8(len(l.texts))
	l.texts = append(l.texts, text)
	l.textIDs[text] = id
	return id
}

// record is a record that was decoded.
type record struct {
	File
	path []byte
	kind recordKind
}

type recordKind byte

const (
	fileRecord recordKind = iota
	markRecord
	settledRecord
)

// decoder decodes a record.
type decoder struct{ b []byte }

func (d *decoder) bytes() []byte {
	n, size := binary.Uvarint(d.b)
	part := d.b[size : size+int(n)]
	d.b = d.b[size+int(n):]
	return part
}

func (d *decoder) byte() byte {
	b := d.b[0]
	d.b = d.b[1:]
	return b
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	d.b = d.b[size:]
	return n
}

func (l *Files) at(at location) decoder { return decoder{l.chunks[at.chunk][at.offset:]} }

// read reads a record. The next call with r uses its slices again.
func (l *Files) read(at location, r *record) {
	d := l.at(at)
	r.Digests, r.Results, r.Mtime = r.Digests[:0], r.Results[:0], time.Time{}
	r.path = d.bytes()
	r.kind = recordKind(d.byte())
	r.Kind = string(d.bytes())
	r.Size = d.number()
	hasTime, seconds := d.byte() == 1, d.number()
	if hasTime {
		r.Mtime = time.Unix(seconds, 0)
	}
	for range d.byte() {
		r.Digests = append(r.Digests, d.bytes())
	}
	for range d.byte() {
		r.Results = append(r.Results, l.texts[d.byte()])
	}
}

// entry is one entry with all its records.
type entry struct {
	File
	marks   []string
	settled string // replaces marks, if not empty
}

// each calls yield for each entry, in the order of the paths. The entry is valid until
// yield returns.
func (l *Files) each(yield func(*entry)) {
	slices.SortStableFunc(l.index, func(a, b location) int {
		da, db := l.at(a), l.at(b)
		return bytes.Compare(da.bytes(), db.bytes())
	})
	var r record
	var e entry
	for i, at := range l.index {
		l.read(at, &r)
		if i == 0 || e.Path != string(r.path) {
			if i > 0 {
				yield(&e)
			}
			e = entry{File: File{Path: string(r.path), Size: -1, Digests: e.Digests[:0], Results: e.Results[:0]}}
		}
		e.merge(&r)
	}
	if len(l.index) > 0 {
		yield(&e)
	}
}

// merge adds a record of the same path: a mark, a final result, or the line of another manifest.
func (e *entry) merge(r *record) {
	switch r.kind {
	case settledRecord:
		e.settled, e.Size = r.Results[0], r.Size
		return
	case markRecord:
		if !slices.Contains(e.marks, r.Results[0]) {
			e.marks = append(e.marks, r.Results[0])
		}
		return
	}
	e.Kind, e.Size, e.Mtime = r.Kind, max(e.Size, r.Size), r.Mtime
	for i, digest := range r.Digests {
		if i == len(e.Digests) {
			e.Digests = append(e.Digests, nil)
		}
		if len(digest) > 0 {
			e.Digests[i] = digest
		}
	}
	if len(r.Results) > 0 {
		e.Results = append(e.Results[:0], r.Results...)
	}
}
