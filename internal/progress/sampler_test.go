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
	} {
		s := base
		change(&s)
		if eta, ok := s.eta(); ok {
			t.Errorf("%s: eta %v", name, eta)
		}
	}
	if _, ok := base.eta(); !ok {
		t.Error("no eta where there is one")
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
