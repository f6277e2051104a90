package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// With any amount of memory, a listing is complete and sorted by its keys, and leaves no file
// behind.
func TestAListingIsSortedInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	rapid.Check(t, func(t *rapid.T) {
		l := &listing{memory: rapid.IntRange(1, 2000).Draw(t, "memory")}
		keys := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', '/', 0, '\n'}), 0, 6, -1), 0, 100).Draw(t, "keys")
		var want, got []string
		for i, key := range keys {
			key = fmt.Sprintf("%s\x00%03d", key, i)
			want = append(want, key)
			l.add(key, "line "+key)
		}
		slices.Sort(want)
		require.NoError(t, l.close(func(line string) { got = append(got, strings.TrimPrefix(line, "line ")) }))
		require.Equal(t, want, got)
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAListingThatCannotBeStoredIsReported(t *testing.T) {
	none := t.TempDir() + "/none"
	t.Setenv("TMPDIR", none)
	t.Setenv("TMP", none) // Windows
	l := &listing{memory: 3}
	long := strings.Repeat("x", 300<<10) // a temporary that is shorter stays in memory
	l.add("a", long)
	l.add("b", long)
	require.ErrorContains(t, l.close(func(string) { t.Error("a part looks complete") }), "the listing is incomplete: ")
}
