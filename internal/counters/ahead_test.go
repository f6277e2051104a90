package counters

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountAhead(t *testing.T) {
	for name, complete := range map[string]bool{"complete": true, "not complete": false} {
		c := &Set{CountTotals: true}
		counted := make(chan bool)
		stop := c.CountAhead(t.Context(), func(context.Context) bool {
			defer close(counted)
			return complete
		})
		<-counted
		for complete && !c.ScanDone.Load() { // it is set after the function has returned
			continue
		}
		stop()
		require.Equal(t, complete, c.ScanDone.Load(), name)
	}

	// A count that is stopped leaves totals that are not final.
	c := &Set{CountTotals: true}
	ended := false
	stop := c.CountAhead(t.Context(), func(ctx context.Context) bool {
		<-ctx.Done()
		ended = true
		return true
	})
	stop()
	require.True(t, ended, "stop waits")
	require.False(t, c.ScanDone.Load())

	c = &Set{}
	c.CountAhead(t.Context(), func(context.Context) bool { t.Error("nothing asks for totals"); return true })()
	require.False(t, c.ScanDone.Load())
}
