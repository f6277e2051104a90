package classic

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

var creator = Creator{
	Name: "A. Person", User: "a&b", Host: "cart", Tool: "sealift 1.0",
	Begun: time.Unix(1714552200, 5), Finished: time.Unix(1714552260, 0),
}

// write writes a list with the entries, whose times are mtime.
func write(t testing.TB, entries []Entry, mtime int64, hashes ...hash.Algorithm) string {
	var out bytes.Buffer
	buffer := bufio.NewWriter(&out)
	w, err := NewWriter(buffer, creator, hashes)
	require.NoError(t, err)
	for _, e := range entries {
		digests := make(hash.Digests, len(hashes))
		for i := range hashes {
			digests[i] = e.Digests[i].Digest
		}
		require.NoError(t, w.Put(e.Path, e.Size, mtime, digests))
	}
	require.NoError(t, w.Close())
	require.NoError(t, buffer.Flush())
	return out.String()
}

func TestWrite(t *testing.T) {
	entries := []Entry{
		{Path: "A001/a <b>.mov", Size: 5, Digests: []hash.Expected{expected(hash.XXH64, "44bc2cf5ad770999"), expected(hash.MD5, "900150983cd24fb0d6963f7d28e17f72")}},
		{Path: "new\nline", Size: 0, Digests: []hash.Expected{expected(hash.XXH64, "ef46db3751d8e999"), expected(hash.MD5, "d41d8cd98f00b204e9800998ecf8427e")}},
	}
	require.Equal(t, `<?xml version="1.0" encoding="UTF-8"?>
<hashlist version="1.1">
  <creatorinfo>
    <name>A. Person</name>
    <username>a&amp;b</username>
    <hostname>cart</hostname>
    <tool>sealift 1.0</tool>
    <startdate>2024-05-01T08:30:00Z</startdate>
    <finishdate>2024-05-01T08:31:00Z</finishdate>
  </creatorinfo>
  <hash>
    <file>A001/a &lt;b&gt;.mov</file>
    <size>5</size>
    <lastmodificationdate>2024-05-01T08:29:59Z</lastmodificationdate>
    <xxhash64be>44bc2cf5ad770999</xxhash64be>
    <md5>900150983cd24fb0d6963f7d28e17f72</md5>
    <hashdate>2024-05-01T08:31:00Z</hashdate>
  </hash>
  <hash>
    <file>new&#xA;line</file>
    <size>0</size>
    <lastmodificationdate>2024-05-01T08:29:59Z</lastmodificationdate>
    <xxhash64be>ef46db3751d8e999</xxhash64be>
    <md5>d41d8cd98f00b204e9800998ecf8427e</md5>
    <hashdate>2024-05-01T08:31:00Z</hashdate>
  </hash>
</hashlist>
`, write(t, entries, 1714552199, hash.XXH64, hash.MD5))
}

// Everything that can be written is read as it was, of each algorithm.
func TestWrittenAndRead(t *testing.T) {
	require.Equal(t, hash.XXH64, Algorithms()[0], "the usual one")
	for _, a := range Algorithms() {
		h := a.New()
		h.Write([]byte("abc"))
		for _, path := range []string{"a", "ä/b c", " a ", "a\tb", "a\r\nb", "\n", "a&<>'\"]]>b", `a\b`, "\U0001F4BE", "\ufffd"} {
			for _, mtime := range []int64{0, math.MinInt64, math.MaxInt64} {
				e := Entry{Path: path, Size: math.MaxInt64, Digests: []hash.Expected{{Algorithm: a, Digest: h.Sum(nil)}}}
				text := write(t, []Entry{e}, mtime, a)
				got, err := readAll(strings.NewReader(text))
				require.ErrorIs(t, err, io.EOF, text)
				require.Len(t, got, 1)
				got[0].Line, got[0].Offset = 0, 0
				require.Equal(t, e, got[0])
			}
		}
	}
}

// Dates of XML have years of four digits, and none before the year 1.
func TestDatesAtTheEndsOfTime(t *testing.T) {
	for mtime, want := range map[int64]string{
		math.MinInt64: "0001-01-01T00:00:00Z", math.MaxInt64: "9999-12-31T23:59:59Z", -1: "1969-12-31T23:59:59Z",
	} {
		e := Entry{Path: "a", Size: 1, Digests: []hash.Expected{expected(hash.XXH64, "44bc2cf5ad770999")}}
		require.Contains(t, write(t, []Entry{e}, mtime, hash.XXH64), "<lastmodificationdate>"+want+"</")
	}
}

func TestNotWritten(t *testing.T) {
	var out bytes.Buffer
	_, err := NewWriter(bufio.NewWriter(&out), creator, []hash.Algorithm{hash.XXH64, hash.SHA256})
	require.EqualError(t, err, "media hash lists have no digests of sha256")
	for _, path := range []string{"\xff", "a\x00b", "a\x1bb", "\ufffe", "\uffff", "a\xed\xa0\x80"} {
		require.False(t, safexml.CanHold(path), "%q", path)
		w, err := NewWriter(bufio.NewWriter(&out), creator, nil)
		require.NoError(t, err)
		require.ErrorContains(t, w.Put(path, 1, 0, nil), "XML has no such characters")
	}
	full := bufio.NewWriterSize(failing{}, 16)
	_, err = NewWriter(full, creator, nil)
	require.ErrorIs(t, err, errFull)
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestFileName(t *testing.T) {
	at := time.Date(2024, 5, 1, 11, 30, 5, 0, time.FixedZone("", 2*60*60))
	require.Equal(t, "Card 1_2024-05-01_093005.mhl", FileName("Card 1", at))
	long := FileName(strings.Repeat("ä", 127), at)
	require.Equal(t, strings.Repeat("ä", 116)+"_2024-05-01_093005.mhl", long)
	require.LessOrEqual(t, len(long), 255)
}
