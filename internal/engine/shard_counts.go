package engine

import (
	"errors"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// shardCounts is what an attempt has counted: the first object of its outcomes.
type shardCounts struct {
	Entries      Counts         `json:"entries"` // Summary.Counts
	Files        int64          `json:"files"`
	Links        int64          `json:"links"`
	Specials     int64          `json:"specials"`
	HardLinks    int64          `json:"hard_links"`
	Bytes        int64          `json:"bytes"`
	Skipped      int64          `json:"skipped"`
	Conflicts    int64          `json:"conflicts"`
	Mismatches   int64          `json:"mismatches"`
	Total        int64          `json:"total"`
	Errors       int64          `json:"errors"`
	Warnings     int64          `json:"warnings"`
	ResumedFiles int64          `json:"resumed_files"`
	ResumedBytes int64          `json:"resumed_bytes"`
	Begun        time.Time      `json:"begun"`
	Elapsed      time.Duration  `json:"elapsed"` // nanoseconds
	Targets      []targetCounts `json:"targets"`
}

// targetCounts is the part of shardCounts about one destination.
type targetCounts struct {
	Entries  Counts `json:"entries"` // TargetSummary.Counts
	Copied          // its fields are in this object
	Present  int64  `json:"present"`
	Left     int64  `json:"left"`
	Verified int64  `json:"verified"`
	Cached   int64  `json:"cached"`
	BackedUp int64  `json:"backed_up"`
}

// counts returns what the attempt has counted.
func (k *task) counts(s *Summary) shardCounts {
	counts := shardCounts{
		Entries: s.Counts, Files: s.Files, Links: s.Links, Specials: s.Specials, HardLinks: s.HardLinks,
		Bytes: s.Bytes, Skipped: s.Skipped, Conflicts: s.Conflicts, Mismatches: s.Mismatches, Total: s.Total,
		Errors: s.Errors, Warnings: s.Warnings, ResumedFiles: s.ResumedFiles, ResumedBytes: s.ResumedBytes,
		Begun: k.begun.UTC().Round(0), Elapsed: time.Since(k.begun), Targets: []targetCounts{},
	}
	for _, t := range s.Targets {
		counts.Targets = append(counts.Targets, targetCounts{
			Entries: t.Counts, Copied: t.Copied, Present: t.Present, Left: t.Left, Verified: t.Verified, Cached: t.Cached, BackedUp: t.BackedUp,
		})
	}
	return counts
}

// outcomeKinds maps the kinds of events that a task records to kinds of outcomes.
var outcomeKinds = map[event.Kind]shard.OutcomeKind{
	event.Failed: shard.OutcomeFailed, event.Mismatch: shard.OutcomeMismatch, event.Conflict: shard.OutcomeConflict,
	event.Warning: shard.OutcomeWarning, event.DestinationLost: shard.OutcomeLost,
}

// record records an event in the outcomes of the shard.
func (k *task) record(r *run, e event.Event) bool {
	kind, recorded := outcomeKinds[e.Kind]
	if !recorded {
		return true
	}
	o := shard.Outcome{Kind: kind, Path: shard.Text(e.Path), Target: -1, Cause: shard.Text(e.Err.Error()), Hint: e.Hint}
	if f, ok := errors.AsType[*failure.FileError](e.Err); ok {
		o.Stage, o.Cause = string(f.Stage), shard.Text(f.Err.Error())
	}
	for i, t := range r.targets {
		if t.Given == e.Target {
			o.Target = i
		}
	}
	if err := k.outcomes.Put(o); err != nil {
		k.fail(r, err)
	}
	return true
}

// plus adds counts of entries.
func (c *Counts) plus(d Counts) {
	c.Created += d.Created
	c.Replaced += d.Replaced
	c.Updated += d.Updated
	c.UpToDate += d.UpToDate
	c.Kept += d.Kept
}

// addTo adds what an attempt has counted to a summary.
func (c *shardCounts) addTo(s *Summary) {
	s.Counts.plus(c.Entries)
	s.Files += c.Files
	s.Links += c.Links
	s.Specials += c.Specials
	s.HardLinks += c.HardLinks
	s.Bytes = counters.Plus(s.Bytes, c.Bytes)
	s.Skipped += c.Skipped
	s.ResumedFiles += c.ResumedFiles
	s.ResumedBytes = counters.Plus(s.ResumedBytes, c.ResumedBytes)
}

// addTo adds what an attempt has counted at a destination.
func (c *targetCounts) addTo(t *target, at *collected) {
	at.Counts.plus(c.Entries)
	at.Copied.Files += c.Files
	at.Copied.Bytes = counters.Plus(at.Copied.Bytes, c.Bytes)
	at.Copied.ResumedFiles += c.ResumedFiles
	at.Copied.ResumedBytes = counters.Plus(at.Copied.ResumedBytes, c.ResumedBytes)
	at.present += c.Present
	at.conflicting += c.Left
	at.verified += c.Verified
	at.cached += c.Cached
	if t.backup != nil {
		t.backup.kept.Add(c.BackedUp)
	}
}
