package shard

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// MaxPath is the longest path of an entry, in bytes.
const MaxPath = 1 << 20

// Entry is one name of the source that is not a directory.
type Entry struct {
	Path  string // relative to the root
	Kind  fsys.Kind
	Size  int64 // bytes
	Mtime fsys.Time
	Group uint64 // names of one file have the same number; 0 for a file with one name in the plan

	Expected []ListDigest // what manifests of the source list for it
	Previous []LineDigest // its lines in manifests of the destinations
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
	Path         string // relative to the root, "" for the root itself
	ID           fsys.ID
	Mtime, Ctime fsys.Time // when it was listed
	// Implied says that the filters do not name it: it is made when something is copied into it.
	Implied bool
	Absent  Absence
}

// EntryDir is the directory of entries of a shard.
type EntryDir struct {
	Path   string // relative to the root, "" for the root itself
	Absent Absence
}

// Absence has a byte for each destination: 'a' if the directory was absent there when the plan
// was made, so that this copy makes it; '-' if it existed. Planner uses the empty string for a
// directory that all destinations have.
type Absence string

const (
	absent  = 'a'
	present = '-'
)

// Of reports whether the directory was absent at a destination.
func (a Absence) Of(target int) bool { return a[target] == absent }

// NewAbsence makes an Absence from one value for each destination, true where the directory was
// absent.
func NewAbsence(absentAt []bool) Absence {
	text := make([]byte, len(absentAt))
	for i, yes := range absentAt {
		text[i] = present
		if yes {
			text[i] = absent
		}
	}
	return Absence(text)
}

// filled returns the Absence for this number of destinations.
func (a Absence) filled(targets int) Absence {
	if a == "" {
		return Absence(strings.Repeat(string(present), targets))
	}
	return a
}

func (a Absence) isValid(targets int) bool {
	return len(a) == targets && strings.Trim(string(a), string(absent)+string(present)) == ""
}

// Missing is a path that a manifest of the source lists and the source lacks.
type Missing struct {
	List int // index in Plan.Lists
	Path string
}

// kindWords are the first words of lines for entries.
var kindWords = map[fsys.Kind]string{
	fsys.Regular: "file", fsys.Symlink: "symlink", fsys.Fifo: "fifo", fsys.Socket: "socket",
	fsys.CharDevice: "char", fsys.BlockDevice: "block", fsys.Irregular: "irregular",
}

var kindsByWord = func() map[string]fsys.Kind {
	kinds := map[string]fsys.Kind{}
	for kind, word := range kindWords {
		kinds[word] = kind
	}
	return kinds
}()

// appendEntry appends the lines of an entry:
//
//	KIND SIZE MTIME GROUP PATH
//	expect LIST DIGEST
//	line TARGET HASH DIGEST
func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, kindWords[e.Kind]...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.Size, 10)
	dst = append(dst, ' ')
	dst = e.Mtime.AppendDecimal(dst)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, e.Group, 10)
	dst = append(dst, ' ')
	dst = appendPath(dst, e.Path)
	dst = append(dst, '\n')
	for _, x := range e.Expected {
		dst = append(dst, "expect "...)
		dst = strconv.AppendInt(dst, int64(x.List), 10)
		dst = append(dst, ' ')
		dst = hex.AppendEncode(dst, x.Digest)
		dst = append(dst, '\n')
	}
	for _, l := range e.Previous {
		dst = append(dst, "line "...)
		dst = strconv.AppendInt(dst, int64(l.Target), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(l.Hash), 10)
		dst = append(dst, ' ')
		dst = hex.AppendEncode(dst, l.Digest)
		dst = append(dst, '\n')
	}
	return dst
}

// appendEntryDir appends the line that precedes the entries of a directory:
//
//	in ABSENT PATH
func appendEntryDir(dst []byte, d EntryDir) []byte {
	dst = append(dst, "in "...)
	dst = append(dst, d.Absent...)
	dst = append(dst, ' ')
	dst = appendPath(dst, d.Path)
	return append(dst, '\n')
}

