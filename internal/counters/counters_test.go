package counters

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesDoNotOverflow(t *testing.T) {
	require.Equal(t, int64(math.MaxInt64), Plus(math.MaxInt64, 1))
	require.Equal(t, int64(math.MaxInt64), Plus(1, math.MaxInt64-1))
	require.Equal(t, int64(3), Plus(1, 2))
	require.Equal(t, int64(math.MaxInt64), Times(2, math.MaxInt64))
	require.Equal(t, int64(math.MaxInt64-1), Times(2, math.MaxInt64/2))
	require.Equal(t, int64(0), Times(2, 0))
	var c atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				Grow(&c, math.MaxInt64/4)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(math.MaxInt64), c.Load())
}
