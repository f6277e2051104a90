package engine

import (
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
)

// targets are the destinations of a run.
type targets []*target

// target is one destination of a run.
type target struct {
	*dest.Destination
	rootMeta     *metadata.Values // metadata of the source, when the root is ours and complete
	unmarked     bool             // true if the copy is incomplete without a marker: the journal stays
	finished     bool             // true if its manifests are written, and closeTarget can close it
	journalStays bool             // true if finished, and closeTarget keeps the journal

	records record.Books // records that the run writes about its files
	outer   *fsys.Dir    // the directory above the root that has the records; nil if that is the root
}

// conflict reports an entry that is left unchanged at one destination because of a conflict.
func (t *target) conflict(path string, c *policy.Conflict) {
	t.Report(event.Event{Kind: event.Conflict, Path: path, Target: t.Given, Err: c, Hint: c.Hint(), Next: c.Next})
}

// show publishes the destinations to the progress display, if there are several.
func (all targets) show(c *counters.Set) {
	if len(all) < 2 {
		return
	}
	var list []*counters.Destination
	for _, t := range all {
		t.Progress.Name, t.Progress.Device = t.Given, t.ID.Dev
		list = append(list, &t.Progress)
	}
	c.SetDestinations(list)
}
