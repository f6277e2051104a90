package pipe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A limit is met within 3 % where the device is faster on average, although now and then
// it pauses for longer than a block takes at that rate.
func TestLimitIsMetAcrossPauses(t *testing.T) {
	const block = 128 << 10
	for _, limit := range []int64{50e6, 100e6, 200e6, 300e6, 400e6} {
		synctest.Test(t, func(t *testing.T) {
			p := &Pipe{Limiter: NewLimiter(limit, block)}
			begin, moved := time.Now(), int64(0)
			for i := range 20_000 {
				require.NoError(t, p.Pace(t.Context(), block, nil))
				if moved += block; i%50 == 0 {
					time.Sleep(5 * time.Millisecond) // 50 blocks take 16 ms at 400 MB/s
				}
				time.Sleep(100 * time.Microsecond)
			}
			got := float64(moved) / time.Since(begin).Seconds()
			require.InEpsilon(t, limit, got, 0.03)
		})
	}
}

// A copy that is shorter than the credit that a limit may collect is limited as well.
func TestLimitHoldsFromTheFirstBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pipe{Limiter: NewLimiter(100e6, 128<<10)}
		begin := time.Now()
		for range 100 {
			require.NoError(t, p.Pace(t.Context(), 100e3, nil))
		}
		require.InEpsilon(t, 0.1, time.Since(begin).Seconds(), 0.03)
	})
}
