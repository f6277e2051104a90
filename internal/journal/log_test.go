package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

type (
	done      string
	continued struct{}
)

func TestRoundTrip(t *testing.T) {
	s := newScribe(t)
	for i, path := range nastyPaths() {
		s.file(testFile(path, int64(i)))
		s.partial(testPartial(path, int64(i)))
		if i%5 == 0 {
			s.done(path)
		}
		if i%7 == 0 {
			s.checkpoint(s.w.Size(), fsys.Time{Sec: int64(i)})
		}
	}
	s.requireRead(s.bytes(), s.w.Size(), colliding)
	for _, extreme := range []*File{
		{Path: "least", Mtime: fsys.Time{Sec: -1 << 63}, Ctime: fsys.Time{Sec: -1 << 63}},
		{Path: "most", Size: 1<<63 - 1, Mtime: fsys.Time{Sec: 1<<63 - 1, Nsec: 999999999}, Digests: hash.Digests{{0}}},
		{Path: strings.Repeat("\n", MaxPath)},
		{Path: strings.Repeat("d/", MaxPath/2-1) + "dd"},
	} {
		s.file(extreme)
	}
	s.partial(&Partial{Path: "hashless", Temp: ".sealift-.tmp", Offset: 1, Size: 1})
	s.partial(&Partial{Path: "hashless2", Temp: ".sealift-A_-.9.tmp", Offset: 1<<63 - 1, Size: 1<<63 - 1, States: [][]byte{nil}})
	s.checkpoint(s.w.Size(), fsys.Time{Sec: -1})
	log := s.bytes()
	s.requireRead(log, int64(len(log)), nil)
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	f, _, ok, err := l.File("least")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(-1<<63), f.Mtime.Sec)
}

// everything writes a short log with all kinds of records and three runs.
func everything(t *testing.T) *scribe {
	s := newScribe(t)
	s.file(testFile("a", 1))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 10})
	s.partial(testPartial("large\n", 2))
	s.file(testFile("b\n\\", 3))
	upto := s.w.Size()
	s.file(testFile("a", 4))
	s.checkpoint(upto, fsys.Time{Sec: 11})
	s.checkpoint(upto, fsys.Time{Sec: 12})
	s.partial(testPartial("other", 5))
	s.partial(testPartial("large\n", 6))
	s.done("other")
	s.file(testFile("lost", 7))
	s.continued()
	s.file(testFile("c", 8))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 13})
	s.partial(testPartial("other", 9))
	s.file(testFile("c", 10))
	s.done("large\n")
	s.continued()
	s.file(testFile("b\n\\", 11))
	upto = s.w.Size()
	s.file(testFile("d", 12))
	s.file(testFile("e", 13))
	s.checkpoint(upto, fsys.Time{Sec: 14})
	s.checkpoint(upto+1, fsys.Time{Sec: 15})
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 16})
	s.file(testFile("d", 14))
	return s
}

func TestCutAnywhere(t *testing.T) {
	s := everything(t)
	log := s.bytes()
	for size := range len(log) + 1 {
		s.requireRead(log[:size], int64(size), nil)
		s.requireRead(log[:size], int64(size), colliding)
		// Blocks that were not written hold zeros.
		s.requireRead(append(log[:size:size], make([]byte, 64)...), int64(size), nil)
	}
}

func TestFlipAnywhere(t *testing.T) {
	s := everything(t)
	log := s.bytes()
	line := 0
	for i, b := range log {
		for _, c := range []byte{'\n', b ^ 1, b ^ 0x20, b ^ 0x80} {
			if c != b {
				log[i] = c
				damaged := bytes.Clone(log)
				log[i] = b
				s.requireRead(damaged, int64(line), nil)
			}
		}
		if b == '\n' {
			line = i + 1
		}
	}
}

