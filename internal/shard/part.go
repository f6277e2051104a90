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
	"github.com/seed65876f4f/sealift/internal/record"
)

// The part of an attempt has what the merge needs of it:
//
//	outcome JSON                           a failure, mismatch, conflict or warning
//	dir TARGET MADE INO PATH               a directory at a destination
//	FLAGS TARGET SIZE MTIME DIGESTS PATH   an entry at a destination, in manifest order
//
// Entries come last.

// lineFlags are the letters of the flags of a line, in the order of flagsOf. Records that a plan cannot
// have use the other ones.
const lineFlags = "crdb"

func flagsOf(o *record.Outcome) [len(lineFlags)]*bool {
	return [...]*bool{&o.Created, &o.Replaced, &o.Dropped, &o.Below}
}

// appendOutcome appends the line of an entry. Its first word is never empty.
func appendOutcome(dst []byte, target int, o *record.Outcome) []byte {
	flags := "-"
	for i, set := range flagsOf(o) {
		if *set {
			flags += lineFlags[i : i+1]
		}
	}
	return appendLine(dst, flags, strconv.Itoa(target), strconv.FormatInt(o.Size, 10), strconv.FormatInt(o.Mtime, 10), string(o.Digests.AppendHex(nil)), o.Path)
}

// parseOutcome reads the line of an entry after its first word, the flags.
func parseOutcome(f *fields, flags string, targets int, hashes []hash.Algorithm) (target int, o *record.Outcome) {
	o = &record.Outcome{}
	for i, set := range flagsOf(o) {
		*set = strings.IndexByte(flags, lineFlags[i]) > 0
	}
	target = f.number(targets)
	o.Size, o.Mtime = f.integer(), f.integer()
	if word := f.word(); word != "-" {
		digests := strings.Split(word, ",")
		if len(digests) != len(hashes) {
			f.err = errField
			return target, o
		}
		for i, a := range hashes {
			o.Digests = append(o.Digests, f.digest(digests[i], a.Size()))
		}
	}
	if o.Path = f.path(); !strings.HasPrefix(flags, "-") || o.Path == "" || o.Size < 0 {
		f.err = errField
	}
	return target, o
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

// PutLine adds the outcome of an entry at a destination. The part has several of them for one path in the
// order of the calls.
func (w *PartWriter) PutLine(target int, o record.Outcome) error {
	hashes := w.attempt.store.Plan.Options.Hashes
	if !IsPath(o.Path) || o.Size < 0 || len(o.Digests) != 0 && len(o.Digests) != len(hashes) {
		return fmt.Errorf("%.100q cannot be listed", o.Path)
	}
	w.text = appendOutcome(w.text[:0], target, &o)
	return w.lines[target].Add([]byte(o.Path), w.text)
}

// Forget removes the lines for a destination that was dropped: nothing is known of its files.
func (w *PartWriter) Forget(target int) {
	_ = w.lines[target].Close()
	w.lines[target] = newSorter(w.attempt.Dir, partMemory)
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
	for _, sorted := range w.lines {
		err := sorted.Each(func(_, line []byte) error {
			_, err := part.Write(line)
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
	Line    func(target int, o *record.Outcome) error // several of one path come in their order
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
		target, o := parseOutcome(&l.fields, word, targets, s.Plan.Options.Hashes)
		if l.err != nil {
			return l.check()
		}
		return r.Line(target, o)
	}
	return nil
}
