package progress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

func TestRatesForgetOldSamples(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &counters.Set{}
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
	c := &counters.Set{}
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

func TestThereIsNoEstimateBeforeAnythingIsKnown(t *testing.T) {
	base := snapshot{totalsKnown: true, bytes: 1, totalBytes: 1000, etaRate: 1}
	for name, change := range map[string]func(*snapshot){
		"totals unknown":             func(s *snapshot) { s.totalsKnown = false },
		"standstill":                 func(s *snapshot) { s.etaRate = 0 },
		"over the total":             func(s *snapshot) { s.bytes = 2000 },
		"years":                      func(s *snapshot) { s.totalBytes = 1e15 },
		"flushing, and no byte left": func(s *snapshot) { s.phase, s.deviceRate = counters.PhaseFlushing, 1 },
		"flushing, speed unknown":    func(s *snapshot) { s.phase, s.unwritten = counters.PhaseFlushing, 9 },
		"flushing for years": func(s *snapshot) {
			s.phase, s.unwritten, s.deviceRate = counters.PhaseFlushing, 1e15, 1
		},
	} {
		s := base
		change(&s)
		if eta, ok := s.eta(); ok {
			t.Errorf("%s: eta %v", name, eta)
		}
	}
	for _, phase := range []counters.Phase{counters.PhaseScanning, counters.PhaseCopying, counters.PhaseVerifying, counters.PhaseHashing} {
		base.phase = phase
		if _, ok := base.eta(); !ok {
			t.Errorf("no eta while %v", phase)
		}
	}
	base.phase, base.unwritten, base.deviceRate, base.totalsKnown = counters.PhaseFlushing, 90, 40, false
	if eta, ok := base.eta(); !ok || eta != 2250*time.Millisecond {
		t.Errorf("while flushing: %v, %v; want 2.25 s by the speed of the device, whatever the totals", eta, ok)
	}
}

// While a device has stalled, there is no estimate: the estimated time has already passed.
func TestNoEstimateWhileADeviceIsStalled(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &counters.Set{}
	c.Phase.Store(int32(counters.PhaseFlushing))
	c.Bytes.Store(100e6)
	c.Unwritten.Store(20e6)
	c.DeviceRate.Store(10e6)
	for i := range 10 * 4 { // the first take sees that bytes are unwritten
		_, ok := s.take(now, c).eta()
		if want := time.Duration(i)*tick <= 5*time.Second; ok != want {
			t.Errorf("eta after %v: %v, want %v", time.Duration(i)*tick, ok, want)
		}
		now = now.Add(tick)
	}
	c.Unwritten.Store(10e6)
	if eta, ok := s.take(now, c).eta(); !ok || eta != time.Second {
		t.Errorf("%v, %v; want 1 s, when it answers again", eta, ok)
	}
}

func TestPercentIs100OnlyWhenAllIsWritten(t *testing.T) {
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
		{snapshot{bytes: 5, totalBytes: 5, unwritten: 1}, 99},
		{snapshot{bytes: 9e18 - 1, totalBytes: 9e18, unwritten: 1}, 99}, // equal to the total as a float64
		{snapshot{files: 4, totalFiles: 4, unwritten: 1}, 99},
	} {
		if got := c.s.percent(); got != c.want {
			t.Errorf("%+v: %d%%, want %d%%", c.s, got, c.want)
		}
	}
}