// The checkpoints of the next run do not cover lines that a killed run had not covered,
// unless the next run recorded them again.
func TestContinue(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("covered", 1))
	upto := s.w.Size()
	s.file(testFile("lost", 2))
	s.file(testFile("recorded again", 3))
	s.partial(testPartial("large", 4))
	s.checkpoint(upto, fsys.Time{Sec: 1})
	s.file(testFile("torn", 5))
	whole := s.bytes()
	l, err := Read(bytes.NewReader(whole), int64(len(whole))-3)
	require.NoError(t, err)
	require.Error(t, l.Why)
	s.cut(l.Size)

	w := Continue(&s.log, l.Header, l.Size)
	require.Equal(t, l.Size, int64(s.log.Len()), "nothing is written before there is something to say")
	require.ErrorIs(t, w.Checkpoint(l.Size, fsys.Time{}), ErrUnfit)
	s.continued()
	s.file(testFile("recorded again", 6))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 2})
	s.done("large")
	log := s.bytes()
	s.requireRead(log, int64(len(log)), nil)

	l, err = Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.NoError(t, l.Why)
	for path, want := range map[string]int64{"covered": 1, "lost": 0, "recorded again": 6, "torn": 0} {
		f, _, ok, err := l.File(path)
		require.NoError(t, err)
		require.Equal(t, want > 0, ok, path)
		require.Equal(t, want, f.Size, path)
	}
	require.Equal(t, int64(2), l.Files())
}

func TestContinueAnUnreadLog(t *testing.T) {
	for _, w := range []*Writer{Continue(io.Discard, Header{}, 100), Continue(io.Discard, testHeader, 0)} {
		require.ErrorIs(t, w.File(testFile("a", 1)), ErrUnfit)
		require.ErrorIs(t, w.Flush(), ErrUnfit)
	}
}

func TestStaleLines(t *testing.T) {
	const other = "fedcba9876543210"
	stale := sealed(other, "f 1 0.000000000 0.000000000 - stale") + sealed(other, "c 60 0.000000000")
	s := newScribe(t)
	s.file(testFile("a", 1))
	s.checkpoint(s.w.Size(), fsys.Time{})
	log := s.bytes()
	s.requireRead(append(bytes.Clone(log), stale...), int64(len(log)), nil)

	// The same lines would be good ones in their log.
	h := testHeader
	h.ID = other
	var theirs bytes.Buffer
	_, err := Create(&theirs, h)
	require.NoError(t, err)
	theirs.WriteString(stale)
	l, err := Read(bytes.NewReader(theirs.Bytes()), int64(theirs.Len()))
	require.NoError(t, err)
	require.NoError(t, l.Why)

	// Lines that this log had before it was cut are stale when it goes on: a
	// second run writes over some of them.
	end := len(log)
	s.file(testFile("b", 2))
	s.checkpoint(s.w.Size(), fsys.Time{})
	before := bytes.Clone(s.bytes()[end:])
	s.cut(int64(end))
	s.continued()
	s.file(testFile("c", 3))
	log = s.bytes()
	s.requireRead(append(bytes.Clone(log), before...), int64(len(log)), nil)
}

