package report

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// Limits of the list of files. With the other tables, a page needs less than 16 MiB for a
// tree of any size.
const (
	maxFiles     = 50_000   // entries that a page lists; a browser cannot show more
	maxFileBytes = 15 << 20 // bytes of the records: about 300 for each entry
	recordBytes  = 104      // bytes of a record without names and digests
	digestBytes  = 24       // bytes of a slice
)

// File is one entry of a tree.
type File struct {
	Path    string
	Kind    string   // type of the entry; "" for a regular file
	Size    int64    // bytes; -1 if unknown
	Mtime   int64    // seconds since 1970; 0 if unknown
	Digests [][]byte // digests in the order of Page.Digests, nil where there is none
	Results []string // results, one for each destination, or one for all; "" where there is none
}

// Files collects the entries of a run, in any order, and counts them. It keeps their
// records while the page can list them all. One goroutine uses it at a time.
type Files struct {
	Sizes Histogram
	Ages  Histogram

	begun   time.Time
	files   int64 // entries added
	full    bool  // true if there were too many to list; no record is kept
	kept    int   // bytes of records
	records []record
	results []string // those of the last record, which often has the same ones as the next
}

// record is a part of an entry.
type record struct {
	File
	kind recordKind
}

type recordKind byte

const (
	fileRecord recordKind = iota
	markRecord
	settledRecord
)

// NewFiles returns an empty list for a run that began at a time. Ages are relative to that
// time.
func NewFiles(begun time.Time) *Files {
	return &Files{begun: begun, Sizes: newHistogram(sizeClasses), Ages: newHistogram(ageClasses)}
}

// Add adds an entry. It does not keep f.
func (l *Files) Add(f *File) {
	l.files++
	if f.Kind == "" && f.Size >= 0 {
		l.Sizes.add(f.Size, f.Size)
		if f.Mtime != 0 {
			l.Ages.add(max(l.begun.Unix()-f.Mtime, -1), f.Size)
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
	l.records, l.kept = nil, 0
}

// append adds a record, or drops all if there are too many.
func (l *Files) append(f *File, kind recordKind) {
	if l.full {
		return
	}
	r := record{*f, kind}
	if slices.Equal(r.Results, l.results) {
		r.Results = l.results
	}
	l.results = r.Results
	r.Digests = nil
	l.kept += recordBytes + len(f.Path)
	for _, d := range f.Digests {
		r.Digests = append(r.Digests, bytes.Clone(d))
		l.kept += digestBytes + len(d)
	}
	if l.kept > maxFileBytes || len(l.records) >= 2*maxFiles {
		l.drop()
		return
	}
	l.records = append(l.records, r)
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
	slices.SortStableFunc(l.records, func(a, b record) int { return strings.Compare(a.Path, b.Path) })
	var e entry
	for i := range l.records {
		r := &l.records[i]
		if i == 0 || e.Path != r.Path {
			if i > 0 {
				yield(&e)
			}
			e = entry{File: File{Path: r.Path, Size: -1, Digests: e.Digests[:0]}}
		}
		e.merge(r)
	}
	if len(l.records) > 0 {
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
		e.Results = r.Results
	}
}
