package shard

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

var (
	errChanged = errors.New("it is not the file that the plan describes: its size or digest differs")
	errOrder   = errors.New("it is not in ascending order")
	errTorn    = errors.New("it ends early")
	errAfter   = errors.New("something follows its end")
)

// A LineError says that a file of the plan has a malformed line.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// lines reads the lines of a file whose digest was checked, and checks it again on the way:
// another process may write to the file meanwhile.
type lines struct {
	file   *fsys.File
	about  File
	in     *bufio.Reader
	digest hash.Hash
	line   []byte
	number int
	again  bool // the current line is to be read again
}

// openLines opens a file of the plan, compares it with its description, and reads its first line.
func openLines(dir *fsys.Dir, name string, about File, head string) (*lines, error) {
	file, err := openPrivate(dir, name)
	if err != nil {
		return nil, err
	}
	l := &lines{file: file, about: about, digest: sha256.New()}
	if err := l.check(head); err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

func (l *lines) check(head string) error {
	whole := sha256.New()
	size, err := io.Copy(whole, l.file.Reader(l.about.Size+1))
	if err != nil {
		return err
	}
	if size != l.about.Size || hex.EncodeToString(whole.Sum(nil)) != l.about.SHA256 {
		return errChanged
	}
	l.in = bufio.NewReaderSize(l.file.Reader(l.about.Size), fileBuffer)
	line, err := l.next()
	if err == nil && string(line)+"\n" != head {
		err = &LineError{1, errors.New("it is not of this plan")}
	}
	return err
}

// maxLine is the longest line, in bytes: a path in which every byte is escaped, in JSON.
const maxLine = 6*MaxPath + 1<<20

// next returns the next line without its line feed. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	if l.again {
		l.again = false
		return l.line, nil
	}
	l.number++
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		_, _ = l.digest.Write(part) // it never returns an error
		l.line = append(l.line, part...)
		switch {
		case err == nil:
			l.line = l.line[:len(l.line)-1]
			return l.line, nil
		case errors.Is(err, io.EOF):
			return nil, l.failed(errTorn)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(l.line) > maxLine:
			return nil, l.failed(errFields)
		}
	}
}

// unread makes next return the current line again.
func (l *lines) unread() { l.again = true }

func (l *lines) failed(err error) error { return &LineError{l.number, err} }

// entry is next for the first line of an entry that count entries precede. At the end of the file it
// checks that nothing follows, and that the number of entries and the digest are right. It then
// returns io.EOF.
func (l *lines) entry(count int64) ([]byte, error) {
	line, err := l.next()
	if err != nil || string(line) != endLine {
		return line, err
	}
	if _, err := l.in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, l.failed(errAfter)
	}
	if count != l.about.Entries || hex.EncodeToString(l.digest.Sum(nil)) != l.about.SHA256 {
		return nil, errChanged
	}
	return nil, io.EOF
}

// Reader reads the entries of a shard.
type Reader struct {
	plan  *Plan
	lines *lines
	count int64
	dir   EntryDir
	key   []byte // of the entry before
	spare []byte // for the next key
}

// OpenShard opens the shard with this index. The caller must Close the reader.
func (s *Store) OpenShard(index int) (*Reader, error) {
	l, err := s.openShardLines(index)
	if err != nil {
		return nil, err
	}
	return &Reader{plan: s.Plan, lines: l}, nil
}

// openShardLines opens the shard with this index.
func (s *Store) openShardLines(index int) (*lines, error) {
	if err := s.checkIndex(index); err != nil {
		return nil, err
	}
	fail := func(err error) (*lines, error) { return nil, fmt.Errorf("shard %d of the plan: %w", index, err) }
	dir, err := openDir(s.dir, shardsName)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	l, err := openLines(dir, shardName(index), s.Plan.Shards[index], shardHead(s.Plan.ID, index))
	if err != nil {
		return fail(err)
	}
	return l, nil
}

// Close closes the file.
func (r *Reader) Close() { r.lines.file.Close() }

// Dir returns the directory of the entry that Next has returned.
func (r *Reader) Dir() EntryDir { return r.dir }

// Next returns the next entry, or io.EOF. Paths ascend by directory, folded name and name.
func (r *Reader) Next() (*Entry, error) {
	line, err := r.lines.entry(r.count)
	if err != nil {
		return nil, err
	}
	begins := bytes.HasPrefix(line, []byte("in "))
	if begins {
		if line, err = r.enter(line); err != nil {
			return nil, err
		}
	}
	e, err := parseEntry(line, uint64(r.plan.Totals.LinkGroups))
	if err != nil {
		return nil, r.lines.failed(err)
	}
	key := appendKey(r.spare[:0], e.Path, aboutEntry)
	if bytes.Compare(r.key, key) >= 0 {
		return nil, r.lines.failed(errOrder)
	}
	if dir, _ := splitPath(e.Path); dir != r.dir.Path || r.count == 0 && !begins {
		return nil, r.lines.failed(errDirectory)
	}
	r.key, r.spare = key, r.key
	r.count++
	return e, r.readDigests(e)
}

// enter reads the line of a directory, and returns the next one.
func (r *Reader) enter(line []byte) ([]byte, error) {
	d, err := parseEntryDir(line, len(r.plan.Targets))
	if err == nil && r.count > 0 && d.Path == r.dir.Path {
		err = errOrder
	}
	if err != nil {
		return nil, r.lines.failed(err)
	}
	r.dir = d
	return r.lines.next()
}

