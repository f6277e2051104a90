package engine

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// This file replays what the tasks have recorded, so that manifests, markers and the summary are
// those of one copy.

// replay replays the outcomes and the lines of all shards. The catalogs sort the lines, which
// come in the order of the shards: one part is open at a time, whatever their number is.
func (m *merging) replay(r *run) {
	for i := range m.store.Plan.Shards {
		if r.ctx.Err() != nil {
			return
		}
		if err := m.replayShard(r, i); err != nil {
			m.failPlan(r, err)
			return
		}
	}
}

func (m *merging) replayShard(r *run, index int) error {
	status, err := m.store.Status(index)
	if err != nil {
		return err
	}
	if status.Finished == nil {
		return fmt.Errorf("another task has begun shard %d again", index)
	}
	counts := &shardCounts{}
	lost, err := m.replayOutcomes(r, status.Finished, counts)
	if err != nil {
		return err
	}
	r.collector.await() // no other goroutine sends messages, so this one may use the collector's data
	counts.addTo(r.collector.summary)
	m.span(counts.Begun, counts.Begun.Add(counts.Elapsed))
	r.collector.seen += counts.Total
	for _, t := range r.targets {
		at := t.planIndex
		if at >= len(counts.Targets) {
			return fmt.Errorf("the outcomes of shard %d lack destination %d", index, at)
		}
		counts.Targets[at].addTo(t, &r.collector.at[t.Index])
		if lost[at] {
			err = m.addLost(r, index, t)
		} else {
			err = m.replayLines(r, status.Finished, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// span adds the time of a task.
func (m *merging) span(begun, ended time.Time) {
	if m.first.IsZero() || begun.Before(m.first) {
		m.first = begun
	}
	if ended.After(m.last) {
		m.last = ended
	}
}

// addLost records that all entries of a shard may be missing at a destination that the task of the
// shard has dropped.
func (m *merging) addLost(r *run, index int, t *target) error {
	entries, err := m.store.OpenShard(index)
	if err != nil {
		return err
	}
	defer entries.Close()
	for r.ctx.Err() == nil {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shard %d of the plan: %w", index, err)
		}
		r.collector.undone[t.Index].Add(e.Path, "not copied: the destination was dropped")
	}
	return nil
}

// replayLines replays the lines of a shard for one destination.
func (m *merging) replayLines(r *run, f *shard.Finished, t *target) error {
	lines, err := m.store.OpenLines(f, t.planIndex)
	if err != nil {
		return err
	}
	defer lines.Close()
	for r.ctx.Err() == nil {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lines of shard %d: %w", f.Shard, err)
		}
		t.records.Account(record.Outcome{
			Path: l.Path, Digests: l.Digests, Size: l.Size, Mtime: l.Mtime, Dropped: l.Dropped, Below: l.Below,
			Created: l.Created, Replaced: l.Replaced, Failed: l.Failed, Resumed: l.Resumed,
		})
	}
	return nil
}

// replayOutcomes reads the counts of a shard, and reports its outcomes as the task did. lost has, for
// each destination of the plan, whether the task dropped it.
func (m *merging) replayOutcomes(r *run, f *shard.Finished, counts *shardCounts) (lost []bool, err error) {
	outcomes, err := m.store.OpenOutcomes(f, counts)
	if err != nil {
		return nil, err
	}
	lost = make([]bool, len(m.store.Plan.Targets))
	defer outcomes.Close()
	for r.ctx.Err() == nil {
		o, err := outcomes.Next()
		if errors.Is(err, io.EOF) {
			return lost, nil
		}
		if err != nil {
			return nil, fmt.Errorf("outcomes of shard %d: %w", f.Shard, err)
		}
		e := event.Event{Kind: eventKinds[o.Kind], Path: string(o.Path), Err: errors.New(string(o.Cause)), Hint: o.Hint}
		if o.Target >= 0 {
			t := m.targetOf(r, o.Target)
			if t == nil {
				continue
			}
			e.Target = t.Given
			lost[o.Target] = lost[o.Target] || o.Kind == shard.OutcomeLost
		}
		if e.Kind == event.Failed || e.Kind == event.Mismatch {
			e.Err = &failure.FileError{Path: e.Path, Target: e.Target, Stage: failure.Stage(o.Stage), Err: e.Err}
		}
		r.report(e)
	}
	return lost, nil
}

// eventKinds maps the kinds of recorded outcomes to those of the events that the merge reports.
var eventKinds = map[shard.OutcomeKind]event.Kind{
	shard.OutcomeFailed:   event.Failed,
	shard.OutcomeMismatch: event.Mismatch,
	shard.OutcomeConflict: event.Conflict,
	shard.OutcomeWarning:  event.Warning,
	shard.OutcomeLost:     event.DestinationLost,
}

// record reports whether an event is the first of its kind about its path and destination. Several
// tasks and the merge may work in one directory, and each of them reports the same events about it.
func (m *merging) record(_ *run, e event.Event) bool {
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	fmt.Fprintf(&h, "%d\x00%s\x00%s\x00%s", e.Kind, e.Path, e.Target, text)
	sum := h.Sum64()
	_, found := m.seen[sum]
	m.seen[sum] = struct{}{}
	return !found
}
