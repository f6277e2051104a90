package progress

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

func TestBarIsDrawnAtMostFourTimesASecondAndThenGone(t *testing.T) {
	tp := run(t, ModeBar, 10, totals(1e9, 100))
	if len(tp.lines) != 0 {
		t.Errorf("lines beside the bar: %q", tp.lines)
	}
	if n := len(tp.bars); n < 39 || n > 41 {
		t.Errorf("%d drawings in 10 s, want about 40", n)
	}
	for i := 1; i < len(tp.at)-1; i++ {
		if d := tp.at[i] - tp.at[i-1]; d < 250*time.Millisecond {
			t.Fatalf("drawings %d and %d are %v apart", i-1, i, d)
		}
	}
	if last := tp.bars[len(tp.bars)-1]; last != "" {
		t.Errorf("after Stop the bar is %q", last)
	}
	if s := tp.bars[len(tp.bars)-2]; !strings.Contains(s, "100 MB/s") {
		t.Errorf("the rate of 100 MB/s is not in %q", s)
	}
}

func TestPlainWritesALineEveryTenSeconds(t *testing.T) {
	tp := run(t, ModePlain, 35, totals(10e9, 1000))
	want := []string{
		"copying: 1.00 GB of 10.0 GB (10%), 100 of 1000 files, 100 MB/s (average 100 MB/s), 1:30 left",
		"copying: 2.00 GB of 10.0 GB (20%), 200 of 1000 files, 100 MB/s (average 100 MB/s), 1:20 left",
		"copying: 3.00 GB of 10.0 GB (30%), 300 of 1000 files, 100 MB/s (average 100 MB/s), 1:10 left",
	}
	if len(tp.lines) != len(want) || len(tp.bars) != 0 {
		t.Fatalf("lines %q, bars %q", tp.lines, tp.bars)
	}
	for i, line := range tp.lines {
		if line != want[i] {
			t.Errorf("line %d\n got %s\nwant %s", i, line, want[i])
		}
	}
}

func TestJSONWritesAtMostOneObjectASecondAndTheLastState(t *testing.T) {
	tp := run(t, ModeJSON, 5, totals(500e6, 50))
	if n := len(tp.lines); n < 5 || n > 6 {
		t.Fatalf("%d objects in 5 s: %q", n, tp.lines)
	}
	for i := 1; i < len(tp.at)-1; i++ {
		if d := tp.at[i] - tp.at[i-1]; d < time.Second {
			t.Errorf("objects %d and %d are %v apart", i-1, i, d)
		}
	}
	var last map[string]any
	if err := json.Unmarshal([]byte(tp.lines[len(tp.lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"phase": "copying", "bytes": 500e6, "total_bytes": 500e6, "files": 50.0, "total_files": 50.0,
		"elapsed_seconds": 5.0, "unwritten_bytes": 0.0, "average_rate": 100e6, "eta_seconds": 0.0,
	} {
		if last[key] != want {
			t.Errorf("%s = %v, want %v", key, last[key], want)
		}
	}
	if _, ok := last["rate"]; !ok {
		t.Error("rate is missing")
	}
}

func TestJSONHasNullForUnknownTotals(t *testing.T) {
	tp := run(t, ModeJSON, 2, nil)
	for _, key := range []string{"total_bytes", "total_files", "eta_seconds"} {
		if !strings.Contains(tp.lines[0], `"`+key+`":null`) {
			t.Errorf("%s is not null in %s", key, tp.lines[0])
		}
	}
}

// A short run ends before its totals are counted.
func TestJSONKnowsTheTotalsWhenTheRunIsOver(t *testing.T) {
	tp := run(t, ModeJSON, 2, func(c *counters.Set) { c.Phase.Store(int32(counters.PhaseDone)) })
	want := `"phase":"done","bytes":200000000,"total_bytes":200000000,"files":20,"total_files":20,`
	if last := tp.lines[len(tp.lines)-1]; !strings.Contains(last, want) {
		t.Errorf("%s lacks %s", last, want)
	}
}

func TestJSONHasTheUnwrittenBytes(t *testing.T) {
	tp := run(t, ModeJSON, 2, func(c *counters.Set) {
		totals(300e6, 20)(c)
		c.Phase.Store(int32(counters.PhaseFlushing))
		c.Unwritten.Store(80e6)
		c.DeviceRate.Store(40e6)
	})
	want := `{"schema":1,"phase":"flushing","bytes":120000000,"total_bytes":300000000,"files":20,"total_files":20,"unwritten_bytes":80000000,`
	last := tp.lines[len(tp.lines)-1]
	if !strings.HasPrefix(last, want) || !strings.HasSuffix(last, `"eta_seconds":2}`) {
		t.Errorf("got  %s\nwant %s...", last, want)
	}
}

func TestTextShowsTheFlush(t *testing.T) {
	s := snapshot{phase: counters.PhaseFlushing, bytes: 27.0e9, totalBytes: 27.1e9, unwritten: 0.1e9, deviceRate: 40e6,
		files: 7, totalFiles: 7, totalsKnown: true, rate: 40e6, average: 41e6}
	const want = "flushing: 27.0 GB of 27.1 GB (99%), 7 of 7 files, 40.0 MB/s (average 41.0 MB/s), 0:03 left"
	if got := s.text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.bytes, s.unwritten = s.totalBytes, 0
	if got := s.text(); strings.Contains(got, "left") {
		t.Errorf("nothing is left to count: %s", got)
	}
}

func TestNoneDrawsNothingButKnowsTheStatus(t *testing.T) {
	if tp := run(t, ModeNone, 30, nil); len(tp.at) != 0 {
		t.Errorf("drawn: %q %q", tp.bars, tp.lines)
	}
	synctest.Test(t, func(t *testing.T) {
		c := &counters.Set{}
		p := Start(Config{Mode: ModeNone, Counters: c})
		defer p.Stop()
		time.Sleep(2 * time.Second)
		c.Bytes.Store(3e6)
		c.Files.Store(7)
		const want = "starting: 3.00 MB, 7 files, 1.50 MB/s (average 1.50 MB/s)"
		if got := p.Status(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestAutoBecomesTheModeThatSuitsTheOutput(t *testing.T) {
	for _, c := range []struct {
		mode            Mode
		terminal, quiet bool
		want            Mode
	}{
		{ModeAuto, true, false, ModeBar},
		{ModeAuto, false, false, ModePlain},
		{ModeAuto, true, true, ModeNone},
		{ModeAuto, false, true, ModeNone},
		{ModeBar, false, false, ModeBar},
		{ModeJSON, true, true, ModeJSON},
		{ModeNone, true, false, ModeNone},
	} {
		if got := c.mode.Resolve(c.terminal, c.quiet); got != c.want {
			t.Errorf("%v.Resolve(%v, %v) = %v, want %v", c.mode, c.terminal, c.quiet, got, c.want)
		}
	}
}
