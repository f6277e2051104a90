package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A small heap may grow by some MB before it is collected. In the first instant, nothing
// collects it, because most commands end then.
func TestSmallHeapIsRarelyCollected(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set, which decides")
	}
	floor.Store(nil)
	synctest.Test(t, func(t *testing.T) {
		limitHeap()
		time.Sleep(firstInstant - 1)
		require.Nil(t, floor.Load())
		require.Equal(t, firstGCPercent, debug.SetGCPercent(firstGCPercent))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
	})
	require.NotNil(t, floor.Load())
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	goal, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	require.GreaterOrEqual(t, goal, live+floorSize*gcPercent/100)
	require.Less(t, goal, 4*live, "a large heap would grow by more than %d percent", gcPercent)
}
