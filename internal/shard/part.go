package shard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// The part of an attempt has what the merge needs of it:
//
//	outcome JSON                           a failure, mismatch, conflict or warning
//	dir TARGET MADE INO PATH               a directory at a destination
//	FLAGS TARGET SIZE MTIME DIGESTS PATH   an entry at a destination, in manifest order
//
// Entries come last.

// Line is the outcome of one entry at one destination. The merge writes the manifest from lines.
type Line struct {
	Path    string
	Digests hash.Digests // one for each of Options.Hashes; nil if none are known
	Size    int64        // bytes of the file that has Digests
	Mtime   int64        // modification time of that file, in seconds since 1970

	Created, Replaced bool // the attempt has created or replaced the entry
	Failed            bool // the task reported a failure of the entry
	Resumed           bool // an earlier attempt has copied it, or found it equal
	// Dropped: no manifest may list the path, even if an earlier manifest does.
	Dropped bool
	// Below: Path is a directory, and no manifest may keep lines of earlier manifests for paths
	// below it.
	Below bool
}

// flags are the letters of a line, in the order of bits. The first one is always there.
const lineFlags = "crfudb"

func (l *Line) bits() [len(lineFlags)]*bool {
	return [...]*bool{&l.Created, &l.Replaced, &l.Failed, &l.Resumed, &l.Dropped, &l.Below}
}

// add merges next, a later line for the same path, into l.
func (l *Line) add(next *Line) {
	bits, more := l.bits(), next.bits()
	for i := range bits {
		*bits[i] = *bits[i] || *more[i]
	}
	if next.Digests != nil {
		l.Digests, l.Size, l.Mtime = next.Digests, next.Size, next.Mtime
	}
	if l.Dropped {
		l.Digests = nil
	}
}

func (l *Line) append(dst []byte, target int) []byte {
	flags := "-"
	for i, bit := range l.bits() {
		if *bit {
			flags += lineFlags[i : i+1]
		}
	}
	return appendLine(dst, flags, strconv.Itoa(target), strconv.FormatInt(l.Size, 10), strconv.FormatInt(l.Mtime, 10), string(l.Digests.AppendHex(nil)), l.Path)
}

// parse reads a line after its first word, the flags. It returns the destination.
func (l *Line) parse(f *fields, flags string, targets int, hashes []hash.Algorithm) (target int) {
	for i, bit := range l.bits() {
		*bit = strings.IndexByte(flags, lineFlags[i]) > 0
	}
	target = f.number(targets)
	l.Size, l.Mtime = f.integer(), f.integer()
	if word := f.word(); word != "-" {
		digests := strings.Split(word, ",")
		if len(digests) != len(hashes) {
			f.err = errField
			return target
		}
		for i, a := range hashes {
			l.Digests = append(l.Digests, f.digest(digests[i], a.Size()))
		}
	}
	if l.Path = f.path(); !strings.HasPrefix(flags, "-") || l.Path == "" || l.Size < 0 {
		f.err = errField
	}
	return target
}

// Outcome is a failure, a mismatch, a conflict or a warning of an attempt.
type Outcome struct {
	Kind   string `json:"kind"`
	Path   Text   `json:"path"`   // relative to the root; "" for none
	Target int    `json:"target"` // index in Plan.Targets; -1 for the source, or for all
	Stage  string `json:"stage"`
	Cause  Text   `json:"cause"`
	Name   string `json:"name,omitempty"` // the name of the cause in package outcome; "" for none
	Hint   string `json:"hint,omitempty"`
	Next   string `json:"next,omitempty"`
}

// Made is a directory at a destination, as a task has left it.
type Made struct {
	Shard  int
	Target int    // index in Plan.Targets
	New    bool   // the task made it
	Ino    uint64 // 0 if the file system has no stable numbers
	Path   string

	Replaced bool // the task made it in place of a symbolic link
}

// append appends a line that begins with the word.
func (m *Made) append(dst []byte, word string) []byte {
	made := "0"
	switch {
	case m.Replaced:
		made = "2"
	case m.New:
		made = "1"
	}
	return appendLine(dst, word, strconv.Itoa(m.Target), made, strconv.FormatUint(m.Ino, 10), m.Path)
}

// parse reads a line after its first word.
func (m *Made) parse(f *fields, targets int) {
	m.Target = f.number(targets)
	made := f.word()
	m.New, m.Replaced = made != "0", made == "2"
	var err error
	if m.Ino, err = strconv.ParseUint(f.word(), 10, 64); err != nil {
		f.err = errField
	}
	m.Path = f.path()
}

// PartWriter collects the part of an attempt. PutOutcome and PutDir may be called from several
// goroutines if the caller excludes them from each other.
type PartWriter struct {
	attempt *Attempt
	file    *fsys.Spill // outcomes and directories
	size    int64       // bytes of file
	out     *bufio.Writer
	lines   []*extsort.Sorter // one sorter for each destination
	text    []byte
}

// partMemory is how much the lines for one destination use in memory, in bytes.
const partMemory = 8 << 20

// NewPart begins the part of the attempt. The caller must Close it.
func (a *Attempt) NewPart() (*PartWriter, error) {
	file, err := a.Dir.Create(false)
	if err != nil {
		return nil, err
	}
	w := &PartWriter{attempt: a, file: &fsys.Spill{Pending: file}}
	w.out = bufio.NewWriterSize(w.file, fileBuffer)
	for range a.store.Plan.Targets {
		w.lines = append(w.lines, newSorter(a.Dir, partMemory))
	}
	return w, nil
}