func TestRateIsThatOfTheLastSeconds(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &counters.Set{}
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

// Verifying has separate rates, whether the sampler first sees the new phase or the bytes that are
// counted from 0 again.
func TestRatesStartAnewWithVerifying(t *testing.T) {
	for name, begin := range map[string]func(c *counters.Set, look func()){
		"from 0": func(c *counters.Set, _ func()) {
			c.Bytes.Store(0)
			c.Phase.Store(int32(counters.PhaseVerifying))
		},
		"from 0, a little later": func(c *counters.Set, look func()) {
			c.Phase.Store(int32(counters.PhaseVerifying))
			look()
			c.Bytes.Store(0)
		},
	} {
		now := time.Unix(1e9, 0)
		s := newSampler(now)
		c := &counters.Set{}
		c.ScanDone.Store(true)
		c.TotalBytes.Store(1e9)
		var shot snapshot
		look := func() {
			now = now.Add(tick)
			shot = s.take(now, c)
		}
		c.Phase.Store(int32(counters.PhaseCopying))
		for range 40 { // 100 MB/s
			look()
			c.Bytes.Add(25e6)
		}
		c.Phase.Store(int32(counters.PhaseFlushing))
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

// If a file is read again, its bytes are subtracted, and the average continues.
func TestBytesTakenBackDoNotStartAnew(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &counters.Set{}
	c.Phase.Store(int32(counters.PhaseHashing))
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

// Files that are skipped unread, and bytes of an interrupted run, count as progress but not in the
// rates.
func TestUnreadBytesHaveNoSpeed(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSampler(now)
	c := &counters.Set{}
	c.Phase.Store(int32(counters.PhaseCopying))
	s.take(now.Add(tick), c)
	c.Unread.Store(90e6)
	c.Bytes.Store(90e6)
	if shot := s.take(now.Add(2*time.Second), c); shot.bytes != 90e6 || shot.rate != 0 || shot.average != 0 || shot.etaRate != 0 {
		t.Errorf("nothing was read: %d bytes, rate %v, average %v", shot.bytes, shot.rate, shot.average)
	}
	c.Bytes.Add(10e6)
	if shot := s.take(now.Add(10*time.Second), c); shot.bytes != 100e6 || shot.average != 1e6 {
		t.Errorf("%d bytes, average %v; want 1 MB/s", shot.bytes, shot.average)
	}
}

// The source is four times as fast as the device. The bytes and rates shown are those of the
// device, until it has everything.
func TestBytesAreThoseOnTheDevice(t *testing.T) {
	const total, device, window = 400e6, 40e6, 80e6
	w := newWatched(total)
	w.DeviceRate.Store(device)
	var read, written int64
	step := func() snapshot {
		read = min(read+40e6, written+window, total)
		written = min(written+device/4, read)
		w.Bytes.Store(read)
		w.Unwritten.Store(read - written)
		return w.sample()
	}
	for i := range 33 { // until everything is read
		s := step()
		if s.bytes != written || s.rate != device || s.average != device {
			t.Fatalf("tick %d: %d bytes at %v, average %v; want %d at %v", i, s.bytes, s.rate, s.average, written, float64(device))
		}
		if eta, ok := s.eta(); !ok || eta != time.Duration(total-written)*time.Second/device {
			t.Fatalf("tick %d: eta %v, %v with %d bytes to go", i, eta, ok, total-written)
		}
	}
	if read != total {
		t.Fatalf("%d bytes are read", read)
	}
	if s := w.sample(); s.bytes != 330e6 || s.unwritten != 70e6 || s.percent() != 82 {
		t.Errorf("all is read: %d bytes and %d unwritten, %d %%", s.bytes, s.unwritten, s.percent())
	}
	w.Phase.Store(int32(counters.PhaseFlushing))
	for range 6 {
		s := step()
		eta, ok := s.eta()
		if s.bytes != written || s.percent() >= 100 || !ok || eta != time.Duration(total-written)*time.Second/device {
			t.Fatalf("flushing: %d bytes of %d written, %d %%, eta %v, %v", s.bytes, written, s.percent(), eta, ok)
		}
	}
	s := step()
	if eta, ok := s.eta(); s.bytes != total || s.percent() != 100 || ok {
		t.Errorf("flushed: %d bytes, %d %%, eta %v", s.bytes, s.percent(), eta)
	}
}

// Unwritten is measured at intervals, and may be that of another device than before.
func TestBytesShownDoNotGoBackwards(t *testing.T) {
	w := newWatched(100)
	for i, c := range []struct{ counted, unwritten, want int64 }{
		{10, 0, 10},
		{50, 0, 50},
		{60, 40, 50},
		{70, 30, 50},
		{70, 10, 60},
		{55, 10, 45}, // a file is read again
		{50, 45, 40},
		{50, 90, 40},
		{100, 50, 50},
		{100, 0, 100},
		{100, 5, 100},
		{0, 5, 0}, // and from 0 again
		{2, -5, 2},
		{50, 45, 5},
		{0, 45, 0}, // the subtracted bytes are still unwritten
	} {
		w.Bytes.Store(c.counted)
		w.Unwritten.Store(c.unwritten)
		s := w.sample()
		if s.bytes != c.want {
			t.Errorf("step %d: %d bytes are shown of %d with %d unwritten, want %d", i, s.bytes, c.counted, c.unwritten, c.want)
		}
		if s.unwritten != max(c.unwritten, 0) {
			t.Errorf("step %d: %d unwritten", i, s.unwritten)
		}
		if s.rate < 0 || s.average < 0 {
			t.Errorf("step %d: rate %v, average %v", i, s.rate, s.average)
		}
	}
}

// All bytes were shown before Unwritten was measured.
func TestThePercentageIs100OnlyAfterTheLastWrite(t *testing.T) {
	w := newWatched(100e6)
	w.Bytes.Store(100e6)
	w.sample()
	w.Unwritten.Store(30e6)
	s := w.sample()
	if s.percent() != 99 {
		t.Errorf("%d %% with 30 MB unwritten", s.percent())
	}
	if eta, ok := s.eta(); !ok || eta <= 0 {
		t.Errorf("eta %v, %v with 30 MB unwritten", eta, ok)
	}
}

// The rate of reading back contains neither the rate of the flush nor bytes that were unwritten
// when it began.
func TestVerifyingStartsAnewAfterFlushing(t *testing.T) {
	for _, seen := range []bool{true, false} { // a short flush falls between two ticks
		w := newWatched(1e9)
		w.DeviceRate.Store(40e6)
		for range 40 { // 100 MB/s, of which 40 MB/s reach the device
			w.Bytes.Add(25e6)
			w.Unwritten.Add(15e6)
			w.sample()
		}
		if seen {
			w.Phase.Store(int32(counters.PhaseFlushing))
			w.Unwritten.Store(300e6)
			w.sample()
		}
		w.Unwritten.Store(0)
		w.Phase.Store(int32(counters.PhaseVerifying))
		w.ReadBack.TotalBytes.Store(1e9)
		w.ReadBack.TotalFiles.Store(1)
		if s := w.sample(); s.bytes != 0 || s.totalBytes != 1e9 || s.rate != 0 || s.average != 0 {
			t.Errorf("flush seen %v: verifying begins with %d of %d bytes, rate %v, average %v", seen, s.bytes, s.totalBytes, s.rate, s.average)
		}
		var s snapshot
		for range 20 { // 10 MB/s
			w.ReadBack.Bytes.Add(2.5e6)
			s = w.sample()
		}
		if s.rate != 10e6 || s.average != 10e6 || s.bytes != 50e6 || s.percent() != 5 {
			t.Errorf("flush seen %v: %d bytes, %d %%, rate %v, average %v; want 10 MB/s", seen, s.bytes, s.percent(), s.rate, s.average)
		}
		if eta, ok := s.eta(); !ok || eta.Round(time.Second) != 95*time.Second {
			t.Errorf("flush seen %v: eta %v, %v; want 1:35", seen, eta, ok)
		}
	}
}

// The work of an interrupted run is counted all at once.
func TestResumedBytesDoNotRaiseTheRateForLong(t *testing.T) {
	w := newWatched(10e9)
	w.sample()
	w.Bytes.Store(5e9)
	var s snapshot
	for i := range 30 * 4 {
		s = w.sample()
		if i > 3*4 && (s.rate < 0.999e6 || s.rate > 1.001e6) {
			t.Fatalf("rate %v after %v, want 1 MB/s", s.rate, time.Duration(i)*tick)
		}
		w.Bytes.Add(250e3)
	}
	w.sample()
	if s = w.sample(); s.etaRate > 1.001e6 {
		t.Errorf("the estimate takes %v for the speed, want 1 MB/s", s.etaRate)
	}
}

// The run ends with unwritten bytes, because it does not sync.
func TestTotalOfAShortRunIsWhatWasCounted(t *testing.T) {
	w := newWatched(0)
	w.ScanDone.Store(false)
	w.Bytes.Store(100)
	w.Unwritten.Store(30)
	w.Phase.Store(int32(counters.PhaseDone))
	if s := w.sample(); !s.totalsKnown || s.totalBytes != 100 || s.bytes != 70 {
		t.Errorf("%d bytes of %d", s.bytes, s.totalBytes)
	}
}

// Small files cost more time than their bytes: 178,000 of 200,000 files are done after
// 32 s, and a large file was copied first.
func TestTheEstimateCountsFilesAsWell(t *testing.T) {
	w := newWatched(1e9 + 200_000*1000)
	w.TotalFiles.Store(200_001)
	w.Bytes.Store(1e9)
	w.Files.Store(1)
	var s snapshot
	for range 32 * 4 {
		w.Bytes.Add(178_000 / 128 * 1000)
		w.Files.Add(178_000 / 128)
		s = w.sample()
	}
	if eta, ok := s.eta(); !ok || eta < 3*time.Second || eta > 5*time.Second {
		t.Errorf("eta %v, %v; want 4 s", eta, ok)
	}
	w.Bytes.Store(1e9 + 100_000*1000) // the rest of the bytes is in one file
	w.Files.Store(200_000)
	if eta, ok := w.sample().eta(); !ok || eta > 3*time.Second {
		t.Errorf("eta %v, %v with one file to go", eta, ok)
	}
}

// Bytes that an interrupted run had copied are progress, but not part of the rates.
func TestResumedBytesAreNotPartOfTheRates(t *testing.T) {
	w := newWatched(2e9)
	w.TotalFiles.Store(2000)
	var s snapshot
	for i := range 40 { // 5 GB/s of resumed files at first, then 10 MB/s
		if i < 4 {
			w.Bytes.Add(250e6)
			w.Files.Add(250)
			w.Unread.Store(w.Bytes.Load())
			w.ResumedFiles.Store(w.Files.Load())
		} else {
			w.Bytes.Add(2.5e6)
		}
		s = w.sample()
		if s.rate > 10.1e6 || s.average > 10.1e6 {
			t.Fatalf("tick %d: rate %v, average %v; want at most 10 MB/s", i, s.rate, s.average)
		}
	}
	if eta, ok := s.eta(); s.percent() != 54 || !ok || eta < 90*time.Second {
		t.Errorf("%d %%, eta %v, %v", s.percent(), eta, ok)
	}
}

// A copy to disks of 80 and 30 MB/s, which is then read back. From the first tenth on, the time left is
// right to a fifth, in each phase. The slower disk limits the copy and needs longest to be read.
func TestTheTimeLeftIncludesReadingBack(t *testing.T) {
	const total, slow, quick = 1_200_000_000, 30_000_000, 80_000_000
	w := newWatched(total)
	w.TotalFiles.Store(12)
	w.Verifies.Store(true)
	a, b := &counters.Destination{Device: 1}, &counters.Destination{Device: 2}
	w.SetDestinations([]*counters.Destination{a, b})
	const ticks = 2 * total / slow * int(time.Second/tick)
	at := 0
	check := func() {
		s := w.sample()
		at++
		left := time.Duration(ticks-at) * tick
		eta, ok := s.eta()
		if at > ticks/10 && at < ticks-4 {
			assert.True(t, ok, "tick %d", at)
			assert.InDelta(t, left.Seconds(), eta.Seconds(), 0.2*left.Seconds()+0.5, "%s, tick %d", s.phase, at)
		}
	}
	for range ticks / 2 {
		w.Bytes.Add(slow / 4)
		w.Files.Store(w.Bytes.Load() / 100e6)
		check()
	}
	w.Phase.Store(int32(counters.PhaseVerifying))
	w.ReadBack.TotalBytes.Store(2 * total)
	w.ReadBack.TotalFiles.Store(24)
	for _, d := range w.Destinations() {
		d.ReadBack.TotalBytes.Store(total)
		d.ReadBack.TotalFiles.Store(12)
	}
	for range ticks / 2 {
		for d, rate := range map[*counters.Destination]int64{a: quick, b: slow} {
			n := min(rate/4, total-d.ReadBack.Bytes.Load())
			d.ReadBack.Bytes.Add(n)
			d.ReadBack.Files.Store(d.ReadBack.Bytes.Load() / 100e6)
			w.ReadBack.Bytes.Add(n)
		}
		w.ReadBack.Files.Store(w.ReadBack.Bytes.Load() / 100e6)
		check()
	}
}

// A run that ends before anything is read back has no time left.
func TestNoTimeIsLeftAtTheEnd(t *testing.T) {
	w := newWatched(100e6)
	w.TotalFiles.Store(1)
	w.Verifies.Store(true)
	for range 4 {
		w.Bytes.Add(25e6)
		w.sample()
	}
	w.Files.Store(1)
	w.Phase.Store(int32(counters.PhaseDone))
	eta, ok := w.sample().eta()
	require.True(t, ok)
	require.Zero(t, eta)
}

// Bytes of an earlier run that are read again have a rate of their own, which the time left contains.
func TestTheTimeLeftContainsWhatIsStillToBeChecked(t *testing.T) {
	w := newWatched(400e6)
	w.CheckTotal.Store(300e6)
	check := func(n int64) snapshot {
		w.Unread.Add(n)
		w.Checked.Add(n)
		w.Bytes.Add(n)
		return w.sample()
	}
	var shot snapshot
	for range 8 {
		shot = check(25e6) // 100 MB/s
	}
	requireETA(t, shot, 2*time.Second) // 100 MB to check, and 100 MB to copy
	require.Equal(t, 50, shot.percent())
	require.Zero(t, shot.rate)
	require.Contains(t, shot.text(), "200 MB of 400 MB (50%)")
	require.Contains(t, shot.text(), ", checking 200 MB of 300 MB that an earlier run copied")

	for range 4 {
		shot = check(25e6)
	}
	require.NotContains(t, shot.text(), "checking")
	for range 4 {
		w.Bytes.Add(10e6) // 40 MB/s
		shot = w.sample()
	}
	require.InDelta(t, 40e6, shot.rate, 1e5, "without the time of the check")
	require.InDelta(t, 40e6, shot.average, 1e5)
	requireETA(t, shot, 1500*time.Millisecond)
}

func requireETA(t *testing.T, s snapshot, want time.Duration) {
	t.Helper()
	eta, ok := s.eta()
	require.True(t, ok)
	require.InDelta(t, want.Seconds(), eta.Seconds(), 0.1)
}
