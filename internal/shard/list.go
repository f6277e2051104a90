package shard

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// This file has the lines of lists, of the table of directories and of parts. Each is a word, and
// fields of which the last one may contain spaces.

// MaxPath is the longest path of an entry, in bytes.
const MaxPath = 1 << 20

// Entry is one name of the source in a list. A list names each directory that its task makes or
// copies into, before the entries of that directory.
type Entry struct {
	Path string // relative to the root
	Kind fsys.Kind
	Size int64 // bytes; 0 in a list that is read

	Expected []ListDigest // what manifests of the source list for it
	Previous []LineDigest // its lines in manifests of the destinations
	// Missing: only the manifests in Expected have the path, the source does not.
	Missing bool
}

// ListDigest is what one manifest of the source lists for an entry.
type ListDigest struct {
	List   int // index in Plan.Lists
	Digest []byte
}

// LineDigest is the line for an entry in the previous manifest of a destination.
type LineDigest struct {
	Target int // index in Plan.Targets
	Hash   int // index in Options.Hashes
	Digest []byte
}

// Directory is one directory of the source.
type Directory struct {
	Path string // relative to the root, "" for the root itself
	// Mtime and Ctime are those when it was listed. They are 0 if the filters do not name it, so
	// that it is only made when something is copied into it.
	Mtime, Ctime fsys.Time
}

// kindWords are the first words of lines for entries. No line begins with a space, which is that of Unknown.
var kindWords = [...]string{
	fsys.Unknown: " ",
	fsys.Regular: "file", fsys.Symlink: "symlink", fsys.Fifo: "fifo", fsys.Socket: "socket",
	fsys.CharDevice: "char", fsys.BlockDevice: "block", fsys.Irregular: "irregular", fsys.Directory: "in",
}

// appendEntry appends the lines of an entry:
//
//	in PATH                  a directory
//	KIND NAME                any other entry, in the directory of the last such line
//	expect LIST DIGEST
//	line TARGET HASH DIGEST
func appendEntry(dst []byte, e *Entry) []byte {
	name := e.Path
	if e.Kind != fsys.Directory {
		_, name = Split(e.Path)
	}
	dst = appendLine(dst, kindWords[e.Kind], name)
	for _, x := range e.Expected {
		dst = appendLine(dst, "expect", strconv.Itoa(x.List), hex.EncodeToString(x.Digest))
	}
	for _, l := range e.Previous {
		dst = appendLine(dst, "line", strconv.Itoa(l.Target), strconv.Itoa(l.Hash), hex.EncodeToString(l.Digest))
	}
	return dst
}

// appendMissing appends the line of a path that only a manifest of the source has:
//
//	missing LIST PATH
func appendMissing(dst []byte, list int, path string) []byte {
	return appendLine(dst, "missing", strconv.Itoa(list), path)
}

// appendDirectory appends the line of a directory:
//
//	dir MTIME CTIME PATH
func appendDirectory(dst []byte, d *Directory) []byte {
	return appendLine(dst, "dir", string(d.Mtime.AppendDecimal(nil)), string(d.Ctime.AppendDecimal(nil)), d.Path)
}