// Close removes the temporary files.
func (w *PartWriter) Close() {
	w.file.Abort()
	for _, s := range w.lines {
		_ = s.Close()
	}
}

// maxCause is how much of a cause is recorded, in bytes.
const maxCause = 64 << 10

// PutOutcome adds an outcome.
func (w *PartWriter) PutOutcome(o Outcome) error {
	o.Cause = o.Cause[:min(len(o.Cause), maxCause)]
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.put(append(append([]byte("outcome "), text...), '\n'))
}

// PutDir adds a directory.
func (w *PartWriter) PutDir(m Made) error { return w.put(m.append(nil, "dir")) }

func (w *PartWriter) put(text []byte) error {
	n, err := w.out.Write(text)
	w.size += int64(n)
	return err
}

// PutLine adds a line for a destination. Several lines for one path, in any order, become one line. It
// has the flags of all of them and the digests of the last one. If one of them is Dropped, it has none.
func (w *PartWriter) PutLine(target int, l Line) error {
	hashes := w.attempt.store.Plan.Options.Hashes
	if !IsPath(l.Path) || l.Size < 0 || len(l.Digests) != 0 && len(l.Digests) != len(hashes) {
		return fmt.Errorf("%.100q cannot be listed", l.Path)
	}
	if l.Dropped {
		l.Digests = nil
	}
	w.text = l.append(w.text[:0], target)
	return w.lines[target].Add([]byte(l.Path), w.text)
}

// Forget removes the lines for a destination that was dropped: nothing is known of its files.
func (w *PartWriter) Forget(target int) {
	_ = w.lines[target].Close()
	w.lines[target] = newSorter(w.attempt.Dir, partMemory)
}

// Each calls yield for the lines of a destination in manifest order. The line is valid during the
// call. PutLine may be called afterwards, and the next Each then includes the new lines.
func (w *PartWriter) Each(target int, yield func(*Line) error) error {
	var last *Line
	plan := w.attempt.store.Plan
	err := w.lines[target].Each(func(_, value []byte) error {
		l, f := &Line{}, fields{rest: string(value[:len(value)-1])}
		if l.parse(&f, f.word(), len(plan.Targets), plan.Options.Hashes); f.err != nil {
			return errors.Join(errRecord, f.err)
		}
		if last != nil && last.Path == l.Path {
			last.add(l)
			return nil
		}
		if last != nil {
			if err := yield(last); err != nil {
				return err
			}
		}
		last = l
		return nil
	})
	if err == nil && last != nil {
		err = yield(last)
	}
	return err
}

// Finish writes the part, whose content is then durable, and describes it in the record. The name
// becomes durable in Attempt.Finish.
func (w *PartWriter) Finish(f *Finished) error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	part, err := createText(w.attempt.Dir)
	if err != nil {
		return err
	}
	defer part.file.Abort()
	if _, err := io.CopyBuffer(part, io.NewSectionReader(w.file, 0, w.size), make([]byte, fileBuffer)); err != nil {
		return err
	}
	for target := range w.lines {
		err := w.Each(target, func(l *Line) error {
			w.text = l.append(w.text[:0], target)
			_, err := part.Write(w.text)
			return err
		})
		if err != nil {
			return err
		}
	}
	f.PartSize, f.PartSHA256, err = part.commit(partName)
	return err
}

// PartReader receives the part of a finished shard. Each function may be nil.
type PartReader struct {
	Outcome func(*Outcome) error
	Dir     func(*Made) error
	Line    func(target int, l *Line) error
}

// Part reads the part that a record names.
func (s *Store) Part(f *Finished, r PartReader) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("part of shard %d: %w", f.Shard, err)
		}
	}()
	work, err := s.openWork(f.Shard)
	if err != nil {
		return err
	}
	defer work.Close()
	dir, err := openDir(work, attemptName(f.Attempt))
	if err != nil {
		return err
	}
	defer dir.Close()
	l, err := openLines(dir, partName, f.PartSize, f.PartSHA256)
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		word, err := l.next()
		if errors.Is(err, io.EOF) || r.Line == nil && strings.HasPrefix(word, "-") {
			return nil
		}
		if err == nil {
			err = s.pass(l, word, f, r)
		}
		if err != nil {
			return err
		}
	}
}

// pass passes the current line of a part on.
func (s *Store) pass(l *lines, word string, f *Finished, r PartReader) error {
	targets := len(s.Plan.Targets)
	switch {
	case word == "outcome" && r.Outcome != nil:
		o := &Outcome{}
		if err := json.Unmarshal([]byte(l.rest), o); err != nil {
			return fmt.Errorf("line %d: %w", l.count, err)
		}
		if o.Target < -1 || o.Target >= targets {
			l.err = errField
			return l.check()
		}
		return r.Outcome(o)
	case word == "dir" && r.Dir != nil:
		m := &Made{Shard: f.Shard}
		if m.parse(&l.fields, targets); l.err != nil {
			return l.check()
		}
		return r.Dir(m)
	case word != "outcome" && word != "dir" && r.Line != nil:
		line := &Line{}
		target := line.parse(&l.fields, word, targets, s.Plan.Options.Hashes)
		if l.err != nil {
			return l.check()
		}
		return r.Line(target, line)
	}
	return nil
}
