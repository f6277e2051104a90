package cli

import (
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
)

// sampler records the counters of a run as samples for the plot of its report.
type sampler struct {
	samples *report.Samples
	begun   time.Time
	targets int // number of destinations; another series, the last one, has bytes that are only read
	phase   string

	read    int64   // bytes that were only read, at the last sample
	written []int64 // bytes on the device of each destination at the last sample
}

// watch records the throughput of a run until stop is called. There is one series for each
// destination, and one called read for bytes that are only read. If that is "", nothing is recorded.
func (r *htmlReport) watch(c *counters.Set, targets []string, read string) (stop func()) {
	if r == nil || read == "" {
		return func() {}
	}
	var names []string
	for _, t := range targets {
		names = append(names, quote.Name(t))
	}
	r.samples = report.NewSamples(append(names, read))
	s := &sampler{samples: r.samples, begun: r.begun, targets: len(targets), written: make([]int64, len(targets)), phase: counters.PhaseStarting.String()}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(report.FirstStep)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.take(c, false)
			case <-done:
				s.take(c, true)
				return
			}
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// take adds one sample of the counters. Each byte is written to all destinations, so that the
// bytes at one of them are the bytes copied, less its unwritten data. A copy only reads what it
// reads back; a run without destinations only reads.
func (s *sampler) take(c *counters.Set, last bool) {
	phase := counters.Phase(c.Phase.Load())
	if phase != counters.PhaseDone && phase != counters.PhaseStopped {
		s.phase = phase.String()
	}
	got := make([]int64, s.targets+1)
	work := max(c.Bytes.Load()-c.Unread.Load(), 0)
	read := work
	if s.targets > 0 {
		read = c.ReadBack.Bytes.Load()
	}
	got[s.targets] = max(read-s.read, 0)
	s.read = max(read, s.read)
	several := c.Destinations()
	for i := range s.written {
		unwritten := c.Unwritten.Load()
		if i < len(several) {
			if several[i].Dropped.Load() != nil {
				continue
			}
			unwritten = several[i].Unwritten.Load()
		}
		now := max(work-max(unwritten, 0), s.written[i])
		got[i], s.written[i] = now-s.written[i], now
	}
	s.samples.Add(time.Since(s.begun), s.phase, got, last)
}