// readDigests reads the lines that follow the line of an entry.
func (r *Reader) readDigests(e *Entry) error {
	for {
		line, err := r.lines.next()
		if err != nil {
			return err
		}
		expect, previous := bytes.HasPrefix(line, []byte("expect ")), bytes.HasPrefix(line, []byte("line "))
		if !previous && (!expect || len(e.Previous) > 0) {
			r.lines.unread()
			return nil
		}
		f := fields{rest: string(line)}
		f.word()
		if expect {
			x := ListDigest{List: int(f.natural(f.word(), maxIndex))}
			if f.err == nil && x.List < len(r.plan.Lists) {
				x.Digest = f.digest(f.last(), r.plan.Lists[x.List].Hash.Size())
			} else {
				f.fail(errNumber)
			}
			e.Expected = append(e.Expected, x)
		} else {
			l := LineDigest{Target: int(f.natural(f.word(), uint64(len(r.plan.Targets)-1)))}
			l.Hash = int(f.natural(f.word(), uint64(maxIndex)))
			if f.err == nil && l.Hash < len(r.plan.Options.Hashes) {
				l.Digest = f.digest(f.last(), r.plan.Options.Hashes[l.Hash].Size())
			} else {
				f.fail(errNumber)
			}
			e.Previous = append(e.Previous, l)
		}
		if f.err != nil {
			return r.lines.failed(f.err)
		}
	}
}

func parseEntryDir(line []byte, targets int) (EntryDir, error) {
	f := fields{rest: string(line)}
	if f.word() != "in" {
		f.fail(errWord)
	}
	d := EntryDir{Absent: f.absence(targets)}
	d.Path = f.path()
	return d, f.err
}

func parseEntry(line []byte, groups uint64) (*Entry, error) {
	f := fields{rest: string(line)}
	kind, known := kindsByWord[f.word()]
	if !known {
		f.fail(errWord)
	}
	e := &Entry{Kind: kind}
	e.Size = int64(f.natural(f.word(), math.MaxInt64))
	e.Mtime = f.time(f.word())
	e.Group = f.natural(f.word(), groups)
	e.Path = f.path()
	if e.Path == "" {
		f.fail(errPath)
	}
	return e, f.err
}

// DirReader reads the table of directories.
type DirReader struct {
	lines   *lines
	targets int
	count   int64
	key     string // of the directory before
}

// OpenDirs opens the table of directories. The caller must Close the reader.
func (s *Store) OpenDirs() (*DirReader, error) {
	l, err := openLines(s.dir, dirsName, s.Plan.Dirs, tableHead(dirsName, s.Plan.ID))
	if err != nil {
		return nil, fmt.Errorf("directories of the plan: %w", err)
	}
	return &DirReader{lines: l, targets: len(s.Plan.Targets)}, nil
}

// Close closes the file.
func (r *DirReader) Close() { r.lines.file.Close() }

// Next returns the next directory, or io.EOF. Everything below a directory follows it, before
// any other directory.
func (r *DirReader) Next() (*Directory, error) {
	line, err := r.lines.entry(r.count)
	if err != nil {
		return nil, err
	}
	d, err := parseDirectory(line, r.targets)
	if err != nil {
		return nil, r.lines.failed(err)
	}
	key := "" // the root is the first one
	if d.Path != "" {
		key = d.Path + "/"
	}
	if r.count > 0 && key <= r.key {
		return nil, r.lines.failed(errOrder)
	}
	r.key = key
	r.count++
	return d, nil
}

func parseDirectory(line []byte, targets int) (*Directory, error) {
	f := fields{rest: string(line)}
	if f.word() != "dir" {
		f.fail(errWord)
	}
	d := &Directory{}
	d.ID.Dev = f.natural(f.word(), math.MaxUint64)
	d.ID.Ino = f.natural(f.word(), math.MaxUint64)
	d.Mtime = f.time(f.word())
	d.Ctime = f.time(f.word())
	switch f.word() {
	case "whole":
	case "implied":
		d.Implied = true
	default:
		f.fail(errWord)
	}
	d.Absent = f.absence(targets)
	d.Path = f.path()
	return d, f.err
}

// MissingReader reads what only manifests of the source have.
type MissingReader struct {
	lines *lines
	lists int
	count int64
	last  Missing
}

// OpenMissing opens the list of the paths that manifests of the source list and the source
// lacks. The caller must Close the reader.
func (s *Store) OpenMissing() (*MissingReader, error) {
	l, err := openLines(s.dir, missingName, s.Plan.Missing, tableHead(missingName, s.Plan.ID))
	if err != nil {
		return nil, fmt.Errorf("missing paths of the plan: %w", err)
	}
	return &MissingReader{lines: l, lists: len(s.Plan.Lists)}, nil
}

// Close closes the file.
func (r *MissingReader) Close() { r.lines.file.Close() }

// Next returns the next path, or io.EOF. They ascend by manifest and path.
func (r *MissingReader) Next() (m Missing, err error) {
	line, err := r.lines.entry(r.count)
	if err != nil {
		return m, err
	}
	m, err = parseMissing(line, r.lists)
	if err == nil && r.count > 0 && cmp.Or(cmp.Compare(r.last.List, m.List), cmp.Compare(r.last.Path, m.Path)) >= 0 {
		err = errOrder
	}
	if err != nil {
		return m, r.lines.failed(err)
	}
	r.last = m
	r.count++
	return m, nil
}

func parseMissing(line []byte, lists int) (m Missing, err error) {
	f := fields{rest: string(line)}
	if f.word() != "missing" {
		f.fail(errWord)
	}
	m.List = int(f.natural(f.word(), maxIndex))
	m.Path = f.path()
	if m.List >= lists {
		f.fail(errNumber)
	}
	if m.Path == "" {
		f.fail(errPath)
	}
	return m, f.err
}