func TestBadLines(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("a", 1))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 5})
	log := s.bytes()
	size := int64(len(log))
	long := strings.Repeat("n", MaxPath)
	const zero = "0.000000000"
	for rest, bad := range map[string]string{
		"f 1 0.000000000 -1.999999999 00,ff good":                  "",
		"f 0 0.000000000 0.000000000 - " + long:                    "",
		"p 1 1 0.000000000 0.000000000 .sealift-1.tmp -,AA,- good": "",
		"p 1 1 0.000000000 0.000000000 .sealift-1.tmp . good":      "",
		"d good":                                "",
		`d \\\n\r`:                              "",
		"d a ":                                  "",
		"r 0123456789abcdef":                    "",
		fmt.Sprintf("c %d 0.000000000", size):   "",
		fmt.Sprintf("c %d 0.000000000", size+1): "checkpoint out of range",
		"c 1 0.000000000":                       "checkpoint out of range",
		"c -1 0.000000000":                      "no offset",
		fmt.Sprintf("c %d 0.000000000 ", size):  "no time",
		fmt.Sprintf("c %d", size):               "too few fields",
		"":                                      "too few fields",
		"f":                                     "too few fields",
		" ":                                     "unknown record",
		"x a":                                   "unknown record",
		"ff 1 " + zero + " " + zero + " - a":    "unknown record",
		headerWord + " 1 0123456789abcdef 0.0 o s":            "unknown record",
		"f -1 " + zero + " " + zero + " - a":                  "no size",
		"f 01 " + zero + " " + zero + " - a":                  "no size",
		"f +1 " + zero + " " + zero + " - a":                  "no size",
		"f -0 " + zero + " " + zero + " - a":                  "no size",
		"f 0x1 " + zero + " " + zero + " - a":                 "no size",
		"f 9223372036854775808 " + zero + " " + zero + " - a": "no size",
		"f  1 " + zero + " " + zero + " - a":                  "no size",
		"f 1 0 " + zero + " - a":                              "no time",
		"f 1 0.0 " + zero + " - a":                            "no time",
		"f 1 0.0000000000 " + zero + " - a":                   "no time",
		"f 1 0.00000000a " + zero + " - a":                    "no time",
		"f 1 0.-00000000 " + zero + " - a":                    "no time",
		"f 1 -0.000000000 " + zero + " - a":                   "no time",
		"f 1 00.000000000 " + zero + " - a":                   "no time",
		"f 1 .000000000 " + zero + " - a":                     "no time",
		"f 1 " + zero + " 9223372036854775808.000000000 - a":  "no time",
		"f 1 " + zero + " " + zero + "  a":                    "no digests",
		"f 1 " + zero + " " + zero + " 0 a":                   "no digests",
		"f 1 " + zero + " " + zero + " 0A a":                  "no digests",
		"f 1 " + zero + " " + zero + " 00, a":                 "no digests",
		"f 1 " + zero + " " + zero + " ,00 a":                 "no digests",
		"f 1 " + zero + " " + zero + " 00,- a":                "no digests",
		"f 1 " + zero + " " + zero + " 0g a":                  "no digests",
		"f 1 " + zero + " " + zero + " a":                     "too few fields",
		"f 1 " + zero + " " + zero + " - ":                    "no path",
		"d ":                                                  "no path",
		"d /a":                                                "no path",
		"d a/":                                                "no path",
		"d a//b":                                              "no path",
		"d ..":                                                "no path",
		"d a/../b":                                            "no path",
		"d a/..":                                              "no path",
		"d .":                                                 "no path",
		"d a/./b":                                             "no path",
		"d a\x00":                                             "no path",
		`d a\0`:                                               "no path",
		"d a\r":                                               "no path",
		`d a\`:                                                "no path",
		`d a\x`:                                               "no path",
		"d " + long + "n":                                     "no path",
		"d " + strings.Repeat(`\n`, MaxPath) + "n":            "no path",
		"d " + strings.Repeat("n", maxLine):                   "line is too long",
		"d " + strings.Repeat("n", 2*maxLine):                 "line is too long",
		"r 0123456789abcde":                                   "no id",
		"r 0123456789abcdeF":                                  "no id",
		"r 0123456789abcdef ":                                 "no id",
		"p 0 1 " + zero + " " + zero + " .sealift-1.tmp - a":    "offset out of range",
		"p 2 1 " + zero + " " + zero + " .sealift-1.tmp - a":    "offset out of range",
		"p -1 1 " + zero + " " + zero + " .sealift-1.tmp - a":   "no offset",
		"p 1 -1 " + zero + " " + zero + " .sealift-1.tmp - a":   "no size",
		"p 1 1 " + zero + " " + zero + " sealift-1.tmp - a":     "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tm - a":     "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-tmp - a":      "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-a/b.tmp - a":  "no name of a temporary",
		"p 1 1 " + zero + " " + zero + ` .sealift-a\b.tmp - a`:  "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-a:b.tmp - a":  "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-\xff.tmp - a": "no name of a temporary",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp  a":     "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp -, a":   "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp .,. a":  "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp A a":    "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp AB a":   "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp AA== a": "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp A+/A a": "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp A\rA a": "no states",
		"p 1 1 " + zero + " " + zero + " .sealift-1.tmp - /a":   "no path",
	} {
		line := sealed(testHeader.ID, rest)
		l, err := Read(strings.NewReader(string(log)+line), size+int64(len(line)))
		require.NoError(t, err)
		if bad == "" {
			require.NoError(t, l.Why, "%.99q", rest)
			require.Equal(t, size+int64(len(line)), l.Size, "%.99q", rest)
			continue
		}
		require.ErrorContains(t, l.Why, fmt.Sprintf("at byte %d: %s", size, bad), "%.99q", rest)
		require.Equal(t, size, l.Size, "%.99q", rest)
		require.Equal(t, int64(1), l.Files(), "%.99q", rest)
	}
	for _, line := range []string{"\n", " d a\n", "0000000 d a\n", strings.ToUpper(sealed(testHeader.ID, "d a")[:8]) + " d a\n", sealed("", "d a")} {
		s.requireRead(append(bytes.Clone(log), line...), size, nil)
	}
}

func TestBadHeaders(t *testing.T) {
	for rest, bad := range map[string]string{
		"sealift-journal 1 0123456789abcdef 0.000000000 o s":                                 "",
		"sealift-journal 2 0123456789abcdef 0.000000000 o s":                                 `version "2"`,
		"sealift-journa1 1 0123456789abcdef 0.000000000 o s":                                 "no header",
		"sealift-journal 1 0123456789abcde 0.000000000 o s":                                  "no id",
		"sealift-journal 1 0123456789abcdef 0 o s":                                           "no time",
		"sealift-journal 1 0123456789abcdef 0.000000000  s":                                  "no options",
		"sealift-journal 1 0123456789abcdef 0.000000000 \x7f s":                              "no options",
		"sealift-journal 1 0123456789abcdef 0.000000000 o ":                                  "no source",
		"sealift-journal 1 0123456789abcdef 0.000000000 o s\r":                               "no source",
		"sealift-journal 1 0123456789abcdef 0.000000000 o":                                   "too few fields",
		"sealift-journal 1 0123456789abcdef 0.000000000 o " + strings.Repeat("s", MaxPath+1): "no source",
		"f 1 0.000000000 0.000000000 - a":                                                    "no header",
	} {
		line := sealed("", rest)
		l, err := Read(strings.NewReader(line), int64(len(line)))
		if bad == "" {
			require.NoError(t, err, "%.99q", rest)
			require.Equal(t, Header{ID: "0123456789abcdef", Options: "o", Source: "s"}, l.Header)
			continue
		}
		require.ErrorIs(t, err, ErrDamaged, "%.99q", rest)
		require.ErrorContains(t, err, bad, "%.99q", rest)
	}
	_, err := Read(strings.NewReader(""), 0)
	require.EqualError(t, err, "journal is damaged: it is empty")
}

func TestTooManyPartials(t *testing.T) {
	s := newScribe(t)
	p := testPartial("", 1)
	for i := range maxPartials {
		p.Path = fmt.Sprint(i)
		require.NoError(t, s.w.Partial(p))
	}
	p.Path = "0"
	p.Size++ // instead of one in force
	require.NoError(t, s.w.Partial(p))
	require.NoError(t, s.w.Done("1"))
	p.Path = "new"
	require.NoError(t, s.w.Partial(p))
	good := s.w.Size()
	p.Path = "one too many"
	require.NoError(t, s.w.Partial(p))
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, good, l.Size)
	require.ErrorContains(t, l.Why, "too many partials")
	require.Len(t, l.partials, maxPartials)
}

// Partials are counted with the bytes of their lines. One that replaces another, or is
// done, gives its bytes back.
func TestPartialsOfTooManyBytesAreRefused(t *testing.T) {
	s := newScribe(t)
	p := testPartial("", 1)
	for _, path := range []string{"a", "a", "\n\n\n", "b"} {
		p.Path = path
		require.NoError(t, s.w.Partial(p))
	}
	log := s.bytes()
	lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	require.Len(t, lines, 5, "a header and four partials")
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, len(lines[2])+len(lines[3])+len(lines[4]), l.held)

	require.NoError(t, l.takePartialOf(lines[4], maxPartialBytes), "it replaces one that is as long")
	p.Path = "c"
	require.NoError(t, s.w.Partial(p))
	fourth := s.bytes()[len(log):]
	fourth = bytes.TrimSuffix(fourth, []byte("\n"))
	require.NoError(t, l.takePartialOf(fourth, maxPartialBytes-len(fourth)))
	require.ErrorContains(t, l.takePartialOf(lines[3], maxPartialBytes+1), "too many partials")
	l.drop("c")
	require.Equal(t, maxPartialBytes+1-len(fourth), l.held)
}

// takePartialOf takes the line of a partial when those in force have so many bytes.
func (l *Log) takePartialOf(line []byte, held int) error {
	l.held = held
	return l.take(line)
}

func TestTooLongPartials(t *testing.T) {
	if !treetest.Large() {
		t.Skip("a log of 64 MiB")
	}
	s := newScribe(t)
	p := testPartial("", 1)
	name := func(i int) string { return strings.Repeat("\n", MaxPath-1) + string(rune('0'+i)) }
	fit := (maxPartialBytes - 1) / (2 * MaxPath) // one more would be just too long
	for i := range fit {
		p.Path = name(i)
		require.NoError(t, s.w.Partial(p))
	}
	require.NoError(t, s.w.Partial(p))    // the earlier one does not count
	require.NoError(t, s.w.Done(name(0))) // nor do those that are done
	p.Path = name(fit)
	require.NoError(t, s.w.Partial(p))
	good := s.w.Size()
	p.Path = name(fit + 1)
	require.NoError(t, s.w.Partial(p))
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, good, l.Size)
	require.ErrorContains(t, l.Why, "too many partials")
}

// A run that continues a log cuts off what follows the good part. Look-ups do not need it.
func TestLookupsAfterTheTornEndIsCutOff(t *testing.T) {
	s := newScribe(t)
	s.file(testFile("a", 1))
	s.checkpoint(s.w.Size(), fsys.Time{Sec: 5})
	s.file(testFile("b", 2))
	log := s.bytes()
	f := &flaky{data: append(bytes.Clone(log), strings.Repeat("torn", 1000)...)}
	l, err := Read(f, int64(len(f.data)))
	require.NoError(t, err)
	require.Equal(t, int64(len(log)), l.Size)
	f.data = log
	_, _, ok, err := l.File("a")
	require.NoError(t, err)
	require.True(t, ok)
	_, ok, err = l.Written("b")
	require.NoError(t, err)
	require.True(t, ok)
}

// A record has the expected size in memory.
func TestIndexSize(t *testing.T) {
	const files = 10000
	require.LessOrEqual(t, int(unsafe.Sizeof(lookup.Entry(0))), 8)
	s := newScribe(t)
	for i := range files {
		require.NoError(t, s.w.File(testFile(fmt.Sprint(i), 1)))
		if i%1000 == 999 {
			require.NoError(t, s.w.Checkpoint(s.w.Size(), fsys.Time{Sec: int64(i)}))
			require.NoError(t, s.w.Checkpoint(s.w.Size(), fsys.Time{Sec: int64(i + 1)})) // nothing new
		}
	}
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	require.Equal(t, int64(files), l.Files())
	require.LessOrEqual(t, cap(l.entries), files*13/10)
	require.Len(t, l.checkpoints, 10)
	for _, i := range []int{0, 999, 1000, files - 1} {
		_, at, ok, err := l.File(fmt.Sprint(i))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, int64(i/1000*1000+999), at.Sec)
	}
}

// flaky is a file that can be damaged under the log.
type flaky struct {
	data []byte
	err  error // instead of data from this byte on:
	from int64
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.err != nil && off+int64(len(p)) > f.from {
		return 0, f.err
	}
	return bytes.NewReader(f.data).ReadAt(p, off)
}

func TestReadErrors(t *testing.T) {
	s := newScribe(t)
	for i := range 2000 {
		s.file(testFile(fmt.Sprint(i), 1))
	}
	s.checkpoint(s.w.Size(), fsys.Time{})
	f := &flaky{data: bytes.Clone(s.bytes())}
	size := int64(len(f.data))
	broken := errors.New("broken")

	f.err, f.from = broken, size/2
	_, err := Read(f, size)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrDamaged)
	f.from = 0
	_, err = Read(f, size)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrDamaged)
	f.err = nil
	for _, more := range []int64{1, 1 << 40} {
		_, err = Read(f, size+more)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, ErrDamaged)
	}

	l, err := Read(f, size)
	require.NoError(t, err)
	f.err = broken
	_, _, ok, err := l.File("7")
	require.ErrorIs(t, err, broken)
	require.False(t, ok)
	_, _, ok, err = l.File("absent")
	require.NoError(t, err, "needs no reading")
	require.False(t, ok)
	f.err = nil
	whole := f.data
	f.data = f.data[:100]
	_, _, _, err = l.File("1999")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for _, change := range []string{" - 7", "\n7", " 8"} {
		f.data = bytes.Replace(whole, []byte(" 7\n"), []byte(change+"\n"), 1)
		f.data = append(f.data, whole[size-10:]...)
		_, _, ok, err = l.File("7")
		require.ErrorContains(t, err, "changed since it was read", change)
		require.False(t, ok)
	}
	f.data = []byte(string(whole[:s.ops[7].start]) + sealed(testHeader.ID, "d 7") + strings.Repeat("\n", 1000))
	_, _, ok, err = l.File("7")
	require.ErrorContains(t, err, "changed since it was read", "another record of the path")
	require.False(t, ok)
	f.data = bytes.ReplaceAll(whole, []byte{'\n'}, []byte{'-'})
	_, _, _, err = l.File("7")
	require.ErrorContains(t, err, "changed since it was read")
}

func TestConcurrentLookups(t *testing.T) {
	s := newScribe(t)
	for i := range 1000 {
		s.file(testFile(fmt.Sprint(i), int64(i)))
	}
	s.checkpoint(s.w.Size(), fsys.Time{})
	log := s.bytes()
	l, err := Read(bytes.NewReader(log), int64(len(log)))
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				f, _, ok, err := l.File(fmt.Sprint(i))
				if err != nil || !ok || f.Size != int64(i) {
					t.Errorf("%d: %v, %v, %v", i, f, ok, err)
				}
			}
		})
	}
	group.Wait()
}

// Lines that a checkpoint covers are not loose, whatever was written after it.
func TestLoose(t *testing.T) {
	var b bytes.Buffer
	w, err := Create(&b, Header{ID: NewID(), Options: "o", Source: "/src"})
	require.NoError(t, err)
	note := func(paths ...string) {
		for _, path := range paths {
			require.NoError(t, w.File(&File{Path: path}))
		}
	}
	note("covered")
	require.NoError(t, w.Checkpoint(w.Size(), fsys.Time{Sec: 1}))
	note("a\nb", "c")
	require.NoError(t, w.Flush())
	log, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	var loose []string
	for path, err := range log.Loose() {
		require.NoError(t, err)
		loose = append(loose, path)
	}
	require.ElementsMatch(t, []string{"a\nb", "c"}, loose)
}
