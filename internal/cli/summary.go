package cli

import (
	"strconv"
	"time"

	"github.com/seed65876f4f/sealift/internal/units"
)

func plural(n int64, noun string) string { return units.Plural(n, noun) }

func grouped(n int64) string { return units.Grouped(n) }

// rate is bytes per second.
func rate(bytes int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(bytes) / elapsed.Seconds()
}

// duration returns a time with three significant digits, such as "1.25 s"; from one minute on,
// it returns hours, minutes and seconds.
func duration(d time.Duration) string {
	switch seconds := d.Seconds(); {
	case seconds < 0.9995:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 9.995:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return units.Clock(d)
}
