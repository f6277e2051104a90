package classic

import (
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// readAll returns the entries of a list, and the error after them.
func readAll(in io.Reader) (entries []Entry, err error) {
	r := NewReader(in)
	for {
		e, err := r.Next()
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

func expected(a hash.Algorithm, digits string) hash.Expected {
	digest, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return hash.Expected{Algorithm: a, Digest: digest}
}

// A list with everything that programs write.
const everything = `<?xml version="1.0" encoding="UTF-8"?>
<hashlist version="1.1">
  <creationdate>2024-05-01T09:30:00Z</creationdate>
  <creatorinfo>
    <name>A. Person</name><username>a</username><hostname>h</hostname><tool>t</tool>
    <startdate>2012-11-24 10-32-36</startdate><finishdate>2012-11-24 10-32-36</finishdate>
    <log>hash file size</log>
  </creatorinfo>

  <hash>
    <file>A001/clip &amp; more.mov</file>
    <size>1234</size>
    <creationdate>2024-05-01T09:00:00Z</creationdate>
    <lastmodificationdate>2024-05-01T09:00:00Z</lastmodificationdate>
    <xxhash64be>EF46DB3751D8E999</xxhash64be>
    <md5 bit="128" encoding="hex"> d41d8cd98f00b204e9800998ecf8427e
    </md5>
    <sha1>da39a3ee5e6b4b0d3255bfef95601890afd80709</sha1>
    <xxhash128>99aa06d3014798d86001c324468d497f</xxhash128>
    <xxhash3_64>2d06800538d394c2</xxhash3_64>
    <xxhash64>99e9d85137db46ef</xxhash64>
    <xxhash>0046947589</xxhash>
    <hashdate>2024-05-01T09:30:00Z</hashdate>
  </hash>
  <hash referencehhashlist="true"><file>b</file><size>0</size><null></null><hashdate>x</hashdate></hash>
  <hash><hashdate>x</hashdate><null/><crc32>12345678</crc32><md5>d41d8cd98f00b204e9800998ecf8427e</md5><file>no size</file></hash>
  <hash><file>c</file><size>5</size><sha512>00</sha512></hash>
  <Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><hash><file>not this one</file></hash></Signature>
</hashlist>
`

func TestRead(t *testing.T) {
	md5 := expected(hash.MD5, "d41d8cd98f00b204e9800998ecf8427e")
	anyOrder := expected(hash.XXH64, "99e9d85137db46ef")
	anyOrder.AnyOrder = true
	want := []Entry{
		{Path: "A001/clip & more.mov", Size: 1234, Digests: []hash.Expected{
			expected(hash.XXH64, "ef46db3751d8e999"), md5,
			expected(hash.SHA1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
			expected(hash.XXH128, "99aa06d3014798d86001c324468d497f"),
			expected(hash.XXH3, "2d06800538d394c2"), anyOrder,
			expected(hash.XXH32, "02cc5d05"),
		}, Line: 10},
		{Path: "b", SizeOnly: true, Line: 25},
		{Path: "no size", Size: -1, Digests: []hash.Expected{md5}, Line: 26},
		{Path: "c", Size: 5, Line: 27},
	}
	for _, in := range []io.Reader{strings.NewReader(everything), iotest.OneByteReader(strings.NewReader(everything)), strings.NewReader("\xef\xbb\xbf" + everything)} {
		got, err := readAll(in)
		require.ErrorIs(t, err, io.EOF)
		for i := range got {
			offset := got[i].Offset
			got[i].Offset = 0
			require.Equal(t, want[i], got[i])
			if s, ok := in.(*strings.Reader); ok {
				at := io.NewSectionReader(s, offset, s.Size())
				again, err := ReadEntry(at)
				require.NoError(t, err)
				again.Line = want[i].Line
				require.Equal(t, want[i], again, "an entry can be read by its offset")
			}
		}
		require.Len(t, got, len(want))
	}
}

// entry is a list with one entry of these elements.
func entry(elements string) string {
	return "<hashlist version='1.1'>\n<hash>" + elements + "</hash></hashlist>"
}

const md5Of = "<md5>d41d8cd98f00b204e9800998ecf8427e</md5>"

func TestNoList(t *testing.T) {
	for name, tt := range map[string]struct{ document, want string }{
		"nothing":               {"", "line 1: the document has no element"},
		"lines of md5sum":       {"d41d8cd98f00b204e9800998ecf8427e  a", "line 1: text outside of the outermost element"},
		"another document":      {"<html></html>", "line 1: it is not a media hash list: the outermost element is not <hashlist>"},
		"ASC MHL":               {"<hashlist version='2.0' xmlns='urn:ASC:MHL:v2.0'/>", "line 1: it is a generation of an ASC MHL history; name the directory that has the ascmhl directory"},
		"version 2":             {"<hashlist version='2.0'/>", `line 1: version "2.0" of media hash lists is not known`},
		"truncated":             {strings.SplitAfter(everything, "</hash>")[0], "line 24: unexpected EOF"},
		"document type":         {"<!DOCTYPE hashlist [<!ENTITY a 'b'>]>" + entry("<file>&a;</file>"), "line 1: a document type (<!DOCTYPE ha) is not accepted"},
		"no file":               {entry("<size>1</size>" + md5Of), "line 2: an entry has no file"},
		"empty file":            {entry("<file></file><size>1</size>" + md5Of), "line 2: an entry has no file"},
		"two files":             {entry("<file>a</file><file>b</file>" + md5Of), "line 2: an entry has two files"},
		"two sizes":             {entry("<file>a</file><size>1</size><size>2</size>" + md5Of), "line 2: an entry has two sizes"},
		"element in file":       {entry("<file>a<b/></file>"), "line 2: the element <b> is where a text is expected"},
		"negative size":         {entry("<file>a</file><size>-1</size>" + md5Of), `line 2: "-1" is not a size`},
		"absurd size":           {entry("<file>a</file><size>9223372036854775808</size>" + md5Of), `line 2: "9223372036854775808" is not a size`},
		"size in words":         {entry("<file>a</file><size>1 kB</size>" + md5Of), `line 2: "1 kB" is not a size`},
		"size in other digits":  {entry("<file>a</file><size>٣</size>" + md5Of), `line 2: "٣" is not a size`},
		"no size for null":      {entry("<file>a</file><null/>"), "line 2: an entry has neither a digest nor a size"},
		"short digest":          {entry("<file>a</file><md5>d41d8cd9</md5>"), `line 2: "d41d8cd9" is not a digest of the kind md5`},
		"no digits":             {entry("<file>a</file><md5>" + strings.Repeat("x", 32) + "</md5>"), `line 2: "` + strings.Repeat("x", 32) + `" is not a digest of the kind md5`},
		"hexadecimal XXH32":     {entry("<file>a</file><xxhash>02cc5d05</xxhash>"), `line 2: "02cc5d05" is not a digest of the kind xxhash`},
		"XXH32 of 33 bits":      {entry("<file>a</file><xxhash>4294967296</xxhash>"), `line 2: "4294967296" is not a digest of the kind xxhash`},
		"many digests":          {entry("<file>a</file>" + strings.Repeat(md5Of, 17)), "line 2: an entry has more than 16 digests"},
		"absolute":              {entry("<file>/etc/passwd</file>" + md5Of), `line 2: the path "/etc/passwd" is absolute or has a .. element`},
		"absolute after blanks": {entry("<file>\n /etc/passwd</file>" + md5Of), `line 3: the path "\n /etc/passwd" is absolute or has a .. element`},
		"out of the tree":       {entry("<file>a/../../b</file>" + md5Of), `line 2: the path "a/../../b" is absolute or has a .. element`},
		"out after blanks":      {entry("<file> ../b</file>" + md5Of), `line 2: the path " ../b" is absolute or has a .. element`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(strings.NewReader(tt.document))
			require.EqualError(t, err, tt.want)
			require.ErrorAs(t, err, new(*safexml.Error))
		})
	}
	_, err := readAll(io.MultiReader(strings.NewReader(everything[:1000]), iotest.ErrReader(errors.ErrUnsupported)))
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// Reading needs little memory, however many entries there are.
func TestMemoryOfReading(t *testing.T) {
	const entries = 20_000
	text := "<hash><file>a</file><size>1</size>" + md5Of + "</hash>\n"
	in := io.MultiReader(strings.NewReader("<hashlist>"), io.LimitReader(repeat(text), int64(entries*len(text))), strings.NewReader("</hashlist>"))
	r := NewReader(in)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range entries {
		_, err := r.Next()
		require.NoError(t, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
}

// repeat returns a text over and over.
func repeat(text string) io.Reader { return &repeater{text: text} }

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
