package timing

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// step is a part of the work of a goroutine.
type step struct {
	place   Place
	seconds int
}

// sampled returns the sampler of a run in which each worker takes its steps, in virtual time.
func sampled(destinations int, workers ...[]step) *Sampler {
	s := Start(destinations)
	var group sync.WaitGroup
	for _, steps := range workers {
		group.Go(func() {
			a := s.Activity()
			defer a.At(None)
			for _, step := range steps {
				a.At(step.place)
				time.Sleep(time.Duration(step.seconds) * time.Second)
			}
		})
	}
	group.Wait()
	s.Stop()
	return s
}

// Each sample is divided among the goroutines that have a place.
func TestSharesOfAllGoroutines(t *testing.T) {
	const one = first + 1
	for name, c := range map[string]struct {
		workers [][]step
		want    []float64 // from the source on
	}{
		"one after the other": {[][]step{{{Source, 5}, {CPU, 2}, {one, 3}}}, []float64{0.5, 0.2, 0, 0, 0.3}},
		"at the same time":    {[][]step{{{Source, 8}}, {{CPU, 4}}}, []float64{0.75, 0.25, 0, 0, 0}},
		"four, then one":      {[][]step{{{one, 2}}, {{one, 2}}, {{one, 2}}, {{one, 2}, {Source, 6}}}, []float64{0.75, 0, 0, 0, 0.25}},
		"who waits for it":    {[][]step{{{None, 10}}, {{UserLimit, 10}}}, []float64{0, 0, 1, 0, 0}},
		"nothing at times":    {[][]step{{{None, 5}, {CPU, 5}}}, []float64{0, 0.5, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.InDeltaSlice(t, c.want, sampled(2, c.workers...).Shares()[Source:], 0.01)
			})
		})
	}
}

func TestTheLimitHasTheLargestShare(t *testing.T) {
	const a, b = first, first + 1
	for name, c := range map[string]struct {
		steps  []step
		charge map[Place]Place
		who    Place
		all    bool
		share  float64
	}{
		"nothing":                   {steps: []step{{None, 1}}},
		"the source":                {steps: []step{{Source, 5}, {CPU, 1}, {a, 4}}, who: Source, share: 0.5},
		"the CPU":                   {steps: []step{{Source, 1}, {CPU, 3}, {a, 1}}, who: CPU, share: 0.6},
		"what was asked for":        {steps: []step{{Source, 1}, {UserLimit, 3}, {a, 1}}, who: UserLimit, share: 0.6},
		"one destination of two":    {steps: []step{{Source, 5}, {a, 1}, {b, 14}}, who: b, share: 0.7},
		"both destinations":         {steps: []step{{Source, 5}, {a, 7}, {b, 8}}, who: a, all: true, share: 0.75},
		"one in memory":             {steps: []step{{Source, 5}, {CPU, 2}, {a, 5}, {b, 4}}, charge: map[Place]Place{a: CPU}, who: CPU, share: 7.0 / 16},
		"more than all but the sum": {steps: []step{{Source, 5}, {a, 4}, {b, 4}}, who: a, all: true, share: 8.0 / 13},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sampled(2, c.steps)
				for p, owner := range c.charge {
					s.Charge(p, owner)
				}
				who, all, share := s.Limit()
				require.Equal(t, c.who, who)
				require.Equal(t, c.all, all)
				require.InDelta(t, c.share, share, 0.01)
			})
		})
	}
}

// A sample is late if no processor was free to take it.
func TestLateSamplesCountForTheCPU(t *testing.T) {
	s := Start(0)
	s.Stop()
	s.sample(1) // no goroutine has a place
	s.Activity().At(Source)
	for range leastSamples - 1 {
		s.sample(0.75)
	}
	require.InDelta(t, 3, s.Shares()[CPU]/s.Shares()[Source], 0.001)
}

// A run of less than ten samples is too short to name a place.
func TestShortRunsHaveNoLimit(t *testing.T) {
	for samples, want := range map[time.Duration]Place{leastSamples - 1: None, leastSamples: Source} {
		synctest.Test(t, func(t *testing.T) {
			s := Start(1)
			defer s.Stop()
			s.Activity().At(Source)
			time.Sleep(samples*interval + interval/2)
			who, _, share := s.Limit()
			require.Equal(t, want, who)
			require.Equal(t, want != None, share > 0)
		})
	}
}

// A sampler for no destination has no limit there.
func TestWithoutDestinationsNoneIsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who, all, _ := sampled(0, []step{{CPU, 1}}).Limit()
		require.Equal(t, CPU, who)
		require.False(t, all)
	})
}

func TestAtReturnsThePlaceBefore(t *testing.T) {
	a := new(Activity)
	a.At(CPU)
	func() {
		defer a.At(a.At(UserLimit))
		require.Equal(t, UserLimit, a.Place())
	}()
	require.Equal(t, CPU, a.Place())
}

func TestANilSamplerHasNoPlaces(t *testing.T) {
	var s *Sampler
	a := s.Activity()
	require.Nil(t, a)
	require.Equal(t, None, a.At(Source))
	require.Equal(t, None, a.Place())
}

func TestEveryPlaceHasAName(t *testing.T) {
	require.Equal(t, "destination", Destination(7).String())
	i, ok := Destination(7).Destination()
	require.True(t, ok)
	require.Equal(t, 7, i)
	_, ok = UserLimit.Destination()
	require.False(t, ok)
}
