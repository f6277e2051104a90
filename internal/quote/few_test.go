package quote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinSaysHowManyTextsAreLeftOut(t *testing.T) {
	require.Equal(t, "'a', $'b\\n'", Join(Names([]string{"a", "b\n"}), 2))
	require.Equal(t, "'a' and 3 more", Join(Names([]string{"a"}), 4))
}

func TestUnfitListsTheFirstNames(t *testing.T) {
	var u Unfit
	require.Empty(t, u.String())
	u.Add("b", "a fifo")
	u.Add("a\n", "")
	require.Equal(t, "$'a\\n', 'b' (a fifo)", u.String())
	for range 50 {
		u.Add("c", "")
	}
	require.Equal(t, 20, strings.Count(u.String(), ", ")+1)
	require.True(t, strings.HasSuffix(u.String(), "'c' and 32 more"))
}
