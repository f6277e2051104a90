package report

import (
	"time"
)

const (
	drawnPoints = 120                   // largest number of points of a line; more are noise
	leastPoints = 4                     // least number of points; fewer do not make a picture
	maxPoints   = 480                   // largest number of points in memory
	FirstStep   = 50 * time.Millisecond // time between the first samples
	leastSpell  = time.Second           // least length of a spell; a shorter one does not show the speed of a device
	// leastSpells is the least length of a run in spells. In a shorter run, the slowest
	// speed is hardly different from the average.
	leastSpells = 3
)

// Samples records how many bytes each of several series had at each moment of a run. When
// there are too many samples, it joins each two, so its memory does not grow. One goroutine
// uses it at a time.
type Samples struct {
	names  []string
	step   time.Duration // time between two samples
	ends   []time.Duration
	bytes  []int64 // bytes of each series in each sample
	phases []phase
	taken  time.Duration // the end of the last sample
	rest   []int64       // bytes after the last sample
}

// phase is the activity of the run from a moment on.
type phase struct {
	name string
	from time.Duration
}

// NewSamples records the series with these names.
func NewSamples(names []string) *Samples {
	return &Samples{names: names, step: FirstStep, rest: make([]int64, len(names))}
}

// Add adds the bytes that the series have got since the last call, at a time after the
// beginning of the run. It also sets the phase from then on. last ends the recording.
func (s *Samples) Add(now time.Duration, phaseName string, bytes []int64, last bool) {
	if n := len(s.phases); n == 0 || s.phases[n-1].name != phaseName {
		s.phases = append(s.phases, phase{phaseName, s.taken})
	}
	for i, n := range bytes {
		s.rest[i] += n
	}
	if now <= s.taken || now-s.taken < s.step-s.step/8 && !last {
		return
	}
	if len(s.ends) == maxPoints {
		s.join(2)
		s.step *= 2
	}
	s.ends = append(s.ends, now)
	s.bytes = append(s.bytes, s.rest...)
	s.taken = now
	clear(s.rest)
}

// join joins each k samples.
func (s *Samples) join(k int) {
	n := len(s.names)
	joined := (len(s.ends) + k - 1) / k
	for i := range joined {
		last := min(i*k+k, len(s.ends)) - 1
		sums := make([]int64, n)
		for from := i * k; from <= last; from++ {
			for series := range n {
				sums[series] += s.bytes[from*n+series]
			}
		}
		s.ends[i] = s.ends[last]
		copy(s.bytes[i*n:], sums)
	}
	s.ends, s.bytes = s.ends[:joined], s.bytes[:joined*n]
}

// begin returns when sample i begins: at the end of the one before it.
func (s *Samples) begin(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

// rate is the speed of a series in sample i, in bytes per second.
func (s *Samples) rate(series, i int) float64 {
	if s.ends[i] <= s.begin(i) {
		return 0
	}
	return float64(s.bytes[i*len(s.names)+series]) / (s.ends[i] - s.begin(i)).Seconds()
}

// Speed describes a series over a run.
type Speed struct {
	Average float64       // bytes per second while the series moved
	Slowest float64       // bytes per second in the slowest spell; -1 if the run was too short
	Spell   time.Duration // length of the slowest spell
	At      time.Duration // beginning of the slowest spell
}

// Speed returns the speeds of a series, from its first byte to its last. ok is false if
// it has none, and if s is nil.
func (s *Samples) Speed(series int) (speed Speed, ok bool) {
	if s == nil {
		return Speed{}, false
	}
	n := len(s.names)
	first, last, total := -1, -1, int64(0)
	for i := range s.ends {
		if bytes := s.bytes[i*n+series]; bytes > 0 {
			total += bytes
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return Speed{}, false
	}
	length := s.ends[last] - s.begin(first)
	if length > 0 {
		speed.Average = float64(total) / length.Seconds()
	}
	speed.Slowest = -1
	if length < leastSpells*leastSpell {
		return speed, true
	}
	spell, from := int64(0), first
	for i := first; i <= last; i++ {
		spell += s.bytes[i*n+series]
		for from < i && s.ends[i]-s.begin(from+1) >= leastSpell {
			spell -= s.bytes[from*n+series]
			from++
		}
		d := s.ends[i] - s.begin(from)
		if d < leastSpell {
			continue
		}
		if rate := float64(spell) / d.Seconds(); speed.Slowest < 0 || rate < speed.Slowest {
			speed.Slowest, speed.Spell, speed.At = rate, d, s.begin(from)
		}
	}
	return speed, true
}
