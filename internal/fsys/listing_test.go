package fsys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A depth-first walk of listings in manifest order must meet files in the byte
// order of their full paths.
func TestManifestOrderIsByteOrderOfPaths(t *testing.T) {
	// Bytes around '/' decide: '.' and '-' sort before it, '0' and letters after.
	name := rapid.StringMatching(`[!\-.0a\x01\xff]{1,4}`).Filter(func(s string) bool { return s != "." && s != ".." })
	type tree map[string]any // nil is a file
	var grow func(depth int) *rapid.Generator[tree]
	grow = func(depth int) *rapid.Generator[tree] {
		return rapid.Custom(func(t *rapid.T) tree {
			made := tree{}
			for _, n := range rapid.SliceOfNDistinct(name, 1, 6, rapid.ID).Draw(t, "names") {
				made[n] = nil
				if depth > 0 && rapid.Bool().Draw(t, "dir") {
					made[n] = grow(depth-1).Draw(t, "sub")
				}
			}
			return made
		})
	}
	var walk func(prefix string, tr tree, visit func(string))
	walk = func(prefix string, tr tree, visit func(string)) {
		var b listingBuilder
		for n, sub := range tr {
			kind := Regular
			if sub != nil {
				kind = Directory
			}
			b.add([]byte(n), kind)
		}
		l := b.done()
		l.SortForManifest()
		for i := range l.Len() {
			if n := l.Name(i); l.Kind(i) == Directory {
				walk(prefix+n+"/", tr[n].(tree), visit)
			} else {
				visit(prefix + n)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var paths []string
		walk("", grow(3).Draw(t, "tree"), func(p string) { paths = append(paths, p) })
		if !slices.IsSorted(paths) {
			t.Fatalf("out of order: %q", paths)
		}
	})
}

// Names and entries are packed in parts: none is lost or cut where one ends.
func TestListingKeepsItsEntries(t *testing.T) {
	var want []string
	kind := func(i int) Kind { return Kind(i % 5) }
	for i := range 3*partEntries + 1 {
		want = append(want, fmt.Sprintf("%0*d", 1+i*7919%254, i))
	}
	want = append(want, strings.Repeat("x", partSize-1), "y", strings.Repeat("z", partSize-1), "")
	for _, n := range []int{0, 1, partEntries - 1, partEntries, partEntries + 1, len(want)} {
		var b listingBuilder
		for i, name := range want[:n] {
			b.add([]byte(name), kind(i))
		}
		l := b.done()
		require.Equal(t, n, l.Len())
		for i, name := range want[:n] {
			require.Equal(t, name, l.Name(i))
			require.Equal(t, kind(i), l.Kind(i))
		}
	}
}

func TestTimeWithin(t *testing.T) {
	for _, c := range []struct {
		a, b Time
		gran int64
		want bool
	}{
		{Time{1, 0}, Time{1, 0}, 1, true},
		{Time{1, 0}, Time{1, 1}, 1, false},
		{Time{1, 0}, Time{1, 1}, 2, true},
		{Time{1, 0}, Time{0, 999_999_901}, 100, true},
		{Time{1, 0}, Time{0, 999_999_900}, 100, false},
		{Time{-1, 999_999_999}, Time{0, 0}, 2, true},
		{Time{10, 0}, Time{12, 0}, 2e9, false},
		{Time{10, 1}, Time{12, 0}, 2e9, true},
		{Time{-1 << 40, 0}, Time{1 << 40, 0}, 2e9, false},
	} {
		require.Equal(t, c.want, c.a.Within(c.b, c.gran), "%v %v %d", c.a, c.b, c.gran)
		require.Equal(t, c.want, c.b.Within(c.a, c.gran), "%v %v %d", c.b, c.a, c.gran)
	}
	require.Equal(t, -1, Time{-1, 5}.Compare(Time{0, 0}))
	require.Equal(t, 1, Time{2, 5}.Compare(Time{2, 4}))
}
