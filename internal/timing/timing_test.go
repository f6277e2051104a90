package timing

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// intervals are what a test expects of the times of a sheet, by kind and place.
type intervals map[[2]int]time.Duration

func timesOf(s *Sheet) intervals {
	got := intervals{}
	for _, l := range s.Intervals() {
		if l.Time > 0 {
			got[[2]int{int(l.Kind), int(l.Place)}] = l.Time
		}
	}
	return got
}

func at(k Kind, p Place) [2]int { return [2]int{int(k), int(p)} }

// The end of one interval is the beginning of the next, and waiting comes back to what it
// has interrupted.
func TestIntervalsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSheet(1)
		c := s.Clock()
		time.Sleep(time.Hour) // idle
		c.At(Read, Source)
		time.Sleep(time.Second)
		c.At(Read, Source)
		time.Sleep(time.Second)
		c.Did(10)
		c.Did(5)
		c.At(Write, Destination(0))
		time.Sleep(3 * time.Second)
		c.Wait(Window, c.Here())
		time.Sleep(4 * time.Second)
		c.Resume()
		time.Sleep(time.Second)
		c.Wait(Queue, CPU)
		time.Sleep(2 * time.Second)
		c.Blame(Source)
		c.Resume()
		require.Equal(t, 2*time.Second, c.Spent(Read, Source))
		c.Stop()
		require.Equal(t, intervals{
			at(Read, Source): 2 * time.Second, at(Write, Destination(0)): 4 * time.Second,
			at(Window, Destination(0)): 4 * time.Second, at(Queue, Source): 2 * time.Second,
			at(Idle, None): time.Hour,
		}, withIdle(timesOf(s), s))
		require.Equal(t, []time.Duration{0, 4 * time.Second, 0, 0, 8 * time.Second}, s.Shares())
		require.Equal(t, Interval{Read, Source, 2 * time.Second, 15, 2}, s.Intervals()[0])
	})
}

func withIdle(l intervals, s *Sheet) intervals {
	l[at(Idle, None)] = s.mu.cells[index(Idle, None)].time
	return l
}

// At each instant, the wall time is divided among the goroutines that are at a place.
func TestSharesAreOfTheWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSheet(2)
		var group sync.WaitGroup
		work := func(c *Clock, steps ...func(*Clock)) {
			group.Go(func() {
				defer c.Stop()
				for _, step := range steps {
					step(c)
				}
			})
		}
		step := func(k Kind, p Place, seconds int) func(*Clock) {
			return func(c *Clock) {
				c.At(k, p)
				time.Sleep(time.Duration(seconds) * time.Second)
			}
		}
		// Four write for 2 s; then three are done, and one reads for 6 s.
		for range 3 {
			work(s.Clock(), step(Write, Destination(1), 2))
		}
		work(s.Clock(), step(Write, Destination(1), 2), step(Read, Source, 6))
		// Who waits for the others' blocks does not count, nor does who works aside.
		work(s.Clock(), step(Block, None, 8))
		work(s.Aside(), step(Hash, CPU, 8))
		group.Wait()
		require.Equal(t, []time.Duration{0, 6 * time.Second, 0, 0, 0, 2 * time.Second}, s.Shares())
		who, all, share := s.Limit()
		require.Equal(t, Source, who)
		require.False(t, all)
		require.Equal(t, 6*time.Second, share)
		require.Equal(t, intervals{
			at(Write, Destination(1)): 8 * time.Second, at(Read, Source): 6 * time.Second,
			at(Hash, CPU): 8 * time.Second, at(Block, None): 8 * time.Second,
		}, timesOf(s))
	})
}

