package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// eachOf returns the entries that Each yields, in the form of listing.
func eachOf(t *testing.T, b *Builder) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, b.Each(func(e Entry) error {
		fmt.Fprintf(&out, "%x  %s\n", e.Digests[0], e.Path)
		return nil
	}))
	return out.String()
}

func TestBuilderEach(t *testing.T) {
	for _, limit := range []int{0, 1, 300} {
		made := 0
		b := newBuilder(hash.SHA256, fileSpill(t, &made), limit)
		require.Empty(t, eachOf(t, b))
		a, c := digestOf(t, hexA), digestOf(t, hexB)
		require.NoError(t, putIn(b, "z", a))
		require.NoError(t, putIn(b, "replaced", c))
		require.NoError(t, putIn(b, "-", a))
		require.NoError(t, putIn(b, "twice", a))
		require.NoError(t, putIn(b, "gone", a))
		require.NoError(t, b.Drop("gone"))
		require.NoError(t, b.Drop("dropped"))
		require.NoError(t, putIn(b, "twice", c))

		want := listing("- A", "replaced B", "twice B", "z A")
		require.Equal(t, want, eachOf(t, b))
		require.Equal(t, want, eachOf(t, b), "again")
		previous := listing("dropped A", "old A", "replaced A")
		lines := listing("old A", "replaced B", "twice B", "z A")
		require.Equal(t, listing("./- A")+lines, written(t, b, Document{Previous: from(previous)}))

		require.NoError(t, b.Drop("z"))
		require.NoError(t, putIn(b, "a\nb", c))
		require.NoError(t, b.Drop("-"))
		require.Equal(t, listing("a\nb B", "replaced B", "twice B"), eachOf(t, b))
		require.NoError(t, putIn(b, "z", a))
		require.Equal(t, `\`+hexB+`  a\nb`+"\n"+lines, written(t, b, Document{Previous: from(previous)}))
		require.NoError(t, b.Close())
		require.Equal(t, limit > 0, made == 1)
	}
}

func TestBuilderEachStops(t *testing.T) {
	stop := errors.New("stop")
	b := newBuilder(hash.SHA256, noSpill, 0)
	for _, path := range []string{"a", "b", "c"} {
		require.NoError(t, putIn(b, path, digestOf(t, hexA)))
	}
	var seen []string
	err := b.Each(func(e Entry) error {
		if seen = append(seen, e.Path); e.Path == "b" {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, []string{"a", "b"}, seen)
	require.Equal(t, listing("a A", "b A", "c A"), written(t, b, Document{}), "the error of yield is not the builder's")
}

// A record that arrives while records are read could be lost, or damage the records. That
// must not produce a manifest.
func TestBuilderRefusesUseFromInside(t *testing.T) {
	digest := digestOf(t, hexA)
	for name, use := range map[string]func(b *Builder) error{
		"Put":   func(b *Builder) error { return putIn(b, "x", digest) },
		"Drop":  func(b *Builder) error { return b.Drop("a") },
		"Each":  func(b *Builder) error { return b.Each(func(Entry) error { return nil }) },
		"Write": func(b *Builder) error { _, err := b.Write(&strings.Builder{}, Document{}); return err },
	} {
		for _, limit := range []int{0, 1} {
			for _, inside := range []func(b *Builder, use func() error) error{
				func(b *Builder, use func() error) error {
					return b.Each(func(Entry) error { require.Error(t, use(), name); return nil })
				},
				func(b *Builder, use func() error) error {
					_, err := b.Write(&strings.Builder{}, Document{Omit: func(string) bool { require.Error(t, use(), name); return false }})
					return err
				},
				func(b *Builder, use func() error) error {
					c := Document{Previous: from(listing("aa A")), Keep: func(string, []byte) ([]byte, error) { require.Error(t, use(), name); return nil, nil }}
					_, err := b.Write(&strings.Builder{}, c)
					return err
				},
			} {
				made := 0
				b := newBuilder(hash.SHA256, fileSpill(t, &made), limit)
				require.NoError(t, putIn(b, "a", digest))
				require.NoError(t, putIn(b, "b", digest))
				require.ErrorContains(t, inside(b, func() error { return use(b) }), "while they are read", name)
				_, err := b.Write(&strings.Builder{}, Document{})
				require.ErrorContains(t, err, "while they are read", name)
				require.ErrorContains(t, putIn(b, "c", digest), "while they are read", name)
				require.NoError(t, b.Close())
			}
		}
	}
	b := newBuilder(hash.SHA256, noSpill, 0)
	require.NoError(t, putIn(b, "a", digest))
	require.NoError(t, putIn(b, "b", digest))
	require.ErrorContains(t, b.Each(func(Entry) error { return b.Close() }), "closed")
	require.ErrorContains(t, b.Each(nil), "closed")
}

func TestBuilderEachReportsTheSpill(t *testing.T) {
	b := newBuilder(hash.SHA256, func() (extsort.Spill, error) { return &brokenSpill{}, nil }, 1)
	require.NoError(t, putIn(b, "a", digestOf(t, hexA)))
	require.NoError(t, putIn(b, "b", digestOf(t, hexA)))
	err := b.Each(func(Entry) error { return nil })
	require.ErrorIs(t, err, errBrokenSpill)
	require.ErrorIs(t, putIn(b, "c", digestOf(t, hexA)), errBrokenSpill)
}

var errBrokenSpill = errors.New("cannot be read back")

// brokenSpill accepts all bytes and returns none.
type brokenSpill struct{}

func (*brokenSpill) Write(p []byte) (int, error)       { return len(p), nil }
func (*brokenSpill) ReadAt([]byte, int64) (int, error) { return 0, errBrokenSpill }
func (*brokenSpill) Close() error                      { return nil }
