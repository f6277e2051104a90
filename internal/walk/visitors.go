package walk

import (
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Counter is a visitor that adds the regular files of a tree to the totals of Counters. Set
// Options.Found to its method Found. It skips entries that it cannot read, because the walk
// that does the work reports them.
type Counter struct {
	Counters *counters.Set
	Times    int64 // number of times that the run will read each byte
}

// Found adds an entry to the totals.
func (c Counter) Found(_ *Dir, _ string, _ Place, info fsys.Info) {
	if info.Kind == fsys.Regular {
		c.Counters.TotalFiles.Add(1)
		counters.Grow(&c.Counters.TotalBytes, counters.Times(c.Times, info.Size))
	}
}

// Enter implements Visitor.
func (c Counter) Enter(*Dir) bool { return true }

// Entry implements Visitor.
func (c Counter) Entry(*Dir, string, fsys.Kind) {}

// Leave implements Visitor.
func (c Counter) Leave(*Dir) {}

// Failed implements Visitor.
func (c Counter) Failed(*Dir, string, error) {}

// Entries is a visitor that calls a function for each entry, and skips what it cannot read.
type Entries func(d *Dir, name string, kind fsys.Kind)

// Enter implements Visitor.
func (f Entries) Enter(*Dir) bool { return true }

// Entry implements Visitor.
func (f Entries) Entry(d *Dir, name string, kind fsys.Kind) { f(d, name, kind) }

// Leave implements Visitor.
func (f Entries) Leave(*Dir) {}

// Failed implements Visitor.
func (f Entries) Failed(*Dir, string, error) {}
