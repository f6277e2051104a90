package progress

import (
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/counters"
)

func TestBarLineShowsWhatFitsTheTerminal(t *testing.T) {
	unknown := shot(12.3e9, 0)
	unknown.totalsKnown, unknown.phase = false, counters.PhaseScanning
	flushing := shot(27.1e9, 27.1e9)
	flushing.phase = counters.PhaseFlushing
	verifying := shot(12.3e9, 27.1e9)
	verifying.phase = counters.PhaseVerifying
	hashing := shot(12.3e9, 0)
	hashing.totalsKnown, hashing.phase = false, counters.PhaseHashing
	draining := shot(27.0e9, 27.1e9)
	draining.phase, draining.unwritten, draining.deviceRate, draining.rate = counters.PhaseFlushing, 0.1e9, 40e6, 40e6
	unmeasured := draining
	unmeasured.deviceRate = 0
	slow := draining
	slow.deviceRate = 27_000 // more than an hour
	hidden := draining
	hidden.totalsKnown = false
	done := flushing
	done.phase = counters.PhaseDone
	stopped := shot(12.3e9, 27.1e9)
	stopped.phase = counters.PhaseStopped
	empty := shot(0, 0)
	few := shot(5, 10)
	few.files, few.totalFiles, few.etaRate = 1, 2, 0
	for _, c := range []struct {
		name    string
		s       snapshot
		columns int
		want    string
	}{
		{"80 columns", shot(12.3e9, 27.1e9), 80,
			"  45% [===>......]  12.3 GB/27.1 GB 12.3k/27.1k files 1.44 GB/s ETA 0:13"},
		{"wide", shot(12.3e9, 27.1e9), 120,
			"  45% [===============>....................]  12.3 GB/27.1 GB 12.3k/27.1k files 1.44 GB/s avg 1.32 GB/s ETA 0:13"},
		{"start", shot(0, 27.1e9), 80,
			"   0% [..........]      0 B/27.1 GB     0/27.1k files 1.44 GB/s ETA 0:24"},
		{"few", few, 80, "  50% [=======>.........]      5 B/10 B     1/2 files 1.44 GB/s copying"},
		{"narrow", shot(12.3e9, 27.1e9), 40,
			"  45% [=======>...........]  1.44 GB/s"},
		{"full, and not done", flushing, 80,
			" 100% [==========]  27.1 GB/27.1 GB 27.1k/27.1k files 1.44 GB/s flushing"},
		{"flushing", draining, 80,
			"  99% [========>.]  27.0 GB/27.1 GB 27.0k/27.1k files 40.0 MB/s flushing 0:03"},
		{"flushing, wide", draining, 120,
			"  99% [==================================>.]  27.0 GB/27.1 GB 27.0k/27.1k files 40.0 MB/s avg 1.32 GB/s flushing 0:03"},
		{"flushing, speed unknown", unmeasured, 80,
			"  99% [========>.]  27.0 GB/27.1 GB 27.0k/27.1k files 40.0 MB/s flushing"},
		{"flushing for longer than there is space for", slow, 80,
			"  99% [========>.]  27.0 GB/27.1 GB 27.0k/27.1k files 40.0 MB/s flushing"},
		{"flushing, total unknown", hidden, 80,
			"|  27.0 GB 27.0k files 40.0 MB/s avg 1.32 GB/s flushing"},
		{"done", done, 80,
			" 100% [==========]  27.1 GB/27.1 GB 27.1k/27.1k files 1.44 GB/s done"},
		{"stopped", stopped, 80,
			"  45% [===>......]  12.3 GB/27.1 GB 12.3k/27.1k files 1.44 GB/s stopped"},
		{"verifying", verifying, 80,
			"  45% [===>......]  12.3 GB/27.1 GB 12.3k/27.1k files 1.44 GB/s ETA 0:13"},
		{"hashing, total unknown", hashing, 80,
			"|  12.3 GB 12.3k files 1.44 GB/s avg 1.32 GB/s hashing"},
		{"nothing to do", empty, 60,
			" 100% [============]      0 B/0 B 1.44 GB/s ETA 0:00"},
		{"total unknown", unknown, 80,
			"|  12.3 GB 12.3k files 1.44 GB/s avg 1.32 GB/s scanning"},
		{"total unknown, narrow", unknown, 20,
			"|  12.3 GB"},
	} {
		if got := barLine(c.s, c.columns, 0); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// Nothing may wrap, at any width, and no value may move what stands beside it.
func TestBarLineFitsAndItsFieldsDoNotMove(t *testing.T) {
	values := []int64{0, 1, 999, 1000, 999_499, 999_500, 9_994_999, 123_456_789, 999_950_000_000, 5e15, 9e18}
	for columns := range 200 {
		for _, total := range values {
			at := -1
			for _, bytes := range values {
				if bytes > total {
					continue
				}
				s := shot(bytes, total)
				s.rate, s.average = float64(bytes), float64(total)
				line := barLine(s, columns, 0)
				if len(line) > max(columns-1, 0) {
					t.Fatalf("%d columns: %d in %q", columns, len(line), line)
				}
				if columns < 60 {
					continue
				}
				slash := strings.IndexByte(line, '/')
				if at >= 0 && slash != at {
					t.Fatalf("%d columns: the fields moved from column %d to %d in %q", columns, at, slash, line)
				}
				at = slash
				s.totalsKnown = false
				if line := barLine(s, columns, 3); len(line) > columns-1 {
					t.Fatalf("%d columns: %d in %q", columns, len(line), line)
				}
			}
		}
	}
}

func TestTheSpinnerTurnsWithEachFrame(t *testing.T) {
	s := snapshot{}
	seen := ""
	for frame := range 5 {
		seen += barLine(s, 80, frame)[:1]
	}
	if seen != `|/-\|` {
		t.Errorf("strokes %s", seen)
	}
}
