package progress

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// tape is a Screen that records what a Progress draws, and when.
type tape struct {
	mu    sync.Mutex
	start time.Time
	bars  []string
	lines []string
	at    []time.Duration // of every bar and line
}

func (t *tape) Bar(s string)  { t.put(&t.bars, s) }
func (t *tape) Line(s string) { t.put(&t.lines, s) }

func (t *tape) put(list *[]string, s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, s)
	t.at = append(t.at, time.Since(t.start))
}

// run shows counters that move by 100 MB and 10 files a second of fake time.
func run(t *testing.T, mode Mode, seconds int, prepare func(*counters.Set)) *tape {
	t.Helper()
	tp := &tape{}
	synctest.Test(t, func(t *testing.T) {
		tp.start = time.Now()
		c := &counters.Set{}
		c.Phase.Store(int32(counters.PhaseCopying))
		if prepare != nil {
			prepare(c)
		}
		p := Start(Config{Mode: mode, Counters: c, Screen: tp, Size: func() (int, int) { return 80, 24 }})
		for range seconds * 10 {
			time.Sleep(50 * time.Millisecond) // never at the instant of a tick
			c.Bytes.Add(10e6)
			c.Files.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
		p.Stop()
		n := len(tp.at)
		p.Stop()
		time.Sleep(time.Minute)
		if len(tp.at) != n {
			t.Errorf("%d drawings after Stop", len(tp.at)-n)
		}
	})
	return tp
}

// totals prepares counters whose totals are known.
func totals(bytes, files int64) func(*counters.Set) {
	return func(c *counters.Set) {
		c.TotalBytes.Store(bytes)
		c.TotalFiles.Store(files)
		c.ScanDone.Store(true)
	}
}

// shot is a snapshot of a copy with the given bytes, and one file for each megabyte.
func shot(bytes, total int64) snapshot {
	return snapshot{
		phase: counters.PhaseCopying, bytes: bytes, totalBytes: total,
		files: bytes / 1e6, totalFiles: total / 1e6, totalsKnown: true,
		rate: 1.44e9, average: 1.32e9, etaRate: 1.3e9,
	}
}

// watched is a sampler that reads the counters once per tick.
type watched struct {
	counters.Set
	sampler

	now time.Time
}

func newWatched(total int64) *watched {
	now := time.Unix(1e9, 0)
	w := &watched{sampler: newSampler(now), now: now}
	w.TotalBytes.Store(total)
	w.ScanDone.Store(true)
	w.Phase.Store(int32(counters.PhaseCopying))
	return w
}

func (w *watched) sample() snapshot {
	w.now = w.now.Add(tick)
	return w.take(w.now, &w.Set)
}
