package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// This file replays the parts of the shards in a merge.

// replay replays what the tasks have recorded, so that manifests, markers and the summary are those
// of one copy. The catalogs sort the lines.
func (m *merging) replay(r *run) {
	m.times.at = make([]targetTimes, len(r.targets))
	for _, finished := range m.records {
		if r.ctx.Err() != nil {
			return
		}
		if err := m.replayShard(r, finished); err != nil {
			m.failPlan(r, err)
			return
		}
	}
	r.collector.await()
	m.times.store(r.collector)
}

func (m *merging) replayShard(r *run, f *shard.Finished) error {
	counts := &ShardResult{}
	if err := json.Unmarshal(f.Counts, counts); err != nil {
		return fmt.Errorf("record of shard %d: %w", f.Shard, err)
	}
	if m.first.IsZero() || counts.Begun.Before(m.first) {
		m.first = counts.Begun
	}
	if counts.Ended().After(m.last) {
		m.last = counts.Ended()
	}
	r.collector.await() // no other goroutine sends messages, so this one may use the collector's data
	counts.addTo(r)
	m.times.add(counts)
	lost := make([]bool, len(r.targets))
	err := m.store.Part(f, shard.PartReader{
		Outcome: func(o *shard.Outcome) error {
			e := r.eventOf(o)
			if e.Kind == event.DestinationLost && o.Target >= 0 {
				lost[o.Target] = true
			}
			r.report(e)
			return r.ctx.Err()
		},
		Line: func(target int, o *record.Outcome) error {
			r.targets[target].records.Account(*o)
			return r.ctx.Err()
		},
	})
	if err != nil || !slices.Contains(lost, true) {
		return err
	}
	r.collector.await()
	return m.addLost(r, f.Shard, lost)
}

// addLost records that all entries of a shard may be missing at destinations that its task has
// dropped.
func (m *merging) addLost(r *run, index int, lost []bool) error {
	list, err := m.store.OpenList(index)
	if err != nil {
		return err
	}
	defer list.Close()
	for r.ctx.Err() == nil {
		e, err := list.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range lost {
			if lost[i] && e.Kind != fsys.Directory && !e.Missing {
				r.collector.undone[i].Add(e.Path, "not copied: the destination was dropped")
			}
		}
	}
	return nil
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
