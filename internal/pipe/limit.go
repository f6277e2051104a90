package pipe

import (
	"time"

	"golang.org/x/time/rate"
)

// limitMemory is the unused time that a limit makes up for. It must be longer than the usual
// delays of the system and pauses of devices; otherwise each of them would lower the rate. It
// is short enough that no burst is visible.
const limitMemory = 200 * time.Millisecond

// maxBurst is the largest burst, in bytes. It fits into an int of 32 bits.
const maxBurst = 1 << 30

// NewLimiter returns a limit of bytes per second for reads of at most block bytes. It begins
// without credit, so the first second has the same rate as all others.
func NewLimiter(bytesPerSecond int64, block int) *rate.Limiter {
	burst := max(block, int(min(float64(bytesPerSecond)*limitMemory.Seconds(), maxBurst)))
	l := rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	l.AllowN(time.Now(), burst-block)
	return l
}
