package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	// MaxPath is the length of the longest path that can be recorded, in bytes.
	MaxPath = 1 << 20

	// maxLine is the length of the longest line, with its LF, in bytes: a path
	// of which every byte is escaped, and 64 KiB for the other fields.
	maxLine = 2*MaxPath + 64<<10

	headerWord = "sealift-journal"
	version    = "1"

	sumDigits = 8  // length of a checksum
	idDigits  = 16 // length of an id

	tempSuffix = ".tmp"
)

// The letters of records.
const (
	fileLetter       = 'f'
	partialLetter    = 'p'
	doneLetter       = 'd'
	checkpointLetter = 'c'
	runLetter        = 'r'
)

// Header describes the copy that a log belongs to.
type Header struct {
	ID      string    // 16 hexadecimal digits, from NewID
	Begun   fsys.Time // time when the first run began
	Options string    // a word of printable ASCII that only the caller interprets
	Source  string    // absolute path of the source; not empty
}

// File is a file that was copied or found equal. Size and times are the source's.
type File struct {
	Path         string // relative path with slashes
	Size         int64  // bytes
	Mtime, Ctime fsys.Time
	Digests      hash.Digests // digests in the order of the options; none are nil
}

// Partial is a file whose first bytes are on the device. Size and times are the source's.
type Partial struct {
	Path         string // relative path with slashes
	Temp         string // the temporary's name, in the directory of Path
	Offset       int64  // number of the first bytes, from 1 to Size
	Size         int64  // bytes
	Mtime, Ctime fsys.Time
	States       [][]byte // marshalled digests at Offset; nil or empty: cannot be marshalled
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of the id, with which the checksum of each line begins.
func checksum(id string) uint32 { return crc32.Checksum([]byte(id), castagnoli) }

// appendSum appends the digits of a checksum.
func appendSum(b []byte, sum uint32) []byte {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], sum)
	return hex.AppendEncode(b, bytes[:])
}

