package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
)

func TestCovered(t *testing.T) {
	for name, c := range map[string]struct {
		spans [][2]int // begin and length, in seconds
		want  int      // seconds
	}{
		"none":        {nil, 0},
		"separate":    {[][2]int{{10, 1}, {0, 2}}, 3},
		"overlapping": {[][2]int{{0, 4}, {2, 4}}, 6},
		"adjoining":   {[][2]int{{0, 4}, {4, 4}}, 8},
		"one inside":  {[][2]int{{0, 9}, {2, 1}, {8, 2}}, 10},
		"empty":       {[][2]int{{0, 0}, {5, -1}}, 0},
	} {
		var s spans
		for _, one := range c.spans {
			s.add(time.Unix(int64(one[0]), 0), time.Duration(one[1])*time.Second)
		}
		require.Equal(t, time.Duration(c.want)*time.Second, s.covered(), name)
	}
}

// Tasks that overlap share the time of the whole copy. A task that did not flush a destination leaves the
// speed there unknown.
func TestTimesOfTasksThatOverlap(t *testing.T) {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	task := func(begin int, flushed ...time.Duration) *ShardResult {
		r := &ShardResult{Begun: time.Unix(int64(begin), 0), Summary: Summary{Elapsed: seconds(20), ReadBack: seconds(4)}}
		for _, f := range flushed {
			r.Targets = append(r.Targets, TargetSummary{Flushed: f, ReadBack: f / 5, DestinationCounts: DestinationCounts{Copied: Copied{Bytes: 1}}})
		}
		return r
	}
	times := &taskTimes{at: make([]targetTimes, 2)}
	times.add(task(0, seconds(10), seconds(15)))
	times.add(task(5, seconds(10), 0))
	c := &collector{summary: &Summary{}, at: make([]collected, 2)}
	times.store(c)
	require.Equal(t, seconds(21), c.summary.Copying(), "0 to 16 and 5 to 21")
	require.Equal(t, seconds(8), c.summary.ReadBack, "16 to 20 and 21 to 25")
	require.Equal(t, seconds(15), c.at[0].Flushed, "0 to 10 and 5 to 15")
	require.Equal(t, seconds(4), c.at[0].ReadBack, "16 to 18 and 21 to 23")
	require.Zero(t, c.at[1].Flushed)
	require.Equal(t, seconds(3), c.at[1].ReadBack, "16 to 19")
}

// The times of a merge are those of the tasks, one after the other, without that of the merge.
func TestAMergeHasTheTimesOfTheTasks(t *testing.T) {
	c := planLittle(t, 3, dest.SyncEnd)
	c.options.Verify = VerifyDest
	for i := range 3 {
		c.run(nil, i)
	}
	s, events, err := c.merge(nil)
	require.NoError(t, err)
	require.Empty(t, badOf(events))
	var copying, readBack, flushed, readBackThere time.Duration
	var bytes int64
	for i := range 3 {
		r := s.Result(i)
		copying += r.Elapsed - r.ReadBack
		readBack += r.ReadBack
		flushed += r.Targets[0].Flushed
		readBackThere += r.Targets[0].ReadBack
		bytes += r.Targets[0].ReadBytes
	}
	require.Positive(t, bytes)
	require.Positive(t, readBackThere)
	require.Equal(t, copying, s.Summary.Copying())
	require.Equal(t, readBack, s.Summary.ReadBack)
	require.Equal(t, flushed, s.Summary.Targets[0].Flushed)
	require.Equal(t, readBackThere, s.Summary.Targets[0].ReadBack)
	require.Equal(t, bytes, s.Summary.Targets[0].ReadBytes)
}
