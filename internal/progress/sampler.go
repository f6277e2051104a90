package progress

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// Windows over which rates are averaged. The rate of the shorter one is shown. The longer one is
// for the estimate of the time left, which varies less that way.
const (
	rateWindow = 3 * time.Second
	etaWindow  = 30 * time.Second
	settling   = 2 * time.Second // time after which the rates of reading back are known
)

// sample holds the counters at one moment.
type sample struct {
	at    time.Time
	bytes int64 // number of bytes that the run has read
	files int64 // number of files without those that an interrupted run had copied
	kept  int64 // Set.Checked
}

// fileCost is the number of bytes that the estimate of the time left adds for each file. To open,
// rename and close a file takes about as long as to copy this many bytes.
const fileCost = 128 << 10

// sampler computes rates from counters. It keeps one sample per tick, for the longer window.
type sampler struct {
	start   time.Time
	phase   counters.Phase
	work    *counters.Work // the work of the samples: copying or reading back
	current *string        // path of the file that is shown
	first   sample         // sample from which the average is computed
	samples []sample       // samples, the oldest first; never empty
	counted int64          // Work.Bytes at the last sample
	shown   int64          // the bytes that were shown at the last sample

	destinations []sampler

	copyRate  float64   // snapshot.etaRate of the copy, at its end
	checking  bool      // true if bytes were being checked at the last sample
	unwritten int64     // Set.Unwritten at the last sample
	moved     time.Time // when unwritten last changed
}

func newSampler(now time.Time) sampler {
	return sampler{start: now, first: sample{at: now}, samples: []sample{{at: now}}, moved: now}
}

// snapshot holds everything that is shown at one moment.
type snapshot struct {
	phase        counters.Phase
	bytes        int64         // processed bytes; written ones only if they are on the device
	unwritten    int64         // processed bytes that are only in memory so far
	deviceRate   int64         // bytes per second that the device writes, 0 while unknown
	stalled      time.Duration // time since unwritten last changed
	files        int64
	totalBytes   int64 // total of bytes; final if totalsKnown, otherwise meaningless
	totalFiles   int64
	totalsKnown  bool
	bytesOnly    bool // true if there are no files to count
	elapsed      time.Duration
	rate         float64            // bytes per second, over rateWindow
	average      float64            // bytes per second since the start of this work
	current      string             // path of a file in progress, or ""
	running      []counters.Running // large files in progress, if they are shown
	destinations []destination      // destinations, if there are several
	etaRate      float64            // bytes and files per second, for the estimate: see fileCost
	ahead        int64              // bytes and files that are read back after the present phase
	checked      int64              // bytes of an earlier run that were read again
	checkTotal   int64              // total of checked
	checkRate    float64            // bytes per second of that reading, for the estimate
	reading      []reading          // the work of each device, while destinations are read back
}

func (s *sampler) take(now time.Time, c *counters.Set) snapshot {
	shot := snapshot{phase: counters.Phase(c.Phase.Load()), bytesOnly: c.BytesOnly.Load(), elapsed: now.Sub(s.start)}
	work, isReadBack := &c.Work, c.ReadBack.TotalFiles.Load() > 0
	if isReadBack {
		work = &c.ReadBack
	}
	if s.work != work {
		s.destinations = nil // their samples are of the other work
	}
	s.work = work
	shot.files = work.Files.Load()
	counted := work.Bytes.Load() // before Unwritten, so that no byte counted later is shown as written
	shot.unwritten = max(c.Unwritten.Load(), 0)
	shot.deviceRate = c.DeviceRate.Load()
	if shot.unwritten != s.unwritten {
		s.unwritten, s.moved = shot.unwritten, now
	}
	shot.stalled = now.Sub(s.moved)
	shot.bytes = s.written(counted, shot.unwritten)
	switch {
	case c.ScanDone.Load(), isReadBack:
		shot.totalsKnown = true
		shot.totalBytes = work.TotalBytes.Load()
		shot.totalFiles = work.TotalFiles.Load()
	case shot.phase == counters.PhaseDone: // the run ended before the scan was complete
		shot.totalsKnown = true
		shot.totalBytes, shot.totalFiles = counted, shot.files
	}
	shot.checked = c.Checked.Load() // before its total, so that it is never more
	shot.checkTotal = c.CheckTotal.Load()
	x := sample{now, shot.bytes, shot.files, shot.checked}
	if !isReadBack {
		x.bytes, x.files = max(x.bytes-c.Unread.Load(), 0), x.files-c.ResumedFiles.Load()
	}
	if startsAnew(s.phase, shot.phase) || x.bytes < s.first.bytes { // new work is counted from 0
		s.first = x
		s.samples = []sample{x}
	}
	if s.checking && shot.unchecked() == 0 { // the rates of the copy must not contain the time of the check
		s.first = x
		s.samples = []sample{x}
		for i := range s.destinations {
			d := &s.destinations[i]
			d.samples = d.samples[len(d.samples)-1:]
		}
	}
	s.checking = shot.unchecked() > 0
	s.phase = shot.phase
	shot.rate = s.since(now.Add(-rateWindow)).rateTo(x)
	shot.average = s.first.rateTo(x)
	shot.etaRate = s.since(now.Add(-etaWindow)).workTo(x)
	shot.checkRate = s.since(now.Add(-etaWindow)).checksTo(x)
	if c.Verifies.Load() && !isReadBack && shot.totalsKnown && shot.phase != counters.PhaseDone {
		shot.ahead = costOf(shot.totalBytes, shot.totalFiles)
	}
	s.add(x)
	shot.destinations = s.takeDestinations(now, c, shot.totalsKnown)
	switch {
	case isReadBack || slices.ContainsFunc(shot.destinations, func(d destination) bool { return d.readBack }):
		shot.reading = readings(&shot)
		if now.Sub(s.first.at) < settling { // each destination is expected to be read as fast as it was written
			for i := range shot.reading {
				shot.reading[i].rate = float64(shot.reading[i].parts) * s.copyRate
			}
		}
	case shot.phase == counters.PhaseCopying:
		s.copyRate = shot.etaRate
	}
	if s.current = c.Current(s.current); s.current != nil {
		shot.current = *s.current
	}
	return shot
}

