package journal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

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
