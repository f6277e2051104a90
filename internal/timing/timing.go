// Package timing measures which part of a run limits it.
//
// Each goroutine that the run waits for has an Activity, and stores the place there that it
// works at or waits for. A Sampler reads all of them every 10 ms, so the goroutines read no clock.
// It divides each sample equally among the goroutines that have a place. If the sample is
// late, no processor was free, and the delay counts for the CPU. The share of a place is its part
// of all samples. It is about the time that the run would gain if that place took no time.
//
// Which work counts for which place:
//
//   - the source: waiting for a name, opening, describing and reading
//   - the CPU: hashing, and everything at a file system in memory, which has no device
//   - a destination: reading existing files, creating, writing, completing, flushing,
//     reading back, and waiting until less data is unwritten
//   - the place of a lane: waiting because that lane is full, or has the goroutine's blocks
//   - the limit: waiting for --bwlimit
//   - no place: waiting for another goroutine that has an Activity, or for the collector
//
// A goroutine that works for another one, such as a lane or a checkpoint, has no Activity. Its
// work counts while the other one waits for it.
//
// The time in copy_file_range cannot be divided. It is the destination's, or the source's
// if nothing of the file was in memory and writeback follows it, which has waits of its own.
package timing

import (
	"sync"
	"sync/atomic"
	"time"
)

// Place is a part of the run. The zero value is none.
type Place int32

// The places, before those of the destinations.
const (
	None Place = iota
	Source
	CPU
	UserLimit // The run waits because of a limit that the user has set.
	first
)

func (p Place) String() string {
	return [...]string{"none", "source", "cpu", "limit", "destination"}[min(p, first)]
}

// Destination returns the place of destination i, counted from 0.
func Destination(i int) Place { return first + Place(i) }

// Destination returns the number of the destination. ok is false for another place.
func (p Place) Destination() (i int, ok bool) { return int(p) - int(first), p >= first }

// Activity is the place at which one goroutine works or for which it waits. A nil *Activity
// has no place.
type Activity struct {
	place atomic.Int32
	_     [60]byte // No other goroutine writes to the same cache line.
}

// At sets the place and returns the place before. So a function can set a place until its end:
//
//	defer a.At(a.At(timing.UserLimit))
func (a *Activity) At(p Place) (before Place) {
	if a == nil {
		return None
	}
	return Place(a.place.Swap(int32(p)))
}

// Place returns the place that At has set.
func (a *Activity) Place() Place {
	if a == nil {
		return None
	}
	return Place(a.place.Load())
}

// interval is the time between two samples. A short run has few of them, and the cost of a
// sample is some microseconds.
const interval = 10 * time.Millisecond

// leastSamples is the number of samples below which no place has a share. Shorter runs spend
// most of their time on starting and ending.
const leastSamples = 10

// Sampler adds up the places of all activities of a run. A nil *Sampler has no activities.
type Sampler struct {
	stop func()
	mu   struct {
		sync.Mutex
		activities []*Activity
		samples    int
		sums       []float64 // number of samples of each place
		owner      []Place   // places that get the share of each place; see Charge
	}
}

// Start starts a sampler for a number of destinations. The caller must Stop it.
func Start(destinations int) *Sampler {
	s := &Sampler{}
	places := int(Destination(destinations))
	s.mu.sums, s.mu.owner = make([]float64, places), make([]Place, places)
	for p := range s.mu.owner {
		s.mu.owner[p] = Place(p)
	}
	ticker, stopped := time.NewTicker(interval), make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			select {
			case due := <-ticker.C:
				s.sample(min(float64(time.Since(due))/float64(interval), 1))
			case <-stopped:
				return
			}
		}
	})
	s.stop = sync.OnceFunc(func() {
		ticker.Stop()
		close(stopped)
		sampling.Wait()
	})
	return s
}

// Stop ends the sampling. It may be called more than once.
func (s *Sampler) Stop() { s.stop() }

// sample takes one sample, which is late by a part of the interval. For that part, the goroutines
// have waited for a processor as well, or had all of them. Without this rule, busy processors would
// hide: the sampler gets one when a goroutine enters a system call, not while it hashes.
func (s *Sampler) sample(late float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.samples++
	var places []Place
	for _, a := range s.mu.activities {
		if p := a.Place(); p != None {
			places = append(places, p)
		}
	}
	for _, p := range places {
		s.mu.sums[p] += (1 - late) / float64(len(places))
		s.mu.sums[CPU] += late / float64(len(places))
	}
}

// Charge adds the share of place p to that of owner.
func (s *Sampler) Charge(p, owner Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.owner[p] = owner
}

// Activity returns a new activity. Its goroutine must set it to None before it ends.
func (s *Sampler) Activity() *Activity {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &Activity{}
	s.mu.activities = append(s.mu.activities, a)
	return a
}

// Shares returns the share of each place, from 0 to 1. All are 0 after fewer than leastSamples.
func (s *Sampler) Shares() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	shares := make([]float64, len(s.mu.sums))
	if s.mu.samples < leastSamples {
		return shares
	}
	for p, sum := range s.mu.sums {
		shares[s.mu.owner[p]] += sum / float64(s.mu.samples)
	}
	return shares
}

// dominant is the part of the destinations' common share above which Limit names one
// destination and not all of them.
const dominant = 0.75

// Limit returns the place with the largest share: the source, the CPU, the user's limit, or
// all destinations together. If one destination has most of their common share, who is that
// destination. all is true if who means all of them. The share is 0 if no place has one.
func (s *Sampler) Limit() (who Place, all bool, share float64) {
	shares := s.Shares()
	for p := Source; p < first; p++ {
		if shares[p] > share {
			who, share = p, shares[p]
		}
	}
	slowest, sum := first, 0.0
	for i, d := range shares[first:] {
		if sum += d; d > shares[slowest] {
			slowest = Destination(i)
		}
	}
	switch {
	case sum <= share:
		return who, false, share
	case shares[slowest] >= dominant*sum:
		return slowest, false, shares[slowest]
	}
	return first, true, sum
}
