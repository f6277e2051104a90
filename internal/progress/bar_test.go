package progress

import (
	"os"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// in returns a copy of s in the given phase.
func (s snapshot) in(phase counters.Phase) snapshot {
	s.phase = phase
	return s
}

func TestTheViewShowsWhatFitsTheTerminal(t *testing.T) {
	copying := shot(12.3e9, 27.1e9)
	copying.current = "A001/clip 0001.mov"
	unknown := shot(12.3e9, 0).in(counters.PhaseScanning)
	unknown.totalsKnown = false
	draining := shot(27.0e9, 27.1e9).in(counters.PhaseFlushing)
	draining.unwritten, draining.deviceRate, draining.rate = 0.1e9, 40e6, 40e6
	unmeasured := draining
	unmeasured.deviceRate = 0
	slow := draining
	slow.deviceRate = 27_000 // more than an hour
	few := shot(5, 10)
	few.files, few.totalFiles, few.etaRate = 1, 2, 0
	stream := shot(5e9, 10e9)
	stream.bytesOnly = true
	for _, c := range []struct {
		name    string
		s       snapshot
		columns int
		unicode bool
		want    []string
	}{
		{"80 columns", copying, 80, false, []string{
			"copying    45% [=====================>.............................]   ETA 0:13",
			"12.3 GB/27.1 GB  12.3k/27.1k files  1.44 GB/s  avg 1.32 GB/s",
			"'A001/clip 0001.mov'",
		}},
		{"Unicode", copying, 80, true, []string{
			"copying    45% ███████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   ETA 0:13",
			"12.3 GB/27.1 GB  12.3k/27.1k files  1.44 GB/s  avg 1.32 GB/s",
			"'A001/clip 0001.mov'",
		}},
		{"40 columns", copying, 40, true, []string{
			"copying    45% █████░░░░░░░░   ETA 0:13",
			"12.3 GB/27.1 GB  1.44 GB/s",
			"'A001/clip 0001.mov'",
		}},
		{"30 columns", copying, 30, true, []string{
			"copying    45% █████░░░░░░░",
			"12.3 GB/27.1 GB  1.44 GB/s",
			"'A001/clip 0001.mov'",
		}},
		{"20 columns", copying, 20, false, []string{
			"  45% [===>.....]",
			"1.44 GB/s",
			"'A001/cl...001.mov'",
		}},
		{"5 columns", copying, 5, false, []string{"45%", "1.44", "'..."}},
		{"start", shot(0, 27.1e9), 80, false, []string{
			"copying     0% [...................................................]   ETA 0:24",
			"    0 B/27.1 GB      0/27.1k files  1.44 GB/s  avg 1.32 GB/s",
		}},
		{"few", few, 60, true, []string{
			"copying    50% ████████████████░░░░░░░░░░░░░░░░░",
			"    5 B/10 B      1/2 files  1.44 GB/s  avg 1.32 GB/s",
		}},
		{"no files to count", stream, 80, true, []string{
			"copying    50% ██████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░   ETA 0:04",
			"5.00 GB/10.0 GB  1.44 GB/s  avg 1.32 GB/s",
		}},
		{"full, and not done", shot(27.1e9, 27.1e9).in(counters.PhaseFlushing), 60, true, []string{
			"flushing  100% █████████████████████████████████",
			"27.1 GB/27.1 GB  27.1k/27.1k files  1.44 GB/s",
		}},
		{"flushing", draining, 60, true, []string{
			"flushing   99% ████████████████████████████████░   ETA 0:03",
			"27.0 GB/27.1 GB  27.0k/27.1k files  40.0 MB/s",
		}},
		{"flushing, speed unknown", unmeasured, 60, true, []string{
			"flushing   99% ████████████████████████████████░",
			"27.0 GB/27.1 GB  27.0k/27.1k files  40.0 MB/s",
		}},
		{"flushing for hours", slow, 60, true, []string{
			"flushing   99% ██████████████████████████████░  ETA 1:01:44",
			"27.0 GB/27.1 GB  27.0k/27.1k files  40.0 MB/s",
		}},
		{"verifying", shot(12.3e9, 27.1e9).in(counters.PhaseVerifying), 60, true, []string{
			"verifying  45% ██████████████░░░░░░░░░░░░░░░░░░░   ETA 0:13",
			"12.3 GB/27.1 GB  12.3k/27.1k files  1.44 GB/s",
		}},
		{"stopped", shot(12.3e9, 27.1e9).in(counters.PhaseStopped), 60, true, []string{
			"stopped    45% ██████████████░░░░░░░░░░░░░░░░░░░",
			"12.3 GB/27.1 GB  12.3k/27.1k files  1.44 GB/s",
		}},
		{"total unknown", unknown, 80, true, []string{
			"| scanning",
			"12.3 GB  12.3k files  1.44 GB/s  avg 1.32 GB/s",
		}},
		{"total unknown, narrow", unknown, 20, true, []string{
			"| scanning",
			"12.3 GB  1.44 GB/s",
		}},
	} {
		assert.Equal(t, c.want, view(c.s, c.columns, 24, 0, Look{Unicode: c.unicode}), c.name)
	}
}

// At any width, no line is wider than the terminal, and no value moves its neighbours.
func TestTheViewFitsAndItsFieldsDoNotMove(t *testing.T) {
	values := []int64{0, 1, 999, 1000, 999_499, 999_500, 9_994_999, 123_456_789, 999_950_000_000, 5e15, 9e18}
	names := []string{"", "a", strings.Repeat("日本e\u0301\n", 40)}
	for columns := range 200 {
		if columns > 100 && columns%10 != 0 && os.Getenv("SEALIFT_LARGE") != "1" {
			continue // nothing is left out of lines as wide as these
		}
		for i, total := range values {
			at, end := -1, -1
			for _, bytes := range values {
				if bytes > total {
					continue
				}
				s := shot(bytes, total)
				s.rate, s.average, s.current = float64(bytes), float64(total), names[i%3]
				for _, known := range []bool{true, false} {
					s.totalsKnown = known
					for _, line := range view(s, columns, 24, i, Look{Unicode: i%2 == 0}) {
						require.LessOrEqual(t, uniseg.StringWidth(line), max(columns-1, 0), "%d columns: %q", columns, line)
					}
				}
				if columns < 60 {
					continue
				}
				s.totalsKnown, s.etaRate = true, 0
				lines := view(s, columns, 24, i, Look{})
				slash, bracket := strings.IndexByte(lines[1], '/'), strings.IndexByte(lines[0], ']')
				if at >= 0 && (slash != at || bracket != end) {
					t.Fatalf("%d columns: the fields moved from columns %d and %d in %q", columns, at, end, lines)
				}
				at, end = slash, bracket
			}
		}
	}
}

func TestTheViewIsNotAsHighAsTheTerminal(t *testing.T) {
	s := shot(1e9, 2e9)
	s.current = "f"
	s.destinations = []destination{{name: "a"}, {name: "b"}}
	full := view(s, 80, 24, 0, Look{})
	require.Len(t, full, 5)
	for rows, want := range map[int]int{0: 1, 1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5} {
		require.Equal(t, full[:want], view(s, 80, rows, 0, Look{}), "%d rows", rows)
	}
}

func TestTheBarHasAColour(t *testing.T) {
	look := Look{Unicode: true, Bar: "<", Off: ">"}
	require.Equal(t, "copying    50% <██████░░░░░░░>   ETA 0:01", view(shot(1e9, 2e9), 40, 24, 0, look)[0])
}

func TestTheSpinnerTurnsWithEachFrame(t *testing.T) {
	seen := ""
	for frame := range 5 {
		seen += view(snapshot{}, 80, 24, frame, Look{})[0][:1]
	}
	if seen != `|/-\|` {
		t.Errorf("strokes %s", seen)
	}
}
