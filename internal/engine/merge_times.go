package engine

import (
	"slices"
	"time"
)

// taskTimes collects when the tasks of a plan copied and read back, by the clocks of their machines. Tasks
// overlap, so the sum of their times says nothing about the speed of the whole copy.
type taskTimes struct {
	copying, readBack spans
	at                []targetTimes // one for each destination
}

// targetTimes are the times at one destination.
type targetTimes struct {
	copying, readBack spans
	unknown           bool // true if a task copied to it and did not flush it
}

// add adds the times of the task that has finished a shard.
func (t *taskTimes) add(c *ShardResult) {
	readBack := c.Ended().Add(-c.ReadBack) // a task reads back at its end, all destinations at once
	t.copying.add(c.Begun, c.Elapsed-c.ReadBack)
	t.readBack.add(readBack, c.ReadBack)
	for i, from := range c.Targets[:min(len(c.Targets), len(t.at))] {
		at := &t.at[i]
		at.copying.add(c.Begun, from.Flushed)
		at.readBack.add(readBack, from.ReadBack)
		at.unknown = at.unknown || from.Copied.Bytes > 0 && from.Flushed == 0
	}
}

// store sets the times of the whole copy. Those of a phase are the time in which at least one task was in it.
func (t *taskTimes) store(c *collector) {
	c.summary.copying, c.summary.ReadBack = t.copying.covered(), t.readBack.covered()
	for i := range t.at {
		at := &c.at[i]
		at.Flushed, at.ReadBack = t.at[i].copying.covered(), t.at[i].readBack.covered()
		if t.at[i].unknown {
			at.Flushed = 0
		}
	}
}

// spans are periods of time.
type spans []span

type span struct{ from, to time.Time }

func (s *spans) add(from time.Time, d time.Duration) {
	if d > 0 {
		*s = append(*s, span{from, from.Add(d)})
	}
}

// covered returns the time that at least one span covers. It sorts the spans.
func (s spans) covered() (d time.Duration) {
	slices.SortFunc(s, func(a, b span) int { return a.from.Compare(b.from) })
	var end time.Time // end of the spans before
	for _, next := range s {
		if next.from.After(end) {
			end = next.from
		}
		if next.to.After(end) {
			d += next.to.Sub(end)
			end = next.to
		}
	}
	return d
}
