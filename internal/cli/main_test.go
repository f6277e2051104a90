package cli

import (
	"io"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A small heap may grow by some MB before it is collected.
func TestSmallHeapIsRarelyCollected(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set, which decides")
	}
	require.Zero(t, Main(t.Context(), []string{"--version"}, strings.NewReader(""), io.Discard, io.Discard))
	require.Len(t, floor, floorSize)
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	goal, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	require.GreaterOrEqual(t, goal, live+floorSize*gcPercent/100)
	require.Less(t, goal, 4*live, "a large heap would grow by more than %d percent", gcPercent)
}
