package progress

import (
	"slices"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// reading is what is still to be read on one device while destinations, or several trees, are read. Each
// device has its own workers, so that the slowest one decides when everything is read.
type reading struct {
	device uint64
	left   int64   // bytes and files
	rate   float64 // bytes and files per second
	parts  int     // number of destinations that are read
}

// readings returns one reading for each device that has destinations. Files elsewhere, for example at the
// source or at the only destination, are on one more device. A dropped destination is not read any more.
func readings(s *snapshot) (list []reading) {
	rest := reading{left: stillToRead(s.bytes, s.totalBytes, s.files, s.totalFiles), rate: s.etaRate, parts: 1}
	amount := costOf(s.totalBytes, s.totalFiles)
	for _, d := range s.destinations {
		amount -= d.amount
		rest.left -= d.left
		rest.rate -= d.etaRate
		if d.dropped != "" {
			continue
		}
		i := slices.IndexFunc(list, func(r reading) bool { return r.device == d.device })
		if i < 0 {
			i = len(list)
			list = append(list, reading{device: d.device})
		}
		list[i].left += d.left
		list[i].rate += d.etaRate
		list[i].parts++
	}
	if amount > 0 { // otherwise rest has only the rounding of counters that were read one after the other
		list = append(list, rest)
	}
	return list
}

// readingETA is eta while destinations are read back, or several trees are checked.
func (s snapshot) readingETA() (left time.Duration, ok bool) {
	if !s.totalsKnown {
		return 0, false
	}
	for _, r := range s.reading {
		t, ok := timeFor(r.left, r.rate)
		if !ok {
			return 0, false
		}
		left = max(left, t)
	}
	return left, true
}

// stillToRead returns the work that is left. Once all files are done it is 0, also if some of them could not
// be read, or were not read because of their size.
func stillToRead(bytes, totalBytes, files, totalFiles int64) int64 {
	if files >= totalFiles {
		return 0
	}
	return costOf(totalBytes-bytes, totalFiles-files)
}

// costOf returns the number of bytes that take as long as the given ones and files.
func costOf(bytes, files int64) int64 {
	return counters.Plus(max(bytes, 0), counters.Times(max(files, 0), fileCost))
}
