package engine

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// This file replays what the tasks have recorded, so that manifests, markers and the summary are
// those of one copy.

// nothingTouched says that no copy was interrupted.
type nothingTouched struct{}

// Touched implements catalog.Interrupted.
func (nothingTouched) Touched(string, fsys.Info) (hash.Digests, bool) { return nil, false }

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
	if err := m.replayOutcomes(r, status.Finished, counts); err != nil {
		return err
	}
	r.sync() // from here on, what belongs to the collector is used
	counts.addTo(r.summary)
	r.seen += counts.Total
	for i, t := range r.targets {
		at := m.targets[i]
		if at >= len(counts.Targets) {
			return fmt.Errorf("the outcomes of shard %d lack destination %d", index, at)
		}
		m.addTarget(t, &counts.Targets[at])
		if err := m.replayLines(r, status.Finished, t, counts.Targets[at].Lost); err != nil {
			return err
		}
	}
	return nil
}

// addTarget adds what a task has counted at a destination.
func (m *merging) addTarget(t *target, c *shardTargetCounts) {
	t.counts.plus(c.Counts)
	t.copied.plus(c.Copied)
	t.present += c.Present
	t.left += c.Left
	t.verified += c.Verified
	t.cached += c.Cached
	if t.backup != nil {
		t.backup.kept.Add(c.BackedUp)
	}
}

// replayLines replays the lines of a shard for one destination. If its task has dropped the
// destination, entries that failed have no outcome of their own.
func (m *merging) replayLines(r *run, f *shard.Finished, t *target, lost bool) error {
	lines, err := m.store.OpenLines(f, m.targets[t.index])
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
		if lost && l.Failed {
			r.undone[t.index].Add(l.Path, "not copied: the destination was dropped")
		}
		if t.catalog == nil {
			continue
		}
		if l.Below {
			t.catalog.DropBelow(l.Path)
			continue
		}
		t.catalog.Record(catalog.Outcome{
			Path: l.Path, Digests: l.Digests, Size: l.Size, Mtime: l.Mtime,
			Created: l.Created, Replaced: l.Replaced, Failed: l.Failed, Resumed: l.Resumed,
		})
		if l.Dropped {
			t.catalog.Drop(l.Path)
		}
	}
	return nil
}

// replayOutcomes reads the counts of a shard, and reports its outcomes as the task has.
func (m *merging) replayOutcomes(r *run, f *shard.Finished, counts *shardCounts) error {
	outcomes, err := m.store.OpenOutcomes(f, counts)
	if err != nil {
		return err
	}
	defer outcomes.Close()
	for r.ctx.Err() == nil {
		o, err := outcomes.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("outcomes of shard %d: %w", f.Shard, err)
		}
		e := Event{Kind: eventKinds[o.Kind], Path: string(o.Path), Err: errors.New(string(o.Cause)), Hint: o.Hint}
		if o.Target >= 0 {
			t := m.targetOf(r, o.Target)
			if t == nil {
				continue
			}
			e.Target = t.Given
		}
		if e.Kind == EventFailed || e.Kind == EventMismatch {
			e.Err = &failure.FileError{Path: e.Path, Target: e.Target, Stage: failure.Stage(o.Stage), Err: e.Err}
		}
		r.report(e)
	}
	return nil
}

// eventKinds are the events of which outcomes are records.
var eventKinds = map[shard.OutcomeKind]EventKind{
	shard.OutcomeFailed:   EventFailed,
	shard.OutcomeMismatch: EventMismatch,
	shard.OutcomeConflict: EventConflict,
	shard.OutcomeWarning:  EventWarning,
	shard.OutcomeLost:     EventTargetLost,
}

// isNew reports whether an event is the first of its kind about its path and destination. Tasks
// report the same about a directory in which several of them work, and the merge does again.
func (m *merging) isNew(e Event) bool {
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	fmt.Fprintf(&h, "%d\x00%s\x00%s\x00%s", e.Kind, e.Path, e.Target, text)
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := h.Sum64()
	if _, found := m.mu.seen[sum]; found {
		return false
	}
	m.mu.seen[sum] = struct{}{}
	return true
}
