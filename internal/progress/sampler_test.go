package progress

import (
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/tally"
)

func TestRatesForgetWhatIsLongAgo(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &tally.Counters{}
	c.ScanDone.Store(true)
	c.TotalBytes.Store(2e9)
	c.Bytes.Store(1e9) // an earlier run had copied them
	var shot snapshot
	for range 60 * 4 {
		now = now.Add(tick)
		shot = s.take(now, c)
		c.Bytes.Add(250e3) // 1 MB/s
	}
	if shot.rate < 0.99e6 || shot.rate > 1.01e6 {
		t.Errorf("rate %v, want 1 MB/s", shot.rate)
	}
	if shot.average < 17e6 {
		t.Errorf("average %v does not count from the start", shot.average)
	}
	eta, ok := shot.eta()
	if want := 940 * time.Second; !ok || eta < want-2*time.Second || eta > want+2*time.Second {
		t.Errorf("eta %v, %v, want about %v", eta, ok, want)
	}
	if n := len(s.samples); n > 125 {
		t.Errorf("%d samples are kept", n)
	}
}

func TestStatusSignalsDoNotDisturbTheRates(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &tally.Counters{}
	for range 4000 {
		now = now.Add(time.Millisecond)
		c.Bytes.Add(1000)
		s.take(now, c)
	}
	if n := len(s.samples); n > 18 {
		t.Errorf("%d samples in 4 s", n)
	}
	if r := s.take(now, c).rate; r < 0.99e6 || r > 1.01e6 {
		t.Errorf("rate %v, want 1 MB/s", r)
	}
}

func TestEstimateIsSilentWhereItKnowsNothing(t *testing.T) {
	base := snapshot{totalsKnown: true, bytes: 1, totalBytes: 1000, etaRate: 1}
	for name, change := range map[string]func(*snapshot){
		"totals unknown": func(s *snapshot) { s.totalsKnown = false },
		"standstill":     func(s *snapshot) { s.etaRate = 0 },
		"over the total": func(s *snapshot) { s.bytes = 2000 },
		"years":          func(s *snapshot) { s.totalBytes = 1e15 },
		"flushing":       func(s *snapshot) { s.phase = tally.PhaseFlushing },
	} {
		s := base
		change(&s)
		if eta, ok := s.eta(); ok {
			t.Errorf("%s: eta %v", name, eta)
		}
	}
	for _, phase := range []tally.Phase{tally.PhaseScanning, tally.PhaseCopying, tally.PhaseVerifying, tally.PhaseHashing} {
		base.phase = phase
		if _, ok := base.eta(); !ok {
			t.Errorf("no eta while %v", phase)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		s    snapshot
		want int
	}{
		{snapshot{bytes: 999_999, totalBytes: 1_000_000}, 99},
		{snapshot{bytes: 5, totalBytes: 5}, 100},
		{snapshot{bytes: 9, totalBytes: 5}, 100},
		{snapshot{files: 1, totalFiles: 4}, 25},
		{snapshot{}, 100},
		{snapshot{totalBytes: 5}, 0},
	} {
		if got := c.s.percent(); got != c.want {
			t.Errorf("%+v: %d%%, want %d%%", c.s, got, c.want)
		}
	}
}

func TestRateIsThatOfTheLastSeconds(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &tally.Counters{}
	var shot snapshot
	for i := range 60 {
		now = now.Add(tick)
		c.Bytes.Add(250e3) // 1 MB/s
		if i >= 40 {       // the last 5 s
			c.Bytes.Add(250e3)
		}
		shot = s.take(now, c)
	}
	if shot.rate != 2e6 {
		t.Errorf("rate %v, want 2 MB/s", shot.rate)
	}
}

// Reading back has a speed of its own, whether its bytes are counted on from
// those that were copied or from 0 again, and whichever is seen first.
func TestRatesStartAnewWithVerifying(t *testing.T) {
	for name, begin := range map[string]func(c *tally.Counters, look func()){
		"counted on": func(c *tally.Counters, _ func()) {
			c.TotalBytes.Add(1e9)
			c.Phase.Store(int32(tally.PhaseVerifying))
		},
		"from 0": func(c *tally.Counters, _ func()) {
			c.Bytes.Store(0)
			c.Phase.Store(int32(tally.PhaseVerifying))
		},
		"from 0, a little later": func(c *tally.Counters, look func()) {
			c.Phase.Store(int32(tally.PhaseVerifying))
			look()
			c.Bytes.Store(0)
		},
	} {
		now := time.Unix(1e9, 0)
		s := newSampler(now)
		c := &tally.Counters{}
		c.ScanDone.Store(true)
		c.TotalBytes.Store(1e9)
		var shot snapshot
		look := func() {
			now = now.Add(tick)
			shot = s.take(now, c)
		}
		c.Phase.Store(int32(tally.PhaseCopying))
		for range 40 { // 100 MB/s
			look()
			c.Bytes.Add(25e6)
		}
		c.Phase.Store(int32(tally.PhaseFlushing))
		look()
		begin(c, look)
		look()
		for range 40 { // 10 MB/s
			c.Bytes.Add(2.5e6)
			look()
		}
		if shot.rate != 10e6 || shot.average != 10e6 {
			t.Errorf("%s: rate %v, average %v; want 10 MB/s", name, shot.rate, shot.average)
		}
		if eta, ok := shot.eta(); !ok || eta != 90*time.Second {
			t.Errorf("%s: eta %v, %v; want 1:30", name, eta, ok)
		}
	}
}

// A file that is read again takes its bytes back; the average goes on.
func TestBytesTakenBackDoNotStartAnew(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &tally.Counters{}
	c.Phase.Store(int32(tally.PhaseHashing))
	s.take(now.Add(tick), c)
	c.Bytes.Store(5e6)
	s.take(now.Add(5*time.Second), c)
	c.Bytes.Store(1e6)
	s.take(now.Add(6*time.Second), c)
	c.Bytes.Store(10e6)
	if a := s.take(now.Add(10*time.Second), c).average; a != 1e6 {
		t.Errorf("average %v, want 1 MB/s", a)
	}
}
