package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Line is the outcome of one entry at one destination. The merge writes the manifest from lines.
type Line struct {
	Path    string
	Digests hash.Digests // one for each of Options.Hashes; nil if none are known
	Size    int64        // bytes of the file that has Digests
	Mtime   int64        // of that file, seconds since 1970

	Created, Replaced bool // by the attempt
	Failed            bool // the task reported a failure of the entry
	Resumed           bool // an earlier attempt has copied it, or found it equal
	// Dropped: no manifest may list the path, even if an earlier manifest does.
	Dropped bool
	// Below: Path is a directory, and no manifest may keep lines of earlier manifests for paths
	// below it.
	Below bool
}

// lineFlags are the letters of a line, in the order of lineBits.
const lineFlags = "crfudb"

func (l *Line) lineBits() [len(lineFlags)]*bool {
	return [...]*bool{&l.Created, &l.Replaced, &l.Failed, &l.Resumed, &l.Dropped, &l.Below}
}

// linesName returns the name of the part with the lines for a destination.
func linesName(target int) string { return fmt.Sprintf("lines-%d", target) }

// partMemory is how much the lines of one part use in memory, in bytes.
const partMemory = 8 << 20

// LineWriter writes the lines for one destination. Only one goroutine may use it.
type LineWriter struct {
	attempt *Attempt
	target  int
	sorter  *extsort.Sorter
	value   []byte
}

// NewLines begins the part with the lines for a destination. The caller must call Finish or Close.
func (a *Attempt) NewLines(target int) *LineWriter {
	return &LineWriter{attempt: a, target: target, sorter: newSorter(a.Dir, partMemory)}
}

// Put adds a line. The caller may put lines in any order, and several for one path. These become
// one line with the flags of all of them and the digests of the last one, or without digests if one
// of them is Dropped.
func (w *LineWriter) Put(l Line) error {
	hashes := w.attempt.store.Plan.Options.Hashes
	if !IsPath(l.Path) || l.Size < 0 {
		return fmt.Errorf("%.100q cannot be listed", l.Path)
	}
	if len(l.Digests) != 0 && len(l.Digests) != len(hashes) {
		return fmt.Errorf("%.100q has %d digests in place of %d", l.Path, len(l.Digests), len(hashes))
	}
	if l.Dropped {
		l.Digests = nil
	}
	w.value = appendLine(w.value[:0], &l)
	return w.sorter.Add([]byte(l.Path), w.value)
}

