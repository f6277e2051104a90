package progress

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// Windows over which rates are taken. The shorter one is shown; the longer one
// makes a calm estimate of the time left.
const (
	rateWindow = 3 * time.Second
	etaWindow  = 30 * time.Second
)

// sample is the state of the counters at one moment.
type sample struct {
	at    time.Time
	bytes int64 // without those that the run did not read
	files int64 // without those that an interrupted run had copied
}

// fileCost is how many bytes a file counts for in the estimate of the time left, besides
// its own: opening, naming and closing it costs about as much time as copying so many.
const fileCost = 128 << 10

// sampler turns counters into rates. It keeps one sample per tick for as long
// as the longer window is.
type sampler struct {
	start   time.Time
	phase   counters.Phase
	work    *counters.Work // that the samples are about
	current *string        // the file that is shown
	first   sample         // of the work that the average is about
	samples []sample       // oldest first; never empty
	counted int64          // Work.Bytes at the last sample
	shown   int64          // of those, as many as were shown

	destinations []sampler

	unwritten int64     // Counters.Unwritten at the last sample
	moved     time.Time // when that was not what it had been before
}

func newSampler(now time.Time) sampler {
	return sampler{start: now, first: sample{at: now}, samples: []sample{{at: now}}, moved: now}
}

// snapshot is all that is shown, at one moment.
type snapshot struct {
	phase        counters.Phase
	bytes        int64         // dealt with and no longer in memory only
	unwritten    int64         // dealt with, and in memory only
	deviceRate   int64         // bytes per second at which the device takes those, 0 while unknown
	standing     time.Duration // for how long unwritten has not changed
	files        int64
	totalBytes   int64 // final if totalsKnown, else meaningless
	totalFiles   int64
	totalsKnown  bool
	bytesOnly    bool // there are no files to count
	elapsed      time.Duration
	rate         float64       // bytes per second, lately
	average      float64       // bytes per second, since the start of this work
	current      string        // the path of a file under way, or ""
	destinations []destination // if there are several
	etaRate      float64       // bytes and files per second, for the estimate: see fileCost
}

func (s *sampler) take(now time.Time, c *counters.Set) snapshot {
	shot := snapshot{phase: counters.Phase(c.Phase.Load()), bytesOnly: c.BytesOnly.Load(), elapsed: now.Sub(s.start)}
	work, isReadBack := &c.Work, c.ReadBack.TotalFiles.Load() > 0
	if isReadBack {
		work = &c.ReadBack
	}
	if s.work != work {
		s.destinations = nil // their samples are about other work, too
	}
	s.work = work
	shot.files = work.Files.Load()
	counted := work.Bytes.Load() // first, so that nothing counted since is taken for written
	shot.unwritten = max(c.Unwritten.Load(), 0)
	shot.deviceRate = c.DeviceRate.Load()
	if shot.unwritten != s.unwritten {
		s.unwritten, s.moved = shot.unwritten, now
	}
	shot.standing = now.Sub(s.moved)
	shot.bytes = s.written(counted, shot.unwritten)
	switch {
	case c.ScanDone.Load(), isReadBack:
		shot.totalsKnown = true
		shot.totalBytes = work.TotalBytes.Load()
		shot.totalFiles = work.TotalFiles.Load()
	case shot.phase == counters.PhaseDone: // before the scan was; there is no more
		shot.totalsKnown = true
		shot.totalBytes, shot.totalFiles = counted, shot.files
	}
	x := sample{now, shot.bytes, shot.files}
	if !isReadBack {
		x.bytes, x.files = max(x.bytes-c.Unread.Load(), 0), x.files-c.ResumedFiles.Load()
	}
	if startsAnew(s.phase, shot.phase) || x.bytes < s.first.bytes { // counted from 0 again
		s.first = x
		s.samples = []sample{x}
	}
	s.phase = shot.phase
	shot.rate = s.since(now.Add(-rateWindow)).rateTo(x)
	shot.average = s.first.rateTo(x)
	shot.etaRate = s.since(now.Add(-etaWindow)).workTo(x)
	s.add(x)
	shot.destinations = s.takeDestinations(now, c, isReadBack)
	if s.current = c.Current(s.current); s.current != nil {
		shot.current = *s.current
	}
	return shot
}

// written returns how many bytes to show. What is unwritten may rise in steps
// and after the bytes were counted; what was shown falls only by as much as was
// taken back.
func (s *sampler) written(counted, unwritten int64) int64 {
	least := s.shown - max(s.counted-counted, 0)
	s.counted, s.shown = counted, max(counted-unwritten, least, 0)
	return s.shown
}

// startsAnew reports whether work begins that has its own speed: reading what a manifest
// lists, which may have been waited for.
func startsAnew(from, to counters.Phase) bool {
	return to == counters.PhaseVerifying && from != to
}

// since returns the youngest sample that is not younger than t, or the oldest.
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

// add keeps x unless the last sample is almost as young (a status signal may
// come at any time, and any number of times), and forgets what no window needs.
func (s *sampler) add(x sample) {
	if x.at.Sub(s.samples[len(s.samples)-1].at) < tick {
		return
	}
	s.samples = append(s.samples, x)
	for len(s.samples) > 2 && !s.samples[1].at.After(x.at.Add(-etaWindow)) {
		s.samples = s.samples[1:]
	}
}

// rateTo returns bytes per second.
func (x sample) rateTo(now sample) float64 { return perSecond(now.bytes-x.bytes, now.at.Sub(x.at)) }

// workTo returns bytes per second with those that files count for.
func (x sample) workTo(now sample) float64 {
	return perSecond(now.bytes-x.bytes+max(now.files-x.files, 0)*fileCost, now.at.Sub(x.at))
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 || n <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// percent is rounded down, so that 100 means all of it, and written. Where there
// are no bytes to count, files are counted instead.
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

// eta returns the time that the rest will take at the present speed, and while
// flushing at that of the device. It knows nothing before the totals are known,
// nothing while nothing moves, and nothing of how long a device will take when no
// byte is left to count: a journal of its file system, for instance.
func (s snapshot) eta() (time.Duration, bool) {
	left, speed := s.totalBytes-s.bytes, s.etaRate
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
	left = max(left, s.unwritten) // what is shown may be ahead of what is written
	if s.phase != counters.PhaseFlushing {
		left = counters.Plus(left, max(s.totalFiles-s.files, 0)*fileCost)
	}
	if left == 0 {
		return 0, true
	}
	const longest = 100 * time.Hour // beyond that no estimate is worth the columns
	seconds := float64(left) / speed
	if speed <= 0 || seconds >= longest.Seconds() {
		return 0, false
	}
	if s.phase == counters.PhaseFlushing && s.standing.Seconds() > seconds+rateWindow.Seconds() {
		return 0, false // the device does not answer any more, or not as fast as it did
	}
	return time.Duration(seconds * float64(time.Second)), true
}
