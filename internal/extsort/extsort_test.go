package extsort

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type pair struct{ key, value string }

// collect returns the records that each yields.
func collect(t require.TestingT, each func(func(key, value []byte) error) error) (got []pair) {
	require.NoError(t, each(func(key, value []byte) error {
		got = append(got, pair{string(key), string(value)})
		return nil
	}))
	return got
}

// However little memory there is, records are complete, sorted by their keys, and in the order of
// their arrival where keys are equal. No temporary file is left.
func TestRecordsAreSortedInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	text := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', 0, '\n'}), 0, 3, -1),
		rapid.Map(rapid.IntRange(120, 20_000), func(n int) string { return strings.Repeat("n", n) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := New(TempFile, rapid.SampledFrom([]int{1, 100, 1000, 1 << 20}).Draw(t, "memory"))
		var want []pair
		for range 3 {
			for i, key := range rapid.SliceOfN(text, 0, 40).Draw(t, "keys") {
				value := fmt.Sprint(i) + text.Draw(t, "value")
				want = append(want, pair{key, value})
				require.NoError(t, s.Add([]byte(key), []byte(value)))
			}
			require.Equal(t, len(want) == 0, s.Empty())
			if rapid.Bool().Draw(t, "seal") {
				require.NoError(t, s.Seal())
			}
			slices.SortStableFunc(want, func(a, b pair) int { return strings.Compare(a.key, b.key) })
			require.Equal(t, want, collect(t, s.Each))
			var last []pair
			for i, p := range want {
				if i+1 == len(want) || want[i+1].key != p.key {
					last = append(last, p)
				}
			}
			require.Equal(t, last, collect(t, s.EachLast))
		}
		require.NoError(t, s.Close())
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRunsAreAsLongAsMemoryAllows(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const memory = 64 << 10
	s := New(TempFile, memory)
	defer s.Close()
	for i := range 10_000 {
		require.NoError(t, s.Add(fmt.Appendf(nil, "%050d", i*7919%10_000), nil))
	}
	require.LessOrEqual(t, cap(s.arena)+cap(s.offsets)*offsetSize, memory)
	require.InDelta(t, 10_000*52/(memory*7/8), len(s.runs), 1)

	long := bytes.Repeat([]byte("n"), 1<<20)
	require.NoError(t, s.Add(long, nil))
	require.NoError(t, s.Add(long, nil))
	require.NoError(t, s.Add([]byte("a"), nil))
	require.LessOrEqual(t, cap(s.arena), memory, "after a record that is longer than the memory")
	require.NoError(t, s.Seal())
	require.Zero(t, cap(s.arena)+cap(s.offsets), "after Seal")
	require.Len(t, collect(t, s.Each), 10_003)
}