// Each calls yield for the lines in manifest order. The line is valid during the call. Put may be
// called afterwards, and the next Each then includes the new lines.
func (w *LineWriter) Each(yield func(*Line) error) error {
	var last *Line
	err := w.sorter.Each(func(_, value []byte) error {
		l, err := parseLine(bytes.TrimSuffix(value, []byte{'\n'}), w.attempt.store.Plan.Options.Hashes)
		if err != nil {
			return errors.Join(errRecord, err)
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

// add merges next, a later line for the same path, into l.
func (l *Line) add(next *Line) {
	bits, more := l.lineBits(), next.lineBits()
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

// Finish writes the part. The content is then durable. The name becomes durable in Attempt.Finish.
func (w *LineWriter) Finish() (Part, error) {
	a := w.attempt
	return a.writePart(linesName(w.target), linesHead(a.store.Plan.ID, a.index, a.Number, w.target), func(f *planFile) error {
		var text []byte
		return w.Each(func(l *Line) error {
			text = appendLine(text[:0], l)
			_, err := f.Write(text)
			return err
		})
	})
}

// Close frees what the writer uses. It may be called after Finish.
func (w *LineWriter) Close() { _ = w.sorter.Close() }

func linesHead(id string, shard, attempt, target int) string {
	return fmt.Sprintf("sealift-lines %s %d %d %d\n", id, shard, attempt, target)
}

// writePart writes a part into the directory of the attempt, which Attempt.Finish syncs.
func (a *Attempt) writePart(name, head string, body func(*planFile) error) (Part, error) {
	var about File
	err := writeLines(a.Dir, name, head, &about, body)
	return Part{Name: name, Size: about.Size, SHA256: about.SHA256}, err
}

// appendLine appends a line:
//
//	FLAGS SIZE MTIME DIGESTS PATH
func appendLine(dst []byte, l *Line) []byte {
	dst = appendFlags(dst, l)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, l.Size, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, l.Mtime, 10)
	dst = append(dst, ' ')
	dst = l.Digests.AppendHex(dst)
	dst = append(dst, ' ')
	dst = appendPath(dst, l.Path)
	return append(dst, '\n')
}

func appendFlags(dst []byte, l *Line) []byte {
	start := len(dst)
	for i, bit := range l.lineBits() {
		if *bit {
			dst = append(dst, lineFlags[i])
		}
	}
	if len(dst) == start {
		dst = append(dst, '-')
	}
	return dst
}

var errFlags = errors.New("it has malformed flags")

func parseLine(text []byte, hashes []hash.Algorithm) (*Line, error) {
	f := fields{rest: string(text)}
	l := &Line{}
	flags := f.word()
	for i, bit := range l.lineBits() {
		*bit = strings.IndexByte(flags, lineFlags[i]) >= 0
	}
	var written [len(lineFlags)]byte
	if string(appendFlags(written[:0], l)) != flags { // unknown, repeated, or in another order
		f.fail(errFlags)
	}
	l.Size = int64(f.natural(f.word(), math.MaxInt64))
	l.Mtime = f.integer(f.word())
	if word := f.word(); word != "-" {
		digests := strings.Split(word, ",")
		if len(digests) != len(hashes) {
			f.fail(errDigest)
			digests = nil
		}
		for i, a := range hashes[:len(digests)] {
			l.Digests = append(l.Digests, f.digest(digests[i], a.Size()))
		}
	}
	if l.Path = f.path(); l.Path == "" {
		f.fail(errPath)
	}
	return l, f.err
}

// LineReader reads the lines of a part.
type LineReader struct {
	hashes []hash.Algorithm
	lines  *lines
	before string // the path of the line before
}

// OpenLines opens the part with the lines for a destination that a finished shard has. The
// caller must Close the reader.
func (s *Store) OpenLines(f *Finished, target int) (*LineReader, error) {
	l, err := s.openPart(f, linesName(target), linesHead(s.Plan.ID, f.Shard, f.Attempt, target))
	if err != nil {
		return nil, err
	}
	return &LineReader{hashes: s.Plan.Options.Hashes, lines: l}, nil
}

// openPart opens a part of a finished shard.
func (s *Store) openPart(f *Finished, name, head string) (_ *lines, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("part %s of shard %d: %w", name, f.Shard, err)
		}
	}()
	i := slices.IndexFunc(f.Parts, func(p Part) bool { return p.Name == name })
	if i < 0 {
		return nil, errors.New("the record of the shard does not have it")
	}
	work, err := s.openWork(f.Shard)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	dir, err := openDir(work, attemptName(f.Attempt))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openLines(dir, name, File{Size: f.Parts[i].Size, SHA256: f.Parts[i].SHA256}, head)
}

// partHead returns the first line of a part whose other lines are JSON.
func partHead(name, id string, shard, attempt int) string {
	return fmt.Sprintf("sealift-%s %s %d %d\n", name, id, shard, attempt)
}

// openJSON opens a part whose lines are JSON, and reads the first object.
func (s *Store) openJSON(f *Finished, name string, first any) (*lines, error) {
	l, err := s.openPart(f, name, partHead(name, s.Plan.ID, f.Shard, f.Attempt))
	if err != nil {
		return nil, err
	}
	text, err := l.next()
	if err == nil {
		err = l.parseJSON(text, first)
	}
	if err != nil {
		l.file.Close()
		return nil, fmt.Errorf("part %s of shard %d: %w", name, f.Shard, err)
	}
	return l, nil
}

// Close closes the file.
func (r *LineReader) Close() { r.lines.file.Close() }

// Next returns the next line, or io.EOF. Paths ascend by their bytes.
func (r *LineReader) Next() (*Line, error) {
	text, err := r.lines.entry(0)
	if err != nil {
		return nil, err
	}
	l, err := parseLine(text, r.hashes)
	if err != nil {
		return nil, r.lines.failed(err)
	}
	if r.before >= l.Path {
		return nil, r.lines.failed(errOrder)
	}
	r.before = l.Path
	return l, nil
}