// written returns the number of bytes to show: those counted, less the unwritten ones. unwritten
// may rise in steps, and later than counted, so that the difference may fall. The result falls
// only if counted falls, and by no more.
func (s *sampler) written(counted, unwritten int64) int64 {
	least := s.shown - max(s.counted-counted, 0)
	s.counted, s.shown = counted, max(counted-unwritten, least, 0)
	return s.shown
}

// startsAnew reports whether the phase changes to verifying, whose rates are separate from those
// of the work or the wait before.
func startsAnew(from, to counters.Phase) bool {
	return to == counters.PhaseVerifying && from != to
}

// since returns the last sample that is not after t, or the oldest one.
func (s *sampler) since(t time.Time) sample {
	best := s.samples[0]
	for _, x := range s.samples[1:] {
		if x.at.After(t) {
			break
		}
		best = x
	}
	return best
}

// add adds a sample, and removes those that no window needs. It drops x if the last sample is
// less than a tick older, because status signals may request any number of samples.
func (s *sampler) add(x sample) {
	if x.at.Sub(s.samples[len(s.samples)-1].at) < tick {
		return
	}
	s.samples = append(s.samples, x)
	for len(s.samples) > 2 && !s.samples[1].at.After(x.at.Add(-etaWindow)) {
		s.samples = s.samples[1:]
	}
}

// rateTo returns the bytes per second from x to now.
func (x sample) rateTo(now sample) float64 { return perSecond(now.bytes-x.bytes, now.at.Sub(x.at)) }

// workTo returns the bytes per second from x to now, with fileCost bytes added for each file.
func (x sample) workTo(now sample) float64 {
	return perSecond(now.bytes-x.bytes+max(now.files-x.files, 0)*fileCost, now.at.Sub(x.at))
}

// checksTo returns the bytes per second that were checked from x to now.
func (x sample) checksTo(now sample) float64 { return perSecond(now.kept-x.kept, now.at.Sub(x.at)) }

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 || n <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// unchecked returns how many bytes of an earlier run are still to be read again.
func (s snapshot) unchecked() int64 { return max(s.checkTotal-s.checked, 0) }

// percent returns the percentage of the bytes or, if there are none, of the files. It rounds down,
// and returns at most 99 while bytes are unwritten. So 100 means that everything is written.
func (s snapshot) percent() int {
	done, total := s.bytes, s.totalBytes
	if total <= 0 {
		done, total = s.files, s.totalFiles
	}
	most := 100
	if s.unwritten > 0 {
		most = 99
	}
	switch {
	case total <= 0 || done >= total:
		return most
	case done <= 0:
		return 0
	}
	return min(int(float64(done)/float64(total)*100), most)
}

// eta estimates the time left until everything is done: from the present rate or, while flushing, from
// the rate of the device. Bytes of an earlier run that are still to be checked are added at the rate of the
// check. Until the copy has a rate, it is expected to be as fast as the check. Reading back is expected to be as fast
// as the copy, which the slowest device limits. While files are read back, the device that needs the
// longest time decides, see reading. ok is false before the totals are known, and while no byte is read or written. It is
// also false while the device is busy without a byte left to count, for example with the journal of its file
// system.
func (s snapshot) eta() (left time.Duration, ok bool) {
	if s.phase == counters.PhaseVerifying && s.reading != nil {
		return s.readingETA()
	}
	if left, ok = s.phaseETA(); !ok {
		return 0, false
	}
	if s.ahead > 0 {
		back, ok := timeFor(s.ahead, cmp.Or(s.etaRate, s.average, s.checkRate))
		if !ok {
			return 0, false
		}
		left += back
	}
	return left, left < longest
}

// phaseETA is eta for the present phase.
func (s snapshot) phaseETA() (time.Duration, bool) {
	check, ok := timeFor(s.unchecked(), s.checkRate)
	if !ok {
		return 0, false
	}
	left, speed := s.totalBytes-s.bytes-s.unchecked(), s.etaRate
	if speed == 0 && check > 0 {
		speed = s.checkRate // nothing is copied yet: the source can be read as fast as now
	}
	switch {
	case s.phase == counters.PhaseStopped:
		return 0, false
	case s.phase == counters.PhaseFlushing:
		if left, speed = s.unwritten, float64(s.deviceRate); left == 0 {
			return 0, false
		}
	case !s.totalsKnown || left < 0:
		return 0, false
	}
	left = max(left, s.unwritten) // more bytes may be shown than are written, see written
	if s.phase != counters.PhaseFlushing {
		left = costOf(left, s.totalFiles-s.files)
	}
	t, ok := timeFor(left, speed)
	t += check
	if s.phase == counters.PhaseFlushing && s.stalled > t+rateWindow {
		return 0, false // the device has stalled, or has become slower
	}
	return t, ok
}

// longest is the longest time left that is shown. Longer ones do not fit into the columns.
const longest = 100 * time.Hour

// timeFor returns the time for some work at a speed per second. ok is false if nothing is done, or if it
// takes too long.
func timeFor(work int64, speed float64) (t time.Duration, ok bool) {
	if work <= 0 {
		return 0, true
	}
	seconds := float64(work) / speed
	if speed <= 0 || seconds >= longest.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