// The escapes of a path, so that its line is one line.
var (
	pathEscapes   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	pathUnescapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// appendLine appends a line. Its last field may be a path.
func appendLine(dst []byte, fields ...string) []byte {
	for _, f := range fields[:len(fields)-1] {
		dst = append(append(dst, f...), ' ')
	}
	return append(append(dst, pathEscapes.Replace(fields[len(fields)-1])...), '\n')
}

// textFile is a file of the plan that is being written.
type textFile struct {
	file   *fsys.Pending
	out    *bufio.Writer
	digest hash.Hash
	size   int64
}

func createText(dir *fsys.Dir) (*textFile, error) {
	file, err := dir.Create(false)
	if err != nil {
		return nil, err
	}
	return &textFile{file: file, digest: sha256.New(), out: bufio.NewWriterSize(&fsys.Writer{File: &file.File}, fileBuffer)}, nil
}

// Write implements io.Writer.
func (f *textFile) Write(text []byte) (int, error) {
	f.size += int64(len(text))
	_, _ = f.digest.Write(text) // it never returns an error
	return f.out.Write(text)
}

// commit syncs the file and gives it its name, which the caller makes durable.
func (f *textFile) commit(name string) (size int64, digest string, err error) {
	if err := errors.Join(f.out.Flush(), f.file.SyncToDrive()); err != nil {
		return 0, "", err
	}
	return f.size, hex.EncodeToString(f.digest.Sum(nil)), f.file.CommitReplacing(name)
}

// errChanged says that a file is not the one whose digest is recorded.
var errChanged = errors.New("its size or digest differs from what the plan records")

// lines reads the lines of a file whose digest was compared.
type lines struct {
	file  *fsys.File
	in    *bufio.Reader
	count int
	again string // the line that next returns again
	fields
}

func openLines(dir *fsys.Dir, name string, size int64, digest string) (*lines, error) {
	file, err := openPrivate(dir, name)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, file.Reader(size+1))
	if err == nil && (n != size || hex.EncodeToString(sum.Sum(nil)) != digest) {
		err = errChanged
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &lines{file: file, in: bufio.NewReaderSize(file.Reader(size), fileBuffer)}, nil
}

// Close closes the file.
func (l *lines) Close() { l.file.Close() }

// next reads a line and returns its first word, or io.EOF. The other fields are read by the methods
// of fields.
func (l *lines) next() (word string, err error) {
	text := l.again
	if l.again = ""; text == "" {
		l.count++
		if text, err = l.in.ReadString('\n'); err != nil {
			return "", err
		}
	}
	l.fields = fields{rest: text[:len(text)-1]}
	return l.word(), nil
}

// check returns the error of the fields of the current line.
func (l *lines) check() error {
	if l.err != nil {
		return fmt.Errorf("line %d: %w", l.count, l.err)
	}
	return nil
}

var errField = errors.New("a field is missing, malformed or out of range")

// fields reads the fields of a line. After an error its results mean nothing.
type fields struct {
	rest string
	err  error
}

func (f *fields) word() string {
	word, rest, _ := strings.Cut(f.rest, " ")
	f.rest = rest
	return word
}

// number reads a number from 0 to below limit.
func (f *fields) number(limit int) int {
	n, err := strconv.Atoi(f.word())
	if err != nil || n < 0 || n >= limit {
		f.err = errField
		return 0
	}
	return n
}

func (f *fields) integer() int64 {
	n, err := strconv.ParseInt(f.word(), 10, 64)
	if err != nil {
		f.err = errField
	}
	return n
}

func (f *fields) time() fsys.Time {
	t, ok := fsys.ParseTime(f.word())
	if !ok {
		f.err = errField
	}
	return t
}

func (f *fields) digest(word string, size int) []byte {
	digest, err := hex.DecodeString(word)
	if err != nil || len(digest) != size {
		f.err = errField
	}
	return digest
}

// path reads the rest of the line. The root is the empty path.
func (f *fields) path() string {
	path := f.rest
	if strings.IndexByte(path, '\\') >= 0 {
		path = pathUnescapes.Replace(path)
	}
	if path != "" && !IsPath(path) {
		f.err = errField
	}
	return path
}

// IsPath reports whether an entry of a plan can have the path.
func IsPath(path string) bool { return len(path) <= MaxPath && fsys.IsTreePath(path) }

// ListReader reads the list of a shard.
type ListReader struct {
	*lines
	plan *Plan
	dir  string
}

// OpenList opens the list of a shard. The caller must Close the reader.
func (s *Store) OpenList(index int) (*ListReader, error) {
	if index < 0 || index >= len(s.Plan.Shards) {
		return nil, fmt.Errorf("there is no shard %d; the plan has %d, counted from 0", index, len(s.Plan.Shards))
	}
	dir, err := openDir(s.dir, shardsName)
	var l *lines
	if err == nil {
		defer dir.Close()
		l, err = openLines(dir, shardName(index), s.Plan.Shards[index].Size, s.Plan.Shards[index].SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("shard %d of the plan: %w", index, err)
	}
	return &ListReader{lines: l, plan: s.Plan}, nil
}

// Next returns the next entry, or io.EOF.
func (r *ListReader) Next() (*Entry, error) {
	word, err := r.next()
	if err != nil {
		return nil, err
	}
	e := &Entry{Missing: word == "missing"}
	if e.Missing {
		e.Expected = []ListDigest{{List: r.fields.number(len(r.plan.Lists))}}
		e.Path = r.path()
		return e, r.check()
	}
	kind := slices.Index(kindWords[:], word)
	e.Path = r.path()
	switch {
	case kind < 0:
		r.err = errField
	case kind == int(fsys.Directory):
		r.dir = e.Path
	case r.dir != "":
		e.Path = r.dir + "/" + e.Path
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	e.Kind = fsys.Kind(kind)
	return e, r.readDigests(e)
}

// readDigests reads the lines that follow the line of an entry.
func (r *ListReader) readDigests(e *Entry) error {
	for {
		word, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch word {
		case "expect":
			x := ListDigest{List: r.fields.number(len(r.plan.Lists))}
			if r.err == nil {
				x.Digest = r.digest(r.word(), r.plan.Lists[x.List].Hash.Size())
			}
			e.Expected = append(e.Expected, x)
		case "line":
			l := LineDigest{Target: r.fields.number(len(r.plan.Targets)), Hash: r.fields.number(len(r.plan.Options.Hashes))}
			if r.err == nil {
				l.Digest = r.digest(r.word(), r.plan.Options.Hashes[l.Hash].Size())
			}
			e.Previous = append(e.Previous, l)
		default:
			r.again = word + " " + r.rest + "\n"
			return nil
		}
		if err := r.check(); err != nil {
			return err
		}
	}
}

// DirReader reads the table of directories.
type DirReader struct{ *lines }

// OpenDirs opens the table of directories. The caller must Close the reader.
func (s *Store) OpenDirs() (*DirReader, error) {
	l, err := openLines(s.dir, dirsName, s.Plan.Dirs.Size, s.Plan.Dirs.SHA256)
	if err != nil {
		return nil, fmt.Errorf("directories of the plan: %w", err)
	}
	return &DirReader{l}, nil
}

// Next returns the next directory, or io.EOF. The first one is the root. Everything below a
// directory follows it, before any other directory.
func (r *DirReader) Next() (*Directory, error) {
	if _, err := r.next(); err != nil {
		return nil, err
	}
	d := &Directory{Mtime: r.time(), Ctime: r.time(), Path: r.path()}
	return d, r.check()
}

// EachDir calls yield for each directory of the plan, parents first, with what the tasks that made
// the records have recorded about it.
func (s *Store) EachDir(records []*Finished, yield func(*Directory, []Made) error) error {
	sorter := newSorter(s.dir, sortMemory)
	defer sorter.Close() //nolint:errcheck // a temporary that is not needed any more
	for _, f := range records {
		err := s.Part(f, PartReader{Dir: func(m *Made) error {
			return sorter.Add([]byte(dirKey(m.Path)), m.append(nil, strconv.Itoa(m.Shard)))
		}})
		if err != nil {
			return err
		}
	}
	dirs, err := s.OpenDirs()
	if err != nil {
		return err
	}
	defer dirs.Close()
	var made []Made
	dir, err := dirs.Next()
	pass := func(until string) error { // yields the directories before the one with this key
		for err == nil && (until == "" || dirKey(dir.Path) < until) {
			if yieldErr := yield(dir, made); yieldErr != nil {
				return yieldErr
			}
			made = nil
			dir, err = dirs.Next()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	sortErr := sorter.Each(func(key, value []byte) error {
		if err := pass(string(key)); err != nil {
			return err
		}
		m, f := Made{}, fields{rest: string(value[:len(value)-1])}
		m.Shard = f.number(len(s.Plan.Shards))
		m.parse(&f, len(s.Plan.Targets))
		made = append(made, m)
		return f.err
	})
	if sortErr != nil {
		return sortErr
	}
	return pass("")
}

// dirKey returns the key by which directories are sorted, so that a directory comes before everything
// below it.
func dirKey(path string) string {
	if path == "" {
		return "/"
	}
	return "/" + path + "/"
}
