package shard

import (
	"math"

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

	// finest divides the mean cost of a shard. The entries of a directory that costs less than the
	// quotient stay together.
	finest = 20
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
