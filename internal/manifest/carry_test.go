package manifest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestCarry(t *testing.T) {
	type step func(*testing.T, *Builder)
	put := func(path, digits string) step {
		return func(t *testing.T, b *Builder) { require.NoError(t, putIn(b, path, digestOf(t, digits))) }
	}
	drop := func(path string) step {
		return func(t *testing.T, b *Builder) { require.NoError(t, b.Drop(path)) }
	}
	is := func(paths ...string) func(string) bool {
		return func(path string) bool { return slices.Contains(paths, path) }
	}
	for name, tt := range map[string]struct {
		previous string
		steps    []step
		gone     func(string) bool // paths whose lines are not kept
		omit     func(string) bool
		want     string
		dropped  int
		asked    []string
	}{
		"kept":                     {previous: listing("a A", "b B"), want: listing("a A", "b B"), asked: []string{"a", "b"}},
		"kept between":             {listing("b A", "d A"), []step{put("a", hexB), put("c", hexB), put("e", hexB)}, nil, nil, listing("a B", "b A", "c B", "d A", "e B"), 0, []string{"b", "d"}},
		"gone":                     {listing("a A", "b B"), nil, is("a"), nil, listing("b B"), 1, []string{"a", "b"}},
		"replaced":                 {listing("a A"), []step{put("a", hexB)}, is("a"), nil, listing("a B"), 0, nil},
		"dropped":                  {listing("a A", "b A"), []step{drop("a")}, nil, nil, listing("b A"), 1, []string{"b"}},
		"dropped, was not listed":  {listing("b A"), []step{drop("a")}, nil, nil, listing("b A"), 0, []string{"b"}},
		"omitted":                  {listing("a A", "b A"), []step{put("c", hexA)}, is("b"), is("a", "b", "c"), "", 0, []string{"a", "b"}},
		"marked":                   {hexA + " *a\n", nil, nil, nil, listing("a A"), 0, []string{"a"}},
		"the file -":               {listing("./- A", "a A"), []step{put("-", hexB)}, nil, nil, listing("./- B", "a A"), 0, []string{"a"}},
		"order of unescaped paths": {"\\" + hexA + `  a\n` + "\n" + listing("a[ A"), []step{put(`a\`, hexB)}, nil, nil, "\\" + hexA + `  a\n` + "\n" + listing("a[ A") + "\\" + hexB + `  a\\` + "\n", 0, []string{"a\n", "a["}},
	} {
		for _, limit := range []int{0, 1} {
			made := 0
			b := newBuilder(hash.SHA256, fileSpill(t, &made), limit)
			for _, s := range tt.steps {
				s(t, b)
			}
			for range 2 {
				var asked []string
				var out strings.Builder
				n, err := b.Write(&out, Document{
					Previous: from(tt.previous),
					Keep: func(path string, digest []byte) ([]byte, error) {
						if asked = append(asked, path); tt.gone != nil && tt.gone(path) {
							return nil, nil
						}
						return digest, nil
					},
					Omit: tt.omit,
				})
				require.NoError(t, err, name)
				require.Equal(t, tt.want, out.String(), name)
				require.Equal(t, Counts{Lines: strings.Count(tt.want, "\n"), Dropped: tt.dropped}, n, name)
				require.Equal(t, tt.asked, asked, name)
			}
			require.NoError(t, b.Close())
		}
	}
}

// Write writes the digest that Keep returns, because the file may have other content.
func TestCarryWithAnotherDigest(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	require.Equal(t, listing("a B"), written(t, b, Document{
		Previous: from(listing("a A")),
		Keep:     func(string, []byte) ([]byte, error) { return digestOf(t, hexB), nil },
	}))
}

// If users name the files, "-" is standard input and "./-" a file.
func TestCarryOfNamedPaths(t *testing.T) {
	b := newBuilder(hash.SHA256, noSpill, 0)
	b.Named = true
	require.NoError(t, putIn(b, "-", digestOf(t, hexB)))
	require.NoError(t, putIn(b, "./a", digestOf(t, hexB)))
	require.Equal(t, listing("- B", "./- A", "./a B", "a A"), written(t, b, Document{Previous: from(listing("- A", "./- A", "a A"))}))
}

func TestCarryErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		carry Document
		want  string
	}{
		"reading":        {Document{Previous: []io.ReadSeeker{io.NewSectionReader(&flaky{err: broken}, 0, 10)}}, "broken"},
		"not in order":   {Document{Previous: from(listing("b A", "a A"))}, "it changed since it was indexed"},
		"another hash":   {Document{Previous: from(hexA[:32] + "  a\n")}, "it changed since it was indexed"},
		"no line":        {Document{Previous: from(listing("a A") + "text\n")}, "line 2 is not a line"},
		"keeping":        {Document{Previous: from(listing("a A")), Keep: func(string, []byte) ([]byte, error) { return nil, broken }}, "broken"},
		"keeping at end": {Document{Previous: from(listing("z A")), Keep: func(string, []byte) ([]byte, error) { return nil, broken }}, "broken"},
	} {
		b := newBuilder(hash.SHA256, noSpill, 0)
		require.NoError(t, putIn(b, "m", digestOf(t, hexA)))
		_, err := b.Write(&strings.Builder{}, tt.carry)
		require.ErrorContains(t, err, tt.want, name)
		require.Equal(t, listing("m A"), written(t, b, Document{}), "the builder can be used again")
	}
}

// TestCarryAgainstMap compares Write with a map: lines ascend, each path has one, and the
// counts are right.
func TestCarryAgainstMap(t *testing.T) {
	dir := t.TempDir()
	paths := rapid.SampledFrom([]string{"-", "a", "a b", "a-", "a.", "a/b", "a/c", "a0", "b\\", "b\n", "c", "d/e/f", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		digests := rapid.SampledFrom([]byte{1, 2, 3})
		algorithm := rapid.SampledFrom(hash.Algorithms()).Draw(t, "algorithm")
		of := func(d byte) []byte { return bytes.Repeat([]byte{d}, algorithm.Size()) }
		set := func(label string) map[string]bool {
			return rapid.MapOf(paths, rapid.Just(true)).Draw(t, label)
		}
		format := rapid.SampledFrom([]Sums{FormatOf(algorithm), BSD}).Draw(t, "format")
		limit := rapid.SampledFrom([]int{0, 1, 200}).Draw(t, "memory")
		b := newBuilder(algorithm, spillIn(dir), limit)
		defer b.Close()

		old := rapid.MapOf(paths, digests).Draw(t, "previous")
		before := newBuilder(algorithm, nil, 0)
		for path, d := range old {
			require.NoError(t, putIn(before, path, of(d)))
		}
		var previous bytes.Buffer
		_, err := before.Write(&previous, Document{Format: format})
		require.NoError(t, err)

		said := map[string]byte{} // 0 for Drop
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			path := paths.Draw(t, "path")
			if said[path] = rapid.SampledFrom([]byte{0, 1, 2, 3}).Draw(t, "digest"); said[path] == 0 {
				require.NoError(t, b.Drop(path))
			} else {
				require.NoError(t, putIn(b, path, of(said[path])))
			}
		}
		gone, omitted := set("gone"), set("omitted")

		want, lost := maps.Clone(old), 0
		for path := range old {
			if _, ok := said[path]; !ok && gone[path] {
				delete(want, path)
			}
		}
		maps.Copy(want, said)
		maps.DeleteFunc(want, func(path string, d byte) bool { return d == 0 || omitted[path] })
		for path := range old {
			if _, kept := want[path]; !kept && !omitted[path] {
				lost++
			}
		}
		var text []byte
		for _, path := range slices.Sorted(maps.Keys(want)) {
			text = format.appendLine(text, algorithm, of(want[path]), []byte(listedName(path, false)), false)
		}

		var out bytes.Buffer
		n, err := b.Write(&out, Document{
			Format:   format,
			Previous: from(previous.String()),
			Keep: func(path string, digest []byte) ([]byte, error) {
				if _, ok := said[path]; ok {
					t.Fatalf("asked about %q, which has a record", path)
				}
				if gone[path] {
					return nil, nil
				}
				return digest, nil
			},
			Omit: func(path string) bool { return omitted[path] },
		})
		require.NoError(t, err)
		require.Equal(t, string(text), out.String())
		require.Equal(t, Counts{Lines: len(want), Dropped: lost}, n)
		_, err = ExactBlocks(bytes.NewReader(out.Bytes()), int64(out.Len()), format, false, algorithm)
		require.NoError(t, err)
	})
}
