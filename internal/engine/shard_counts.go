package engine

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// shardCounts is the first object of the outcomes of a shard: what its task has counted of
// entries. Failures, conflicts and warnings are outcomes themselves.
type shardCounts struct {
	Counts       Counts
	Files        int64
	Links        int64
	Specials     int64
	HardLinks    int64
	Bytes        int64
	Skipped      int64
	Total        int64 // regular files
	ResumedFiles int64
	ResumedBytes int64
	Begun        time.Time     // UTC
	Elapsed      time.Duration // of the attempt that has finished the shard
	Targets      []shardTargetCounts
}

// shardTargetCounts are the counts at one destination.
type shardTargetCounts struct {
	Counts   Counts
	Copied   Copied
	Present  int64
	Left     int64
	Verified int64
	Cached   int64
	BackedUp int64
	Lost     bool // the task has dropped the destination
}

// countsOfShard returns the counts of a task that began at begun.
func countsOfShard(s *Summary, begun time.Time) shardCounts {
	c := shardCounts{
		Counts: s.Counts, Files: s.Files, Links: s.Links, Specials: s.Specials, HardLinks: s.HardLinks, Bytes: s.Bytes,
		Skipped: s.Skipped, Total: s.Total, ResumedFiles: s.ResumedFiles, ResumedBytes: s.ResumedBytes,
		Begun: begun.UTC().Truncate(time.Second), Elapsed: s.Elapsed, Targets: []shardTargetCounts{},
	}
	for _, t := range s.Targets {
		c.Targets = append(c.Targets, shardTargetCounts{t.Counts, t.Copied, t.Present, t.Left, t.Verified, t.Cached, t.BackedUp, t.Lost != nil})
	}
	return c
}

// plus adds counts of entries.
func (c *Counts) plus(d Counts) {
	c.Created += d.Created
	c.Replaced += d.Replaced
	c.Updated += d.Updated
	c.UpToDate += d.UpToDate
	c.Kept += d.Kept
}

// plus adds counts of files.
func (c *Copied) plus(d Copied) {
	c.Files += d.Files
	c.Bytes = counters.Plus(c.Bytes, d.Bytes)
	c.ResumedFiles += d.ResumedFiles
	c.ResumedBytes = counters.Plus(c.ResumedBytes, d.ResumedBytes)
}

// addTo adds the counts of a shard to a summary. Those of destinations are added to the run's.
func (c *shardCounts) addTo(s *Summary) {
	s.Counts.plus(c.Counts)
	s.Files += c.Files
	s.Links += c.Links
	s.Specials += c.Specials
	s.HardLinks += c.HardLinks
	s.Bytes = counters.Plus(s.Bytes, c.Bytes)
	s.Skipped += c.Skipped
	s.ResumedFiles += c.ResumedFiles
	s.ResumedBytes = counters.Plus(s.ResumedBytes, c.ResumedBytes)
}
