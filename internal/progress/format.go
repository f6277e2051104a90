package progress

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/units"
)

// Size is [units.Size].
func Size(bytes int64) string { return units.Size(bytes) }

// Rate is [units.Rate].
func Rate(bytesPerSecond float64) string { return units.Rate(bytesPerSecond) }

// Clock is [units.Clock].
func Clock(d time.Duration) string { return units.Clock(d) }
