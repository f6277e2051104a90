package progress

import (
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// One destination writes 100 MB/s, one 40 MB/s, and one was dropped.
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
		"'c'               <dropped: no space left on device>",
	}, destinationLines(s.destinations, 79, Look{Bad: "<", Off: ">"}))
	require.Equal(t, []string{
		"'/mnt/fast'     100 MB/s",
		"'/mnt...disk'  40.0 MB/s",
		"'c'            dropped: no space lef...",
	}, destinationLines(s.destinations, 39, Look{}))
	require.Equal(t, "'/mnt/slow disk'  40.0 MB/s  limited by this disk", destinationLines(s.destinations, 49, Look{Unicode: true})[1])

	fast.Unwritten.Store(200e6) // both are slow
	require.False(t, w.sample().destinations[1].limits)
}

// Reading back has separate rates and totals at each destination.
func TestTheLineOfADestinationShowsWhatIsVerified(t *testing.T) {
	w := newWatched(1e9)
	fast, slow := &counters.Destination{Name: "fast"}, &counters.Destination{Name: "slow"}
	w.SetDestinations([]*counters.Destination{fast, slow})
	for range 20 {
		w.Bytes.Add(50e6)
		w.sample()
	}
	w.Phase.Store(int32(counters.PhaseVerifying))
	w.ReadBack.TotalBytes.Store(2e9)
	w.ReadBack.TotalFiles.Store(2)
	for _, d := range w.Destinations() {
		d.ReadBack.TotalBytes.Store(1e9)
	}
	var s snapshot
	w.sample()
	for range 20 { // from the first second on
		fast.ReadBack.Bytes.Add(25e6)
		slow.ReadBack.Bytes.Add(10e6)
		w.ReadBack.Bytes.Add(35e6)
		s = w.sample()
		require.InEpsilon(t, 100e6, s.destinations[0].rate, 1e-9)
		require.InEpsilon(t, 40e6, s.destinations[1].rate, 1e-9)
	}
	require.Equal(t, []string{
		"'fast'   100 MB/s   500 MB/1.00 GB verified",
		"'slow'  40.0 MB/s   200 MB/1.00 GB verified",
	}, destinationLines(s.destinations, 79, Look{}))
	require.Equal(t, 35, s.percent())
	require.InEpsilon(t, 140e6, s.rate, 1e-9)
	require.InEpsilon(t, 140e6, s.average, 1e-9)
}

func TestLinesOfDestinationsFit(t *testing.T) {
	why := strings.Repeat("e\u0301日", 40)
	w := newWatched(1e9)
	a, b := &counters.Destination{Name: strings.Repeat("日本", 20)}, &counters.Destination{Name: "b\x1b[2J"}
	a.Dropped.Store(&why)
	w.SetDestinations([]*counters.Destination{a, b})
	list := w.sample().destinations
	for columns := range 200 {
		for _, line := range destinationLines(list, columns, Look{Unicode: columns%2 == 0}) {
			require.LessOrEqual(t, uniseg.StringWidth(line), columns, "%q", line)
			require.NotContains(t, line, "\x1b")
		}
	}
}

// Two disks with the same layout have different names at each width that has space for them.
func TestNamesOfDestinationsStayDifferent(t *testing.T) {
	for _, test := range []struct {
		names []string
		wide  int // columns
		want  []string
	}{
		{[]string{"/media/ann/SHUTTLE_A/2026-11-25/A001", "/media/ann/SHUTTLE_B/2026-11-25/A001"}, 79, []string{"'…/SHUTTLE_A/…'", "'…/SHUTTLE_B/…'"}},
		{[]string{"/media/ann/SHUTTLE_A/2026-11-25/A001", "/media/ann/SHUTTLE_B/2026-11-25/A001"}, 39, []string{"'…/SHU…E_A/…'", "'…/SHU…E_B/…'"}},
		{[]string{"/media/ann/SHUTTLE_A/2026-11-25/A001", "/media/ann/SHUTTLE_B/2026-11-25/A001"}, 140, []string{"'/media/ann/SHUTTLE_A/2026-11-25/A001'", "'/media/ann/SHUTTLE_B/2026-11-25/A001'"}},
		{[]string{"/mnt/archive", "/mnt/archive/second/of/two/directories"}, 79, []string{"'…/archive'", "'…/archive/se…directories'"}},
		{[]string{"/archive-of-this-year/one", "/b"}, 40, []string{"'/arch…r/one'", "'/b'"}},
		{[]string{"/a/the-same-long-name-of-a-directory", "/b/the-same-long-name-of-a-directory"}, 79, []string{"'/a/…'", "'/b/…'"}},
	} {
		var list []destination
		for _, name := range test.names {
			list = append(list, destination{name: name})
		}
		for i, line := range destinationLines(list, test.wide, Look{Unicode: true}) {
			assert.Equal(t, test.want[i], line[:strings.LastIndex(line, "'")+1], line)
		}
	}
}
