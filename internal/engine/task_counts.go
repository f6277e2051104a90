package engine

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// ShardResult is what a task has counted. It is a part of the finish record, as JSON.
type ShardResult struct {
	Summary
	Begun time.Time // the time when the task began, by the clock of its machine
}

// Ended returns when the task ended, by the clock of its machine.
func (c *ShardResult) Ended() time.Time { return c.Begun.Add(c.Elapsed) }

// counts returns what the task has counted.
func (k *task) counts(s *Summary) (json.RawMessage, error) {
	c := ShardResult{*s, k.begun.UTC().Round(0)}
	c.Elapsed = time.Since(k.begun)
	return json.Marshal(c)
}

// addTo adds the counts of a task to those of a merge.
func (c *ShardResult) addTo(r *run) {
	s := r.collector.summary
	s.Counts.plus(c.Counts)
	s.Files += c.Files
	s.Links += c.Links
	s.Specials += c.Specials
	s.HardLinks += c.HardLinks
	s.Bytes = counters.Plus(s.Bytes, c.Bytes)
	s.Skipped += c.Skipped
	s.ResumedFiles += c.ResumedFiles
	s.ResumedBytes = counters.Plus(s.ResumedBytes, c.ResumedBytes)
	r.collector.seen += c.Total
	for i, from := range c.Targets[:min(len(c.Targets), len(r.targets))] {
		to := &r.collector.at[i]
		to.Counts.plus(from.Counts)
		to.Copied.Files += from.Copied.Files
		to.Copied.Bytes = counters.Plus(to.Copied.Bytes, from.Copied.Bytes)
		to.Copied.ResumedFiles += from.Copied.ResumedFiles
		to.Copied.ResumedBytes = counters.Plus(to.Copied.ResumedBytes, from.Copied.ResumedBytes)
		to.Present += from.Present
		to.Left += from.Left
		to.Verified += from.Verified
		to.Cached += from.Cached
		to.ReadBytes = counters.Plus(to.ReadBytes, from.ReadBytes)
		if backup := r.targets[i].Backups; backup != nil {
			backup.Kept.Add(from.BackedUp)
		}
	}
}

// plus adds counts of entries.
func (c *Counts) plus(d Counts) {
	c.Created += d.Created
	c.Replaced += d.Replaced
	c.Updated += d.Updated
	c.UpToDate += d.UpToDate
	c.Kept += d.Kept
}

// recordedKinds are the kinds of events that a task records, with their names in its part.
var recordedKinds = map[event.Kind]string{
	event.Failed: "failed", event.Mismatch: "mismatch", event.Conflict: "conflict", event.Warning: "warning", event.DestinationLost: "lost",
}

// record records an event in the part of the shard.
func (k *task) record(r *run, e event.Event) bool {
	kind, recorded := recordedKinds[e.Kind]
	if !recorded {
		return true
	}
	o := shard.Outcome{Kind: kind, Path: shard.Text(e.Path), Target: -1, Cause: shard.Text(e.Err.Error()), Name: outcomes.CauseOf(e), Hint: e.Hint, Next: e.Next}
	if f, ok := errors.AsType[*failure.FileError](e.Err); ok {
		o.Stage, o.Cause = string(f.Stage), shard.Text(f.Err.Error())
	}
	for i, t := range r.targets {
		if t.Given == e.Target {
			o.Target = i
		}
	}
	if err := k.part.PutOutcome(o); err != nil {
		k.fail(r, err)
	}
	return true
}

// eventOf returns the event that a task has recorded.
func (r *run) eventOf(o *shard.Outcome) event.Event {
	e := event.Event{Path: string(o.Path), Err: errors.New(string(o.Cause)), Cause: o.Name, Hint: o.Hint, Next: o.Next}
	for kind, name := range recordedKinds {
		if name == o.Kind {
			e.Kind = kind
		}
	}
	if o.Target >= 0 {
		e.Target = r.targets[o.Target].Given
	}
	if e.Kind == event.Failed || e.Kind == event.Mismatch {
		e.Err = &failure.FileError{Path: e.Path, Target: e.Target, Stage: failure.Stage(o.Stage), Err: e.Err}
	}
	return e
}
