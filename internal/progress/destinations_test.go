package progress

import (
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// One destination takes 100 MB/s, one 40 MB/s, and one was dropped.
func TestEachOfSeveralDestinationsHasALine(t *testing.T) {
	w := newWatched(1e9)
	fast, slow, full := &counters.Destination{Name: "/mnt/fast"}, &counters.Destination{Name: "/mnt/slow disk"}, &counters.Destination{Name: "c"}
	w.SetDestinations([]*counters.Destination{fast, slow, full})
	why := "no space left on device"
	full.Dropped.Store(&why)
	var s snapshot
	for range 20 {
		w.Bytes.Add(25e6)
		slow.Unwritten.Add(15e6)
		s = w.sample()
	}
	require.Equal(t, []string{
		"'/mnt/fast'        100 MB/s      0 B unwritten",
		"'/mnt/slow disk'  40.0 MB/s   300 MB unwritten  limited by this disk",
		"'c'               dropped: no space left on device",
	}, destinationLines(s.destinations, 80))
	require.Equal(t, []string{
		"'/mnt/fast'     100 MB/s      0 B unwri",
		"../slow disk'  40.0 MB/s   300 MB unwri",
		"'c'            dropped: no space left o",
	}, destinationLines(s.destinations, 40))

	fast.Unwritten.Store(200e6) // both are slow
	require.Empty(t, w.sample().destinations[1].state)
}

func TestLinesOfDestinationsFit(t *testing.T) {
	why := strings.Repeat("e\u0301日", 40)
	w := newWatched(1e9)
	a, b := &counters.Destination{Name: strings.Repeat("日本", 20)}, &counters.Destination{Name: "b\x1b[2J"}
	a.Dropped.Store(&why)
	w.SetDestinations([]*counters.Destination{a, b})
	list := w.sample().destinations
	for columns := range 200 {
		for _, line := range destinationLines(list, columns) {
			require.LessOrEqual(t, uniseg.StringWidth(line), max(columns-1, 0), "%q", line)
			require.NotContains(t, line, "\x1b")
		}
	}
}
