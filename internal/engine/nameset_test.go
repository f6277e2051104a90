package engine

import (
	"hash/maphash"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNameSet(t *testing.T) {
	t.Parallel()
	require.False(t, (&nameSet{seed: maphash.MakeSeed()}).has(""))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringN(1, 8, 32), rapid.ID).Draw(t, "names")
		other := rapid.StringN(1, 8, 32).Draw(t, "other")
		s := &nameSet{seed: maphash.MakeSeed()}
		for _, name := range names {
			s.add([]byte(name))
		}
		s.sort()
		for _, name := range names {
			require.True(t, s.has(name), "%q", name)
		}
		require.Equal(t, slices.Contains(names, other), s.has(other))
		require.LessOrEqual(t, cap(s.hashes), max(8, 2*len(names)))
	})
}