// The escapes of a path, so that each record is one line.
var (
	escaper   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\0`, "\x00")
)

func appendEscaped(b []byte, path string) []byte { return append(b, escaper.Replace(path)...) }

// unescape is the opposite of appendEscaped. ok is false if appendEscaped cannot have made
// this text.
func unescape(text []byte) (path string, ok bool) {
	path = string(text)
	if bytes.IndexByte(text, '\\') >= 0 {
		path = unescaper.Replace(path)
	}
	return path, escaper.Replace(path) == string(text)
}

func appendStates(b []byte, states [][]byte) []byte {
	if len(states) == 0 {
		return append(b, '.')
	}
	for i, s := range states {
		if i > 0 {
			b = append(b, ',')
		}
		if len(s) == 0 {
			b = append(b, '-')
			continue
		}
		b = base64.RawURLEncoding.AppendEncode(b, s)
	}
	return b
}

// validPath reports whether a path can be recorded.
func validPath(path string) bool { return len(path) <= MaxPath && fsys.IsTreePath(path) }

// validTemp reports whether name is that of a temporary. It must not contain separators of
// other systems either.
func validTemp[T string | []byte](name T) bool {
	if len(name) < len(fsys.Reserved)+len(tempSuffix) ||
		string(name[:len(fsys.Reserved)]) != fsys.Reserved || string(name[len(name)-len(tempSuffix):]) != tempSuffix {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

func validID[T string | []byte](id T) bool {
	return len(id) == idDigits && isHex(id)
}

func isHex[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func validOptions[T string | []byte](options T) bool {
	for i := range len(options) {
		if c := options[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return len(options) > 0
}

func validTime(t fsys.Time) bool { return 0 <= t.Nsec && t.Nsec < 1e9 }

var errWrongSum = errors.New("wrong checksum")

// cutSum splits a line without its LF into the checksum and the rest.
func cutSum(line []byte) (sum uint32, rest []byte, err error) {
	if len(line) < sumDigits+1 || line[sumDigits] != ' ' || !isHex(line[:sumDigits]) {
		return 0, nil, errors.New("no checksum")
	}
	n, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	return uint32(n), line[sumDigits+1:], err
}

// fields are the fields of a line. The slices are parts of the line.
type fields struct {
	letter       byte
	offset       int64 // offset of a partial; upto of a checkpoint
	size         int64
	mtime, ctime fsys.Time
	time         fsys.Time // time of a checkpoint
	id           []byte    // id of a run
	temp         []byte
	list         []byte // encoded digests or states
	path         []byte // escaped path
}

// parse splits the rest of a line that is not the header. It does not decode states.
func parse(rest []byte) (f fields, err error) {
	s := scanner{rest: rest}
	letter := s.word()
	if s.err == nil && len(letter) == 1 {
		f.letter = letter[0]
	}
	switch f.letter {
	case fileLetter:
		f.size = s.size("size")
		f.mtime, f.ctime = s.time(s.word()), s.time(s.word())
		f.list = s.digests()
		f.path = s.path()
	case partialLetter:
		f.offset, f.size = s.size("offset"), s.size("size")
		if f.offset == 0 || f.offset > f.size {
			s.fail("offset out of range")
		}
		f.mtime, f.ctime = s.time(s.word()), s.time(s.word())
		if f.temp = s.word(); !validTemp(f.temp) {
			s.fail("no name of a temporary")
		}
		f.list = s.word()
		f.path = s.path()
	case doneLetter:
		f.path = s.path()
	case checkpointLetter:
		f.offset = s.size("offset")
		f.time = s.time(s.rest)
	case runLetter:
		if f.id = s.rest; !validID(f.id) {
			s.fail("no id")
		}
	default:
		s.fail("unknown record")
	}
	return f, s.err
}

// parseHeader splits the rest of the first line.
func parseHeader(rest []byte) (h Header, err error) {
	s := scanner{rest: rest}
	if string(s.word()) != headerWord {
		return h, errors.New("no header")
	}
	if v := s.word(); s.err == nil && string(v) != version {
		return h, fmt.Errorf("version %.20q, want %s", v, version)
	}
	id := s.word()
	if !validID(id) {
		s.fail("no id")
	}
	h.Begun = s.time(s.word())
	options := s.word()
	if !validOptions(options) {
		s.fail("no options")
	}
	source, ok := unescape(s.rest)
	if !ok || source == "" || len(source) > MaxPath {
		s.fail("no source")
	}
	if s.err != nil {
		return Header{}, s.err
	}
	h.ID, h.Options, h.Source = string(id), string(options), source
	return h, nil
}

// scanner reads fields from the beginning of rest. It keeps the first error. Results after an
// error have no meaning.
type scanner struct {
	rest []byte
	err  error
}

func (s *scanner) fail(why string) {
	if s.err == nil {
		s.err = errors.New(why)
	}
}

// word reads up to the next space, which must exist.
func (s *scanner) word() []byte {
	word, rest, ok := bytes.Cut(s.rest, []byte{' '})
	if !ok {
		s.fail("too few fields")
	}
	s.rest = rest
	return word
}

func (s *scanner) size(what string) int64 {
	n, ok := parseInt(s.word())
	if !ok || n < 0 {
		s.fail("no " + what)
	}
	return n
}

func (s *scanner) time(text []byte) fsys.Time {
	t, ok := fsys.ParseTime(string(text))
	if !ok {
		s.fail("no time")
	}
	return t
}

// path reads the escaped path, which ends at the end of the line.
func (s *scanner) path() []byte {
	if path, ok := unescape(s.rest); !ok || !validPath(path) {
		s.fail("no path")
	}
	return s.rest
}

// parseInt reads a number in the spelling of strconv.AppendInt only.
func parseInt(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	var again [20]byte
	return n, err == nil && bytes.Equal(strconv.AppendInt(again[:0], n, 10), text)
}

// digests reads a word with encoded digests.
func (s *scanner) digests() []byte {
	list := s.word()
	if digests, err := decodeDigests(list); err != nil || !bytes.Equal(digests.AppendHex(nil), list) {
		s.fail("no digests")
	}
	return list
}

func decodeDigests(list []byte) (hash.Digests, error) {
	if string(list) == "-" {
		return nil, nil
	}
	var digests hash.Digests
	for d := range bytes.SplitSeq(list, []byte{','}) {
		digest, err := hex.AppendDecode(nil, d)
		if err != nil || len(digest) == 0 {
			return nil, errors.New("no digests")
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

var errNoStates = errors.New("no states")

func decodeStates(list []byte) ([][]byte, error) {
	if string(list) == "." {
		return nil, nil
	}
	var states [][]byte
	for s := range bytes.SplitSeq(list, []byte{','}) {
		if string(s) == "-" {
			states = append(states, nil)
			continue
		}
		state, err := base64.RawURLEncoding.AppendDecode(nil, s)
		if err != nil {
			return nil, errNoStates
		}
		states = append(states, state)
	}
	if !bytes.Equal(appendStates(nil, states), list) { // another spelling of the same list is refused
		return nil, errNoStates
	}
	return states, nil
}
