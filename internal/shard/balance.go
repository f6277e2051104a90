package shard

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// The cost of an entry is the time that one task needs for it.
const (
	// bandwidth is the rate at which a task copies large files, in bytes per second. It is about
	// half of a 10 Gbit/s link, and the rate of one SHA-256 stream without special instructions.
	bandwidth = 500e6

	// entryCost is the fixed cost of an entry, in nanoseconds: about ten round trips of 0.5 ms
	// to a network file system, with five files or more in flight.
	entryCost = 1e6

	// shardCost is the cost of a shard, in nanoseconds, if the user gives neither --shards nor
	// --shard-size. In half an hour little work is lost if a node fails, and the start of a task
	// takes a small part of the time.
	shardCost = 30 * 60 * 1e9

	// usualShards is the largest number of shards that is chosen without --shards: the
	// default MaxArraySize of Slurm is 1001.
	usualShards = 1000

	// finest divides the mean cost of a shard. A unit that costs more than the quotient is placed
	// separately. The smaller entries of a directory stay together if their total cost is not
	// above the quotient.
	finest = 20

	// wholeNames limits the names of a directory that is never split, because the planner holds
	// them in memory.
	wholeNames = 4096
)

// costOf returns the cost of copying an entry, in nanoseconds.
func costOf(kind fsys.Kind, size int64) int64 {
	if kind != fsys.Regular || size <= 0 {
		return entryCost
	}
	return entryCost + min(int64(float64(size)/bandwidth*1e9), math.MaxInt64/4)
}

// addCost adds without overflow: a hostile tree has sparse files of 8 EiB.
func addCost(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// shardCount returns how many shards a plan has: shards or bytes/shardSize where they are given.
func shardCount(cost, bytes int64, shards int, shardSize int64) int {
	switch {
	case shards > 0:
		return shards
	case shardSize > 0:
		return int(min(max((bytes-1)/shardSize+1, 1), MaxShards))
	}
	return int(min(max((cost-1)/shardCost+1, 1), usualShards))
}

// unit is a set of names that one shard has to copy.
type unit struct {
	id   uint64 // number of a cluster, or of a hard link group together with groupUnit
	cost int64
}

// balance places units into shards.
type balance struct {
	loads []int64 // cost of each shard
	space []int64 // cost of the small units that each shard can take; set by level
	shard int     // gets the next small unit
	next  int64   // cost of the small units in that shard so far
}

func newBalance(shards int) *balance { return &balance{loads: make([]int64, shards)} }

// placeLarge places units longest first, each into the shard with the least cost. It returns the
// shard of each unit, in the order of the sorted units.
func (b *balance) placeLarge(units []unit) []int {
	slices.SortFunc(units, func(x, y unit) int {
		return cmp.Or(cmp.Compare(y.cost, x.cost), cmp.Compare(x.id, y.id))
	})
	h := &loadHeap{b.loads, make([]int, len(b.loads))}
	for i := range h.order {
		h.order[i] = i
	}
	heap.Init(h)
	placed := make([]int, len(units))
	for i, u := range units {
		shard := h.order[0]
		b.loads[shard] = addCost(b.loads[shard], u.cost)
		placed[i] = shard
		heap.Fix(h, 0)
	}
	return placed
}

// level divides the total cost of all small units among the shards, and sets space. The shards
// with the least cost get the most, so that these shards have equal costs afterwards.
func (b *balance) level(small int64) {
	sorted := slices.Sorted(slices.Values(b.loads))
	var below float64 // total cost of the shards that get small units
	level := float64(small) / float64(len(sorted))
	for i, load := range sorted {
		below += float64(load)
		level = (below + float64(small)) / float64(i+1)
		if i+1 == len(sorted) || level <= float64(sorted[i+1]) {
			break
		}
	}
	b.space = make([]int64, len(b.loads))
	for i, load := range b.loads {
		b.space[i] = int64(max(level-float64(load), 0))
	}
}

// pour places the next small unit, or several that stay together, and returns their shard. Small
// units fill the space of the shards one shard after the other. A unit on the border of two shards
// goes into the one that contains the middle of the unit, so that rounding errors do not add up.
func (b *balance) pour(cost int64) int {
	middle := b.next + cost/2
	for b.shard+1 < len(b.space) && middle >= b.space[b.shard] {
		middle -= b.space[b.shard]
		b.next -= b.space[b.shard]
		b.shard++
	}
	b.next += cost
	b.loads[b.shard] = addCost(b.loads[b.shard], cost)
	return b.shard
}

// loadHeap is a heap of shards by their cost.
type loadHeap struct {
	loads []int64
	order []int
}

func (h *loadHeap) Len() int      { return len(h.order) }
func (h *loadHeap) Swap(i, j int) { h.order[i], h.order[j] = h.order[j], h.order[i] }
func (h *loadHeap) Push(any)      {}
func (h *loadHeap) Pop() any      { return nil }
func (h *loadHeap) Less(i, j int) bool {
	a, b := h.order[i], h.order[j]
	return cmp.Or(cmp.Compare(h.loads[a], h.loads[b]), cmp.Compare(a, b)) < 0
}
