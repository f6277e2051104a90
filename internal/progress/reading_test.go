package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// A place is read in a simulation, after the one before it on the same device.
type place struct {
	device uint64
	size   int64 // bytes
	rate   int64 // bytes per second of the device
}

// readers returns the counters of destinations, and a function that reads one tick at each device.
func readers(places []place, add func(bytes int64)) (list []*counters.Destination, read func()) {
	for _, p := range places {
		d := &counters.Destination{Device: p.device}
		d.ReadBack.TotalBytes.Store(p.size)
		d.ReadBack.TotalFiles.Store(1)
		list = append(list, d)
	}
	return list, func() {
		free := map[uint64]int64{} // bytes that each device can still read in this tick
		for i, p := range places {
			if _, used := free[p.device]; !used {
				free[p.device] = p.rate / 4
			}
			n := min(free[p.device], p.size-list[i].ReadBack.Bytes.Load())
			free[p.device] -= n
			if d := &list[i].ReadBack; d.Bytes.Add(n) == p.size {
				d.Files.Store(1)
			}
			add(n)
		}
	}
}

// The time left of a check of several trees is that of the slowest device, from 2 s on. Trees on one device
// are read one after the other.
func TestTheSlowestDeviceDecidesWhenTreesAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		places []place
		whole  int64 // seconds
	}{
		"two disks":              {[]place{{1, 1500e6, 80e6}, {2, 1500e6, 30e6}}, 50},
		"the small tree is slow": {[]place{{1, 4000e6, 80e6}, {2, 600e6, 10e6}}, 60},
		"two trees of one disk":  {[]place{{1, 900e6, 30e6}, {2, 1500e6, 80e6}, {1, 900e6, 30e6}}, 60},
	} {
		w := newWatched(0)
		w.Phase.Store(int32(counters.PhaseVerifying))
		list, read := readers(test.places, func(n int64) { w.Bytes.Add(n) })
		w.SetDestinations(list)
		for _, p := range test.places {
			w.TotalBytes.Add(p.size)
			w.TotalFiles.Add(1)
		}
		w.ScanDone.Store(false)
		require.Equal(t, "0 B/s      0 B verified", strings.TrimSpace(fit(w.sample().destinations[0].fields(), 79)), "a total that is not final is not shown")
		w.ScanDone.Store(true)
		for at := tick; at < time.Duration(test.whole)*time.Second; at += tick {
			read()
			eta, ok := w.sample().eta()
			require.Equal(t, at >= settling, ok, "%s: after %v", name, at)
			if ok {
				left := time.Duration(test.whole)*time.Second - at
				require.InEpsilon(t, left.Seconds(), eta.Seconds(), 0.1, "%s: after %v", name, at)
			}
		}
	}
}

// readBack is a copy of a size when reading back begins. The first places are destinations, the others are
// elsewhere.
func readBack(size int64, destinations int, places ...place) (w *watched, read func()) {
	w = newWatched(size)
	w.Verifies.Store(true)
	for range 40 { // 100 MB/s
		w.Bytes.Add(25e6)
		w.sample()
	}
	w.Phase.Store(int32(counters.PhaseVerifying))
	list, read := readers(places, func(n int64) { w.ReadBack.Bytes.Add(n) })
	for _, p := range places {
		w.ReadBack.TotalBytes.Add(p.size)
		w.ReadBack.TotalFiles.Add(1)
	}
	w.SetDestinations(list[:destinations])
	w.sample()
	return w, read
}

// With --verify=full, the source is read as well. It is slower than both destinations.
func TestTheSourceMayBeTheSlowestDevice(t *testing.T) {
	w, read := readBack(1e9, 2, place{1, 1e9, 100e6}, place{2, 1e9, 50e6}, place{3, 1e9, 20e6})
	for at := tick; at < 50*time.Second; at += tick {
		read()
		s := w.sample()
		if at < settling {
			requireETA(t, s, 10*time.Second-at/5) // as fast as the copy
		} else {
			requireETA(t, s, 50*time.Second-at)
		}
	}
}

// A destination that was dropped is not waited for, nor bytes that are not read because of an error.
func TestReadingBackDoesNotWaitForWhatIsNotRead(t *testing.T) {
	w, read := readBack(1e9, 2, place{1, 1e9, 100e6}, place{2, 1e9, 10e6})
	slow := w.Destinations()[1]
	for range 4*4 - 1 {
		read()
		w.sample()
	}
	why := "unplugged"
	slow.Dropped.Store(&why)
	read()
	requireETA(t, w.sample(), 6*time.Second)

	w, read = readBack(1e9, 2, place{1, 1e9, 100e6}, place{2, 1e9, 10e6})
	for range 4*4 - 1 {
		read()
		w.sample()
	}
	w.Destinations()[1].ReadBack.Files.Store(1) // its file cannot be read to the end
	read()
	requireETA(t, w.sample(), 6*time.Second)
}
