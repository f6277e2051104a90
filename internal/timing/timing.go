// Package timing measures where the time of a run goes.
//
// Each measured goroutine has a Clock and reports each change of stage to it. The Clock reads
// the time once at each change, so the intervals of a goroutine add up to the elapsed time. It
// takes no lock and allocates nothing until it stops. Then it adds its intervals to the Sheet
// of the run.
//
//   - kind: the stage of an interval, work or waiting
//   - place: the source, the CPU, a limit or a destination
//   - share: the part of the wall time that belongs to a place
//
// At each instant the wall time is divided equally among the places of the goroutines
// that count. A goroutine at None does not count, nor does one that works aside for
// another: its duration shows in the waiting of the other. All shares together are the
// time in which any goroutine worked. The share of a place is what the run would gain
// if that place took no time.
//
// Which time counts for which place:
//
//   - the source: waiting for a name, opening, describing and reading
//   - the CPU: hashing, and everything at a file system in memory, which has no device
//   - a destination: reading existing files, creating, writing, completing, flushing,
//     reading back, and waiting for its window
//   - the place of a lane: waiting because that lane is full, or has the goroutine's blocks
//   - the limit: waiting for --bwlimit
//   - no place: waiting for blocks of other goroutines, for access to a spinning disk, or
//     for the collector, because the other goroutine is measured
//
// The time in copy_file_range cannot be divided. It is the destination's, or the source's
// if nothing of the file was in memory and writeback follows it, which has waits of its own.
package timing

import (
	"sync"
	"sync/atomic"
	"time"
)

// Kind is the activity of a goroutine, or the reason of its wait.
type Kind uint8

// The kinds.
const (
	Idle   Kind = iota // not measured
	Read               // opening, checking and reading a file; at a destination, comparing with the existing file or reading it back
	Hash               // computing digests
	Create             // checking the existing file at a destination, and creating the new one
	Write              // writing
	Commit             // completing a file: metadata, the final name, and its sync if each file is synced
	Flush              // flushing to the device: checkpoints, the end, manifests

	List   // waiting for the next entry of the source
	Queue  // waiting for a full lane, or for one that has all blocks
	Window // waiting until less data is unwritten
	Turn   // waiting while another file is written to a spinning disk
	Block  // waiting for a block that another goroutine has
	Pace   // waiting because of a limit of bytes per second
	Note   // waiting until the collector has recorded a result
	kinds
)

func (k Kind) String() string {
	return [...]string{
		"idle", "read", "hash", "create", "write", "commit", "flush",
		"list", "queue", "window", "turn", "block", "bwlimit", "note",
	}[k]
}

// Waits reports whether the kind is waiting and not work.
func (k Kind) Waits() bool { return k >= List }

// Place is the part of the run to which an interval belongs. The zero value is none.
type Place int

// The places, before those of the destinations.
const (
	None Place = iota
	Source
	CPU
	UserLimit // a limit that the user has set
	first
)

func (p Place) String() string {
	return [...]string{"none", "source", "cpu", "limit", "destination"}[min(p, first)]
}

// Destination returns the place of destination i, counted from 0.
func Destination(i int) Place { return first + Place(i) }

// Destination returns the number of the destination. ok is false for another place.
func (p Place) Destination() (i int, ok bool) { return int(p) - int(first), p >= first }

// cell is the sum of the intervals of one kind at one place.
type cell struct {
	time       time.Duration
	share      time.Duration // of the wall time
	bytes      int64
	operations int64
}

func (c *cell) add(d cell) {
	c.time += d.time
	c.share += d.share
	c.bytes += d.bytes
	c.operations += d.operations
}

func index(k Kind, p Place) int { return int(p)*int(kinds) + int(k) }

// Clock measures the intervals of one goroutine. A nil *Clock measures nothing.
type Clock struct {
	sheet  *Sheet
	aside  bool
	now    int           // the index of the current interval
	before int           // the index of the interval that Wait has ended
	since  time.Duration // when the current interval began
	mean   time.Duration // the value of Sheet.mean at since
	cells  []cell
}

var epoch = time.Now()

// At ends the current interval and begins one of kind k at place p, unless both are unchanged.
func (c *Clock) At(k Kind, p Place) {
	if c != nil && c.now != index(k, p) {
		c.interval(index(k, p))
	}
}

func (c *Clock) interval(next int) {
	now := time.Since(epoch) // uses only the monotonic clock
	l := &c.cells[c.now]
	l.time += now - c.since
	if !c.aside {
		mean := c.sheet.mean(now)
		l.share += mean - c.mean
		c.mean = mean
		if was, is := counts(c.now), counts(next); was != is {
			c.mean = c.sheet.join(now, is)
		}
	}
	c.now, c.since = next, now
}

// counts reports whether an interval has a place.
func counts(index int) bool { return index >= int(kinds) }

// Wait is At for a wait that ends with Resume:
//
//	defer clock.Wait(timing.Pace, timing.UserLimit).Resume()
func (c *Clock) Wait(k Kind, p Place) *Clock {
	if c != nil {
		c.before = c.now
		c.interval(index(k, p))
	}
	return c
}

// Resume ends a Wait and continues the interval before it.
func (c *Clock) Resume() {
	if c != nil {
		c.interval(c.before)
	}
}

// Here returns the place of the current interval.
func (c *Clock) Here() Place {
	if c == nil {
		return None
	}
	return Place(c.now / int(kinds))
}

// Blame sets the place of the current interval, for a wait whose cause is known only at its
// end. Neither the earlier place nor p may be None.
func (c *Clock) Blame(p Place) {
	if c != nil {
		c.now = index(Kind(c.now%int(kinds)), p)
	}
}

