package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed65876f4f/sealift/internal/units"
)

// maxShards is how many shards a page shows. A person cannot compare more bars.
const maxShards = 100

// leastBar is the least width of the bar of a shard, as a part of the plot: it stays visible.
const leastBar = 0.004

// Shard is the result of one shard of a planned copy.
type Shard struct {
	Index    int
	State    string // state in words: "finished"
	Attempts int
	Failures int64 // number of failures and mismatches

	// These are those of the task that finished the shard. If it is not finished, Begun is zero.
	Files, Bytes int64
	Begun, Ended time.Time // times by the clock of the machine of that task
	Time         string    // time between them, for people
}

// Shards collects the shards of a planned copy. It keeps those that the page shows: unfinished ones
// and those that took longest.
type Shards struct {
	count int
	kept  []Shard // shards to show, the first one first
	// first and last are when the first task began and the last one ended.
	first, last time.Time
}

// Add adds a shard.
func (l *Shards) Add(s Shard) {
	l.count++
	if !s.Begun.IsZero() {
		if l.first.IsZero() || s.Begun.Before(l.first) {
			l.first = s.Begun
		}
		if s.Ended.After(l.last) {
			l.last = s.Ended
		}
	}
	at, _ := slices.BinarySearchFunc(l.kept, s, inOrderToShow)
	if at == maxShards {
		return
	}
	if len(l.kept) == maxShards {
		l.kept = l.kept[:maxShards-1]
	}
	l.kept = slices.Insert(l.kept, at, s)
}

// inOrderToShow compares shards: unfinished ones are first, then those that took longest.
func inOrderToShow(a, b Shard) int {
	if a.Begun.IsZero() != b.Begun.IsZero() {
		if a.Begun.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.elapsed(), a.elapsed()), cmp.Compare(a.Index, b.Index))
}

func (s *Shard) elapsed() time.Duration { return s.Ended.Sub(s.Begun) }

// shardsView is the plot of the shards: a table with a bar in each row.
type shardsView struct {
	Text        string
	First, Last string // the ends of the axis of time
	Rows        []shardRow
}

type shardRow struct {
	Shard

	BegunAt, Rate string
	X, Width      string // place of the bar in percent; Width is "" if there is none
}

// view returns nil if there are no shards.
func (l *Shards) view(zone *time.Location) *shardsView {
	if l == nil || l.count == 0 {
		return nil
	}
	v := &shardsView{Text: "A bar is the time of the task that finished the shard, by the clock of its machine."}
	if l.count > len(l.kept) {
		v.Text += " Listed are " + units.Grouped(int64(len(l.kept))) + " of " + units.Plural(int64(l.count), "shard") +
			": unfinished ones first, then those that took longest."
	}
	format := time.TimeOnly
	if first, last := l.first.In(zone), l.last.In(zone); first.YearDay() != last.YearDay() || first.Year() != last.Year() {
		format = time.DateTime
	}
	if !l.first.IsZero() {
		v.First, v.Last = l.first.In(zone).Format(format), l.last.In(zone).Format(format)
	}
	shown := slices.SortedFunc(slices.Values(l.kept), func(a, b Shard) int { return cmp.Compare(a.Index, b.Index) })
	for _, s := range shown {
		row := shardRow{Shard: s}
		if !s.Begun.IsZero() {
			row.BegunAt = s.Begun.In(zone).Format(format)
			row.addBar(l.first, l.last)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// addBar adds the bar of a finished shard, and its rate.
func (r *shardRow) addBar(first, last time.Time) {
	if elapsed := r.elapsed().Seconds(); elapsed > 0 {
		r.Rate = units.Rate(float64(r.Bytes) / elapsed)
	}
	width, at := 1.0, 0.0
	if all := last.Sub(first).Seconds(); all > 0 {
		width = max(r.elapsed().Seconds()/all, leastBar)
		at = min(r.Begun.Sub(first).Seconds()/all, 1-width)
	}
	r.X, r.Width = percent(at), percent(width)
}
