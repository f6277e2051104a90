package pipe

import (
	"time"

	"golang.org/x/time/rate"
)

// limitMemory is how much time that was not used a limit makes up for. It has to be
// longer than the system oversleeps and than a device pauses now and then; else each of
// those lowers the rate for good. It is short enough that no burst shows.
const limitMemory = 200 * time.Millisecond

// maxBurst is what fits an int of 32 bits, in bytes.
const maxBurst = 1 << 30

// NewLimiter returns a limit of bytes per second for reads of at most block bytes. It
// begins without credit: the first second has the same rate as all others.
func NewLimiter(bytesPerSecond int64, block int) *rate.Limiter {
	burst := max(block, int(min(float64(bytesPerSecond)*limitMemory.Seconds(), maxBurst)))
	l := rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	l.AllowN(time.Now(), burst-block)
	return l
}