// Did counts an operation of the given number of bytes in the current interval.
func (c *Clock) Did(bytes int64) {
	if c != nil {
		c.cells[c.now].add(cell{bytes: bytes, operations: 1})
	}
}

// Spent returns the time of all intervals of a kind at a place that have ended.
func (c *Clock) Spent(k Kind, p Place) time.Duration {
	if c == nil {
		return 0
	}
	return c.cells[index(k, p)].time
}

// Aside returns a clock for a goroutine that works for the goroutine of c. Its time has no
// share, because the wait of c's goroutine has one.
func (c *Clock) Aside() *Clock {
	if c == nil {
		return nil
	}
	return c.sheet.clock(true)
}

// Stop ends the last interval and adds all intervals to the sheet. The clock must not be used
// afterwards.
func (c *Clock) Stop() {
	if c == nil {
		return
	}
	c.At(Idle, None)
	s := c.sheet
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range c.cells {
		s.mu.cells[i].add(c.cells[i])
	}
	s.mu.spare = append(s.mu.spare, c)
}

// Sheet adds up the intervals of all clocks of a run. The clocks of a nil *Sheet measure nothing.
type Sheet struct {
	rate atomic.Pointer[rate] // set under mu
	mu   struct {
		sync.Mutex
		cells []cell
		owner []Place  // the place that gets the share of each place; see Charge
		spare []*Clock // stopped, to be used again
	}
}

// rate describes the growth of Sheet.mean since an instant: it grows by 1/goroutines of the
// elapsed time.
type rate struct {
	mean, since time.Duration
	goroutines  int64
}

// NewSheet returns a sheet for a number of destinations.
func NewSheet(destinations int) *Sheet {
	places := int(Destination(destinations))
	s := &Sheet{}
	s.mu.cells, s.mu.owner = make([]cell, places*int(kinds)), make([]Place, places)
	for p := range s.mu.owner {
		s.mu.owner[p] = Place(p)
	}
	s.rate.Store(&rate{since: time.Since(epoch)})
	return s
}

// Charge adds the share of place p to that of owner.
func (s *Sheet) Charge(p, owner Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.owner[p] = owner
}

// mean returns the share of the wall time that a goroutine would have if it had counted since
// the beginning.
func (s *Sheet) mean(now time.Duration) time.Duration {
	r := s.rate.Load()
	if r.goroutines == 0 {
		return r.mean
	}
	return r.mean + max(now-r.since, 0)/time.Duration(r.goroutines)
}

// join adds a goroutine to those that count, or removes one, and returns the mean.
func (s *Sheet) join(now time.Duration, more bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rate{s.mean(now), max(now, s.rate.Load().since), s.rate.Load().goroutines}
	if more {
		r.goroutines++
	} else {
		r.goroutines--
	}
	s.rate.Store(r)
	return r.mean
}

// Clock returns a clock that is idle.
func (s *Sheet) Clock() *Clock { return s.clock(false) }

// Aside returns a clock whose intervals have no share, because the goroutines that wait for
// this one have it.
func (s *Sheet) Aside() *Clock { return s.clock(true) }

func (s *Sheet) clock(aside bool) *Clock {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Clock{}
	if last := len(s.mu.spare) - 1; last >= 0 {
		c, s.mu.spare = s.mu.spare[last], s.mu.spare[:last]
		clear(c.cells)
	} else {
		c.cells = make([]cell, len(s.mu.cells))
	}
	*c = Clock{sheet: s, aside: aside, since: time.Since(epoch), cells: c.cells}
	return c
}

// Interval is the sum of all intervals of one kind at one place in a run.
type Interval struct {
	Kind       Kind
	Place      Place
	Time       time.Duration // of all goroutines together
	Bytes      int64
	Operations int64
}

// Intervals returns the sums for all clocks that have stopped, work before waiting.
func (s *Sheet) Intervals() []Interval {
	s.mu.Lock()
	defer s.mu.Unlock()
	var intervals []Interval
	for k := Idle + 1; k < kinds; k++ {
		for p := None; index(k, p) < len(s.mu.cells); p++ {
			if c := s.mu.cells[index(k, p)]; c.time > 0 || c.operations > 0 {
				intervals = append(intervals, Interval{k, p, c.time, c.bytes, c.operations})
			}
		}
	}
	return intervals
}

// Shares returns the part of the wall time of each place except None, for all clocks
// that have stopped.
func (s *Sheet) Shares() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	shares := make([]time.Duration, len(s.mu.owner))
	for i := range s.mu.cells {
		if counts(i) {
			shares[s.mu.owner[i/int(kinds)]] += s.mu.cells[i].share
		}
	}
	return shares
}

// dominant is the part of the destinations' common share above which Limit names one
// destination and not all of them.
const dominant = 0.75

// Limit returns the place with the largest share: the source, the CPU, the user's limit, or
// all destinations together. If one destination has most of their common share, who is that
// destination. all is true if who means all of them.
func (s *Sheet) Limit() (who Place, all bool, share time.Duration) {
	shares := s.Shares()
	for p := Source; p < first; p++ {
		if shares[p] > share {
			who, share = p, shares[p]
		}
	}
	slowest, sum := first, time.Duration(0)
	for i, d := range shares[first:] {
		if sum += d; d > shares[slowest] {
			slowest = Destination(i)
		}
	}
	switch {
	case sum <= share:
		return who, false, share
	case float64(shares[slowest]) >= dominant*float64(sum):
		return slowest, false, shares[slowest]
	}
	return first, true, sum
}
