package journal

import (
	"bytes"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

var testHeader = Header{
	ID:      "0123456789abcdef",
	Begun:   fsys.Time{Sec: 1700000000, Nsec: 1},
	Options: "sha256,md5;default",
	Source:  "/source of\nnames\\/\xff\x00\r ",
}

// nasty are names that a format of lines could get wrong.
var nasty = []string{
	"a", "a b", " ", "\n", "\r", "\r\n", `\`, `\n`, `\\n`, `\0`, "\\\n", "tab\t", "\xff", "\xc3\x28", "é", "-", ".",
	"..", "...", "- a", "f 1", "\x01\x1b[1m", "\x7f", strings.Repeat("n", 255), strings.Repeat("\n", 255),
	".sealift-0.tmp", "c 0 0.000000000", "\n00000000 c 9 0.000000000\n",
}

// nastyPaths makes paths of nasty names.
func nastyPaths() (paths []string) {
	for _, name := range nasty {
		if name != "." && name != ".." {
			paths = append(paths, name)
		}
		paths = append(paths, "dir/"+name+"x", "."+name+"/ f")
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !validPath(path) })
}

func testFile(path string, n int64) *File {
	digest := bytes.Repeat([]byte{byte(n)}, 16)
	return &File{
		Path: path, Size: n, Mtime: fsys.Time{Sec: n, Nsec: 999999999}, Ctime: fsys.Time{Sec: -n},
		Digests: hash.Digests{digest, append(digest, digest...)},
	}
}

func testPartial(path string, n int64) *Partial {
	return &Partial{
		Path: path, Temp: fsys.TempName(), Offset: n + 1, Size: 2*n + 1, Mtime: fsys.Time{Sec: n}, Ctime: fsys.Time{Sec: -n, Nsec: 1},
		States: [][]byte{nil, []byte("state \xff\xfe"), bytes.Repeat([]byte{byte(n)}, 100)},
	}
}

// scribe writes a log and remembers what it wrote.
type scribe struct {
	t   require.TestingT
	log bytes.Buffer
	w   *Writer
	ops []op
}

// op is a record and the bytes of the log that it takes.
type op struct {
	start, end int64
	what       any // File, Partial, checkpoint, done, continued
}

// fileAt is what Log.File returns.
type fileAt struct {
	File
	at fsys.Time
}

func newScribe(t require.TestingT) *scribe {
	s := &scribe{t: t}
	var err error
	s.w, err = Create(&s.log, testHeader)
	require.NoError(t, err)
	return s
}

func (s *scribe) note(start int64, what any, err error) {
	require.NoError(s.t, err)
	s.ops = append(s.ops, op{start, s.w.Size(), what})
}

func (s *scribe) file(f *File) { start := s.w.Size(); s.note(start, *f, s.w.File(f)) }

func (s *scribe) partial(p *Partial) { start := s.w.Size(); s.note(start, *p, s.w.Partial(p)) }

func (s *scribe) done(path string) { start := s.w.Size(); s.note(start, done(path), s.w.Done(path)) }

func (s *scribe) checkpoint(upto int64, at fsys.Time) {
	start := s.w.Size()
	s.note(start, checkpoint{upto, at}, s.w.Checkpoint(upto, at))
}

func (s *scribe) continued() {
	if s.w != nil {
		s.bytes()
	}
	start := int64(s.log.Len())
	s.w = Continue(&s.log, testHeader, start)
	s.note(start, continued{}, nil)
}

// cut keeps size bytes of the log, and the records in them; it is to be continued.
func (s *scribe) cut(size int64) {
	s.bytes()
	s.w = nil
	s.log.Truncate(int(size))
	for i := range s.ops {
		if s.ops[i].end > size {
			s.ops = s.ops[:i]
			break
		}
	}
}

func (s *scribe) bytes() []byte {
	require.NoError(s.t, s.w.Flush())
	require.Equal(s.t, s.w.Size(), int64(s.log.Len()))
	return s.log.Bytes()
}

// requireRead reads log, which begins with the first size bytes of what was
// written and has something else after, and checks that it says what was written
// there.
func (s *scribe) requireRead(log []byte, size int64, hash func([]byte) uint64) {
	if hash == nil {
		hash = func(path []byte) uint64 { return uint64(crc32.ChecksumIEEE(path)) }
	}
	l, err := read(bytes.NewReader(log), int64(len(log)), hash)
	header := int64(bytes.IndexByte(s.log.Bytes(), '\n') + 1)
	if size < header {
		require.ErrorIs(s.t, err, ErrDamaged)
		return
	}
	require.NoError(s.t, err)
	require.Equal(s.t, testHeader, l.Header)

	good, count := header, int64(0)
	files, partials, paths := map[string]fileAt{}, map[string]Partial{}, map[string]bool{"absent": true}
	var pending []op
	for _, o := range s.ops {
		if f, ok := o.what.(File); ok {
			paths[f.Path] = true
		}
		if o.end > size {
			continue
		}
		good = o.end
		switch what := o.what.(type) {
		case File:
			pending = append(pending, o)
		case Partial:
			partials[what.Path] = what
		case done:
			delete(partials, string(what))
		case continued:
			pending = nil
		case checkpoint:
			for len(pending) > 0 && pending[0].start < what.upto {
				f := pending[0].what.(File)
				files[f.Path] = fileAt{f, what.at}
				pending = pending[1:]
				count++
			}
		}
	}
	require.Equal(s.t, good, l.Size)
	require.Equal(s.t, good < int64(len(log)), l.Why != nil)
	require.Equal(s.t, count, l.Files())
	for path := range paths {
		want, listed := files[path]
		f, at, ok, err := l.File(path)
		require.NoError(s.t, err)
		require.Equal(s.t, listed, ok, "%q", path)
		require.Equal(s.t, want, fileAt{f, at}, "%q", path)
	}
	listed := 0
	for p := range l.Partials() {
		listed++
		require.Equal(s.t, partials[p.Path], p)
		found, ok := l.Partial(p.Path)
		require.True(s.t, ok)
		require.Equal(s.t, p, found)
	}
	require.Equal(s.t, len(partials), listed)
	_, ok := l.Partial("absent")
	require.False(s.t, ok)
}

func colliding([]byte) uint64 { return 7 }

// sealed is a line with the right checksum in the log of id.
func sealed(id, rest string) string {
	return string(appendSum(nil, crc32.Checksum([]byte(id+rest), castagnoli))) + " " + rest + "\n"
}
