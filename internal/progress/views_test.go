package progress

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// The views of each kind of work, in terminals of 60, 80 and 120 columns. UPDATE_GOLDEN=1 writes them.
func TestViewsAtEachWidth(t *testing.T) {
	disks := func(at ...destination) []destination {
		for i := range at {
			at[i].name = []string{"/media/anna/DISK A/2026-11-26/A001", "/media/anna/DISK B/2026-11-26/A001"}[i]
		}
		return at
	}
	copying := shot(12.3e9, 27.1e9)
	copying.current = "A001/A001_C012_1126XY.mov"

	checking := copying
	checking.checked, checking.checkTotal, checking.checkRate = 3e9, 8e9, 5e8

	two := copying
	two.destinations = disks(destination{rate: 80e6, unwritten: 20e6}, destination{rate: 30e6, unwritten: 250e6, limits: true})

	running := two
	for i := range 6 {
		size := int64(i+1) * 2e9
		running.running = append(running.running, counters.Running{Path: fmt.Sprintf("A001/A001_C%03d_1126XY.mov", 17-i), At: size * int64(5-i) / 6, Size: size})
	}

	dropped := copying
	dropped.destinations = disks(destination{rate: 80e6}, destination{dropped: "'A001/A001_C012_1126XY.mov': input/output error"})

	back := shot(20e9, 54.2e9).in(counters.PhaseVerifying)
	back.rate, back.average = 110e6, 108e6
	back.destinations = disks(destination{rate: 80e6, readBack: true, bytes: 14e9, total: 27.1e9}, destination{rate: 30e6, readBack: true, bytes: 6e9, total: 27.1e9})
	back.reading = []reading{{left: 13.1e9, rate: 80e6}, {left: 21.1e9, rate: 30e6}}
	var all strings.Builder
	for _, state := range []struct {
		name string
		snapshot
	}{
		{"one destination", copying}, {"a part of an earlier run is checked", checking}, {"two destinations", two},
		{"running files", running}, {"a destination was dropped", dropped}, {"two destinations, or two trees, are read", back},
	} {
		for _, columns := range []int{60, 80, 120} {
			fmt.Fprintf(&all, "%s, %d columns\n", state.name, columns)
			lines := view(state.snapshot, columns, 24, 0, Look{Unicode: true})
			all.WriteString(strings.Join(lines, "\n") + "\n\n")
		}
	}
	const path = "../../testdata/screens/views.txt"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(all.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), all.String())
}

// Only files that are in progress for a second are shown: the lines do not change with each frame.
func TestShortFilesAreNotShown(t *testing.T) {
	tp := &tape{}
	synctest.Test(t, func(t *testing.T) {
		c := &counters.Set{CountTotals: true}
		c.Phase.Store(int32(counters.PhaseCopying))
		long, short := c.NewWorker(), c.NewWorker()
		p := Start(Config{Mode: ModeBar, Counters: c, Screen: tp, Size: func() (int, int) { return 80, 24 }, Running: true})
		time.Sleep(100 * time.Millisecond) // never at the instant of a tick
		long.Begin("long")
		for i := range 6 {
			short.Begin(fmt.Sprint("short", i))
			short.Reached(10, 10)
			long.Reached(int64(i+1), 6)
			time.Sleep(500 * time.Millisecond)
			short.End()
		}
		p.Stop()
	})
	all := strings.Join(tp.bars, "\n")
	require.NotContains(t, all, "%  'short")
	require.NotContains(t, all, " 33%  'long'", "it is shown after a second")
	require.Contains(t, all, " 50%  'long'")
	require.Contains(t, all, " 99%  'long'", "all of it is read, but it is not done")
}

// Running files have a line each where there is space: at most four, those with the most bytes left, in at
// most a third of the rows.
func TestRunningFilesNeedRoom(t *testing.T) {
	s := shot(1e9, 2e9)
	s.current = "current"
	for i := range 6 {
		s.running = append(s.running, counters.Running{Path: fmt.Sprint("f", i), At: int64(i) * 10, Size: 100})
	}
	for _, c := range []struct {
		columns, rows int
		want          string
	}{
		{80, 24, "  0%  'f0'| 10%  'f1'| 20%  'f2'| 30%  'f3'"},
		{80, 9, "  0%  'f0'| 10%  'f1'| 20%  'f2'"},
		{80, 4, "  0%  'f0'"},
		{80, 3, ""},
		{41, 24, "  0%  'f0'| 10%  'f1'| 20%  'f2'| 30%  'f3'"},
		{40, 24, "'current'"},
	} {
		lines := view(s, c.columns, c.rows, 0, Look{})
		require.Equal(t, c.want, strings.Join(lines[2:], "|"), "%d columns, %d rows", c.columns, c.rows)
	}
}