// appendMissing appends the line of a path that only a manifest of the source has:
//
//	missing LIST PATH
func appendMissing(dst []byte, m Missing) []byte {
	dst = append(dst, "missing "...)
	dst = strconv.AppendInt(dst, int64(m.List), 10)
	dst = append(dst, ' ')
	dst = appendPath(dst, m.Path)
	return append(dst, '\n')
}

// appendDirectory appends the line of a directory:
//
//	dir DEV INO MTIME CTIME whole|implied ABSENT PATH
func appendDirectory(dst []byte, d *Directory) []byte {
	dst = append(dst, "dir "...)
	dst = strconv.AppendUint(dst, d.ID.Dev, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, d.ID.Ino, 10)
	dst = append(dst, ' ')
	dst = d.Mtime.AppendDecimal(dst)
	dst = append(dst, ' ')
	dst = d.Ctime.AppendDecimal(dst)
	if d.Implied {
		dst = append(dst, " implied "...)
	} else {
		dst = append(dst, " whole "...)
	}
	dst = append(dst, d.Absent...)
	dst = append(dst, ' ')
	dst = appendPath(dst, d.Path)
	return append(dst, '\n')
}

// The escapes of a path, so that its line is one line.
var (
	pathEscapes   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	pathUnescapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

func appendPath(dst []byte, path string) []byte { return append(dst, pathEscapes.Replace(path)...) }

var (
	errFields    = errors.New("it has the wrong number of fields")
	errDirectory = errors.New("it is not in the directory of the line before")
	errPath      = errors.New("its path is not one of a tree")
	errNumber    = errors.New("it has a number that is malformed or out of range")
	errDigest    = errors.New("it has a malformed digest")
	errWord      = errors.New("it begins with an unknown word")
)

// fields reads the fields of one line. After an error its results mean nothing.
type fields struct {
	rest string
	err  error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// word returns what is before the next space, which must follow.
func (f *fields) word() string {
	word, rest, ok := strings.Cut(f.rest, " ")
	if !ok {
		f.fail(errFields)
	}
	f.rest = rest
	return word
}

// last returns the rest of the line.
func (f *fields) last() string {
	word := f.rest
	f.rest = ""
	return word
}

// natural reads a number from 0 to limit. It accepts only the spelling that strconv writes.
func (f *fields) natural(word string, limit uint64) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || n > limit || word[0] == '0' && len(word) > 1 {
		f.fail(errNumber)
		return 0
	}
	return n
}

// integer is natural for any number of 64 bits.
func (f *fields) integer(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != word {
		f.fail(errNumber)
	}
	return n
}

func (f *fields) time(word string) fsys.Time {
	t, ok := fsys.ParseTime(word)
	if !ok {
		f.fail(errNumber)
	}
	return t
}

func (f *fields) digest(word string, size int) []byte {
	digest, err := hex.DecodeString(word)
	if err != nil || len(digest) != size || strings.ContainsAny(word, "ABCDEF") {
		f.fail(errDigest)
	}
	return digest
}

func (f *fields) absence(targets int) Absence {
	a := Absence(f.word())
	if !a.isValid(targets) {
		f.fail(errNumber)
	}
	return a
}

// path reads the rest of the line. The root is the empty path.
func (f *fields) path() string {
	text := f.last()
	path := text
	if strings.IndexByte(text, '\\') >= 0 {
		path = pathUnescapes.Replace(text)
	}
	if pathEscapes.Replace(path) != text || path != "" && !IsPath(path) {
		f.fail(errPath)
	}
	return path
}

// IsPath reports whether an entry of a plan can have the path. It is then spelled as a walk spells
// it: relative, and without empty, "." and ".." elements.
func IsPath(path string) bool {
	if len(path) > MaxPath || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "", ".", "..":
			return false
		}
	}
	return true
}