func TestTheLimitHasTheLargestShare(t *testing.T) {
	const a, b = first, first + 1
	for name, c := range map[string]struct {
		spent  map[Place]int // seconds
		charge map[Place]Place
		who    Place
		all    bool
		share  int
	}{
		"nothing":                   {},
		"the source":                {spent: map[Place]int{Source: 5, CPU: 2, a: 4}, who: Source, share: 5},
		"the CPU":                   {spent: map[Place]int{Source: 1, CPU: 2, a: 1}, who: CPU, share: 2},
		"what was asked for":        {spent: map[Place]int{Source: 1, UserLimit: 3, a: 1}, who: UserLimit, share: 3},
		"one destination of two":    {spent: map[Place]int{Source: 5, a: 1, b: 9}, who: b, share: 9},
		"both destinations":         {spent: map[Place]int{Source: 5, a: 3, b: 4}, who: a, all: true, share: 7},
		"one in memory":             {spent: map[Place]int{Source: 5, CPU: 2, a: 4, b: 4}, charge: map[Place]Place{a: CPU}, who: CPU, share: 6},
		"more than all but the sum": {spent: map[Place]int{Source: 5, a: 4, b: 4}, who: a, all: true, share: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewSheet(2)
				clock := s.Clock()
				for p := range Place(len(s.mu.owner)) {
					clock.At(Read, p)
					time.Sleep(time.Duration(c.spent[p]) * time.Second)
				}
				for p, owner := range c.charge {
					s.Charge(p, owner)
				}
				clock.Stop()
				who, all, share := s.Limit()
				require.Equal(t, c.who, who)
				require.Equal(t, c.all, all)
				require.Equal(t, time.Duration(c.share)*time.Second, share)
			})
		})
	}
}

// A sheet for no destination has no limit there.
func TestWithoutDestinationsNoneIsTheLimit(t *testing.T) {
	s := NewSheet(0)
	c := s.Clock()
	c.At(Hash, CPU)
	c.Stop()
	_, all, _ := s.Limit()
	require.False(t, all)
}

// None who measures nothing needs to know.
func TestANilClockMeasuresNothing(t *testing.T) {
	var s *Sheet
	c := s.Clock()
	require.Nil(t, c)
	c.At(Read, Source)
	c.Wait(Pace, UserLimit)
	c.Blame(CPU)
	c.Resume()
	c.Did(1)
	require.Equal(t, None, c.Here())
	require.Zero(t, c.Spent(Read, Source))
	require.Nil(t, c.Aside())
	c.Stop()
}

func TestEveryKindAndPlaceHasAName(t *testing.T) {
	for k := range kinds {
		require.NotEmpty(t, k.String())
		require.Equal(t, k > Flush, k.Waits())
	}
	require.Equal(t, "destination", Destination(7).String())
	i, ok := Destination(7).Destination()
	require.True(t, ok)
	require.Equal(t, 7, i)
	_, ok = UserLimit.Destination()
	require.False(t, ok)
}

// All shares together are the time in which at least one goroutine was at a place. The
// intervals of a goroutine are the time that it was there.
func TestSharesNeverExceedTheWallTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type interval struct {
			kind  Kind
			place Place
			time  int // seconds
		}
		workers := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) interval {
			return interval{Kind(rapid.IntRange(0, int(kinds)-1).Draw(rt, "kind")), Place(rapid.IntRange(0, 5).Draw(rt, "place")), rapid.IntRange(0, 5).Draw(rt, "time")}
		}), 0, 8), 1, 5).Draw(rt, "workers")
		var wall, spent, busy time.Duration
		synctest.Test(t, func(*testing.T) {
			s := NewSheet(2)
			var group sync.WaitGroup
			longest := 0
			for _, intervals := range workers {
				c, total := s.Clock(), 0
				for _, l := range intervals {
					total += l.time
				}
				longest = max(longest, total)
				group.Go(func() {
					defer c.Stop()
					for _, l := range intervals {
						c.At(l.kind, l.place)
						time.Sleep(time.Duration(l.time) * time.Second)
					}
				})
			}
			group.Wait()
			seconds := make([]bool, longest) // in which anybody counts
			for _, intervals := range workers {
				now := 0
				for _, l := range intervals {
					for range l.time {
						seconds[now] = seconds[now] || l.place != None
						now++
					}
				}
			}
			for _, counts := range seconds {
				if counts {
					wall += time.Second
				}
			}
			for _, d := range s.Shares() {
				spent += d
			}
			for _, c := range s.mu.cells[1:] { // idle there is not taken
				busy += c.time
			}
			for _, intervals := range workers {
				for _, l := range intervals {
					if index(l.kind, l.place) > 0 {
						busy -= time.Duration(l.time) * time.Second
					}
				}
			}
		})
		if d := wall - spent; d < 0 || d > time.Microsecond { // rounded down
			rt.Fatalf("%v of %v", spent, wall)
		}
		if busy != 0 {
			rt.Fatalf("%v too much", busy)
		}
	})
}
