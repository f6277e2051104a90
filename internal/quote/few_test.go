package quote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinSaysHowManyTextsAreLeftOut(t *testing.T) {
	require.Equal(t, "'a', $'b\\n'", Join(Names([]string{"a", "b\n"}), 2))
	require.Equal(t, "'a' and 3 more", Join(Names([]string{"a"}), 4))
}
