package manifest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
)

func TestRecognizeMediaHashLists(t *testing.T) {
	requireRecognized(t, "A001_2024-05-01_093000.mhl", "", ClassicMHL{})
	for _, name := range []string{"a.mhl.txt", "mhl", "a.mhlx", ".sealift-a.mhl"} {
		_, _, ok := Recognize(name)
		require.False(t, ok, name)
	}
}

// mediaList returns a list of entries: "path kind digest".
func mediaList(entries ...string) string {
	text := "\xef\xbb\xbf<?xml version='1.0'?>\n<hashlist version='1.1'>\n"
	for _, e := range entries {
		parts := strings.Split(e, "|")
		text += "<hash><file>" + parts[0] + "</file><size>1</size>"
		for _, digest := range parts[1:] {
			kind, value, _ := strings.Cut(digest, " ")
			text += fmt.Sprintf("<%s>%s</%[1]s>", kind, value)
		}
		text += "</hash>\n"
	}
	return text + "</hashlist>\n"
}

var (
	md5A = strings.Repeat("a1", 16)
	md5B = strings.Repeat("b2", 16)
)

func TestReadMediaHashList(t *testing.T) {
	text := mediaList("a|md5 "+md5A+"|sha1 "+strings.Repeat("c3", 20), " b |null ")
	lines, numbers, err := readAll(NewReader(strings.NewReader(text), ClassicMHL{}, ""))
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, numbers)
	require.Equal(t, []Line{
		{Path: "a", Listed: &Listed{Size: 1, Digests: []hash.Expected{
			{Algorithm: hash.MD5, Digest: bytes.Repeat([]byte{0xa1}, 16)},
			{Algorithm: hash.SHA1, Digest: bytes.Repeat([]byte{0xc3}, 20)},
		}}},
		{Path: " b ", Literal: "b", Listed: &Listed{Size: 1, SizeOnly: true}},
	}, lines)
	_, _, err = readAll(NewReader(strings.NewReader(text[:len(text)-20]), ClassicMHL{}, ""))
	var document *DocumentError
	require.ErrorAs(t, err, &document)
}

// An index of a list has the entries with a digest of one algorithm.
func TestIndexOfMediaHashList(t *testing.T) {
	text := mediaList("a|md5 "+md5A+"|xxhash64 0011223344556677", "d/b c|sha1 "+strings.Repeat("c3", 20),
		"./c|md5 "+md5B, "twice|md5 "+md5A, "twice|md5 "+md5B, "size|null ")
	index := func(a hash.Algorithm) *Index {
		ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), ClassicMHL{}, a)
		require.NoError(t, err)
		return ix
	}
	ix := index(hash.MD5)
	require.Equal(t, 4, ix.Len())
	require.Zero(t, ix.Malformed())
	requireListed(t, ix, "a", md5A)
	requireListed(t, ix, "c", md5B)
	requireListed(t, ix, "d/b c", "")
	requireListed(t, ix, "twice", "")
	requireListed(t, index(hash.SHA1), "d/b c", strings.Repeat("c3", 20))
	require.Zero(t, index(hash.XXH64).Len(), "a digest whose order of bytes is not known is not one to compare")

	found, err := ix.Listing("a")
	require.NoError(t, err)
	ix.Meet(found)
	var unmet []string
	require.NoError(t, ix.Unmet(func(path string) error {
		unmet = append(unmet, path)
		return nil
	}))
	require.Equal(t, []string{"c", "twice"}, unmet)

	broken := text[:len(text)-5]
	_, err = BuildCheckIndex(strings.NewReader(broken), int64(len(broken)), ClassicMHL{}, hash.MD5)
	var document *DocumentError
	require.ErrorAs(t, err, &document)
}

// A builder writes a list of some of its hashes, sorted, from memory or from the spill.
func TestWriteMediaHashList(t *testing.T) {
	at := time.Unix(1714552200, 0)
	format := ClassicMHL{Creator: classic.Creator{User: "u", Host: "h", Tool: "t", Begun: at, Finished: at}}
	for _, memory := range []int{0, 200} {
		made := 0
		b := NewBuilder([]hash.Algorithm{hash.SHA256, hash.MD5, hash.XXH64}, fileSpill(t, &made), memory)
		for i, path := range []string{"b", "a/z", "a", "-"} {
			digests := hash.Digests{make([]byte, 32), bytes.Repeat([]byte{byte(i)}, 16), bytes.Repeat([]byte{0xee}, 8)}
			require.NoError(t, b.Put(Entry{Path: path, Size: int64(i), Mtime: at.Unix(), Digests: digests}))
		}
		var out bytes.Buffer
		counts, err := b.Write(&out, Document{Format: format, Hashes: []hash.Algorithm{hash.MD5, hash.XXH64}})
		require.NoError(t, err)
		require.Equal(t, 4, counts.Lines)
		lines, _, err := readAll(NewReader(&out, ClassicMHL{}, ""))
		require.NoError(t, err)
		var paths []string
		for _, l := range lines {
			paths = append(paths, l.Path)
			require.Len(t, l.Listed.Digests, 2)
			require.Equal(t, hash.MD5, l.Listed.Digests[0].Algorithm)
			require.Equal(t, byte(l.Listed.Size), l.Listed.Digests[0].Digest[0])
		}
		require.Equal(t, []string{"-", "a", "a/z", "b"}, paths)

		_, err = b.Write(io.Discard, Document{Format: format})
		require.EqualError(t, err, "media hash lists have no digests of sha256")
		require.NoError(t, b.Put(Entry{Path: "\xff", Digests: hash.Digests{make([]byte, 32), make([]byte, 16), make([]byte, 8)}}))
		_, err = b.Write(io.Discard, Document{Format: format, Hashes: []hash.Algorithm{hash.MD5}})
		require.ErrorContains(t, err, "XML has no such characters")
		_, err = b.Write(&failingWriter{100}, Document{Format: format, Hashes: []hash.Algorithm{hash.MD5}, Omit: func(path string) bool { return path == "\xff" }})
		require.ErrorIs(t, err, io.ErrShortWrite)
		require.NoError(t, b.Close())
	}
}
