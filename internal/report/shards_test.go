package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shardAt returns a finished shard that began so many seconds after the first one.
func shardAt(index int, after, elapsed time.Duration) Shard {
	return Shard{
		Index: index, State: "finished", Attempts: 1, Files: 3, Bytes: 1_000_000,
		Begun: begun.Add(after), Ended: begun.Add(after + elapsed), Time: elapsed.String(),
	}
}

func TestEachShardHasABarFromItsBeginToItsEnd(t *testing.T) {
	p := example("clip.mov")
	p.Shards = &Shards{}
	p.Shards.Add(shardAt(0, 0, 10*time.Second))
	p.Shards.Add(Shard{Index: 1, State: "<stopped>", Attempts: 2})
	failed := shardAt(2, 10*time.Second, 30*time.Second)
	failed.Failures = 1234
	p.Shards.Add(failed)
	p.Shards.Add(shardAt(3, 40*time.Second, 0))
	page := text(t, p)
	require.Contains(t, page, `<th scope="col">15:09:26 to 15:10:06</th>`)
	require.Contains(t, page, `<td>15:09:26</td><td class="number">10s</td><td class="number">100 kB/s</td><td class="bar"><svg aria-hidden="true"><rect x="0.00%" width="25.00%"`)
	require.Contains(t, page, `<td>&lt;stopped&gt;</td><td class="number">2</td><td class="number">0</td><td></td>`)
	require.Contains(t, page, `<td class="number bad-text">1,234</td>`)
	require.Contains(t, page, `<rect x="25.00%" width="75.00%"`)
	require.Contains(t, page, `<rect x="99.60%" width="0.40%"`) // visible, and in the plot
	require.NotContains(t, page, "Listed are")
	require.Less(t, strings.Index(page, `class="number">2</th>`), strings.Index(page, `class="number">3</th>`))
}

func TestTimesOfShardsHaveADateIfTheRunHadSeveralDays(t *testing.T) {
	l := &Shards{}
	l.Add(shardAt(0, 0, 10*time.Hour))
	v := l.view(time.UTC)
	require.Equal(t, "2026-03-14 15:09:26", v.First)
	require.Equal(t, "2026-03-15 01:09:26", v.Last)
}

// Of 100,000 shards, the page shows those that are not finished and those that took longest.
func TestManyShardsNeedBoundedMemory(t *testing.T) {
	const count = 100_000
	l := &Shards{}
	for i := range count {
		if i == 77 {
			l.Add(Shard{Index: i, State: "not begun"})
			continue
		}
		l.Add(shardAt(i, time.Duration(i)*time.Second, time.Duration(i%1000)*time.Second))
		require.LessOrEqual(t, cap(l.kept), 2*maxShards)
	}
	v := l.view(time.UTC)
	require.Len(t, v.Rows, maxShards)
	require.Equal(t, 77, v.Rows[0].Index)
	require.Empty(t, v.Rows[0].Width)
	for i, row := range v.Rows[1:] { // 99 of the 100 that took 999 s
		require.Equal(t, i*1000+999, row.Index)
	}
	require.Contains(t, v.Text, "Listed are 100 of 100,000 shards: unfinished ones first, then those that took longest.")
	require.Equal(t, begun.Add((count+998)*time.Second), l.last)
}
