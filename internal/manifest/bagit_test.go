package manifest

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// ambiguous reports whether the path contains "%0A" or a similar sequence. A writer that
// encodes only line breaks cannot write that path.
func ambiguous(name, path string) bool { return name != path && lineBreaks.Replace(name) != path }

// A BagIt line of any path means this path, and a search finds it. That is also true if the
// writer has encoded less than RFC 8493 requires.
func FuzzBagItPaths(f *testing.F) {
	for _, seed := range []string{"a", "100%", "50%25", "new\nline", "cr\r%0A", " lead", "*star", "%250a%%", "ä/%0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !isRelative([]byte(path)) || strings.ContainsRune(path, 0) || len(path) > 4096 {
			return
		}
		path = "data/" + path
		require.Equal(t, path, BagItPaths(BagItName(path))[0])
		for _, name := range BagItNames(path) {
			if !ambiguous(name, path) {
				require.Contains(t, BagItPaths(name), path)
			}
		}
		b := NewBuilder([]hash.Algorithm{hash.MD5}, func() (extsort.Spill, error) { return nil, io.ErrUnexpectedEOF }, 0)
		defer b.Close() //nolint:errcheck // it has no spill
		digest := bytes.Repeat([]byte{0x5a}, hash.MD5.Size())
		require.NoError(t, b.Put(Entry{Path: path[len("data/"):], Digests: hash.Digests{digest}}))
		var out bytes.Buffer
		n, err := b.Write(&out, Document{Format: BagIt, Prefix: "data/"})
		require.NoError(t, err)
		require.Equal(t, 1, n.Lines)
		r := NewReader(bytes.NewReader(out.Bytes()), BagIt, hash.MD5)
		line, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, path, line.Path)
		require.Equal(t, digest, line.Digest)
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)

		for _, name := range append(BagItNames(path), BagItName(path)) {
			if strings.ContainsAny(name, "\r\n") || name != BagItName(path) && ambiguous(name, path) {
				continue // no line can have these
			}
			text := strings.Repeat("5a", hash.MD5.Size()) + "  " + name + "\n"
			ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), BagIt, hash.MD5)
			require.NoError(t, err)
			found, err := ix.Listing(path)
			require.NoError(t, err)
			for _, other := range BagItNames(path) {
				as, err := ix.ListingAs(other)
				require.NoError(t, err)
				found.Digests = slices.Concat(found.Digests, as.Digests)
			}
			require.NotEmpty(t, found.Digests, "%q is not found by the name %q", path, name)
		}
	})
}
