package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/report"
)

// The bytes that are read back have their own series, and are written to no destination.
func TestThroughputOfReadingBack(t *testing.T) {
	c := &counters.Set{}
	s := &sampler{samples: report.NewSamples([]string{"a", "read back"}), targets: 1, written: make([]int64, 1)}
	at := func(seconds int, phase counters.Phase, copied, readBack int64) {
		s.begun = time.Now().Add(-time.Duration(seconds) * time.Second)
		c.Phase.Store(int32(phase))
		c.Bytes.Store(copied)
		c.ReadBack.Bytes.Store(readBack)
		s.take(c, seconds == 3)
	}
	at(1, counters.PhaseCopying, 100, 0)
	at(2, counters.PhaseVerifying, 100, 40)
	at(3, counters.PhaseDone, 100, 100)

	written, ok := s.samples.Speed(0)
	require.True(t, ok)
	require.InDelta(t, 100, written.Average, 5)
	read, ok := s.samples.Speed(1)
	require.True(t, ok)
	require.InDelta(t, 50, read.Average, 5)
}
