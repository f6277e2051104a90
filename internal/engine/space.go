package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/units"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// measureSpace reads the free space of each destination before the first write. A dry run does not make
// the destination, so it reads that of the directory above.
func (all targets) measureSpace() {
	for _, t := range all {
		t.Space.Available = -1
		switch dir := t.Root; {
		case t.Dropped():
		case dir != nil:
			t.Space.Measure(dir)
		default:
			if dir, err := t.FS.OpenTrustedRoot(t.Anchor); err == nil {
				t.Space.Measure(dir)
				dir.Close()
			}
		}
	}
}

// checkSpace warns of each destination on which the copy may not fit. total is the number of
// bytes that the scan has counted in the source, including files that exist at the
// destination. If total does not fit, checkSpace scans a second time and compares the sizes of
// the files. It leaves out a destination that can share extents with the source. Files that
// change during the scan make the sum too small, not too large.
func (r *reporter) checkSpace(ctx context.Context, workers int, total int64) {
	var tight []*target
	var created []int64 // bytes of files that each had created when the second scan began
	for _, t := range r.targets {
		shares := t.Space.Device == r.sourceInfo.ID.Dev && r.opts.Reflink != ReflinkNever
		if !shares && !t.Dropped() && t.Space.Lacks(r.targets.needOn(t, total)) {
			tight, created = append(tight, t), append(created, t.Space.Created.Load())
		}
	}
	if len(tight) == 0 {
		return
	}
	dir, _, err := r.route.OpenSource()
	if err != nil {
		return // the copy reports it
	}
	finders := make([]*fsys.Finder, len(tight)) // nil for a new destination
	for i, t := range tight {
		if t.Root != nil && !t.Created {
			finders[i] = fsys.NewFinder(t.Root, fsys.FinderLimit())
			defer finders[i].Close()
		}
	}
	needed := make([]int64, len(tight))
	var mu sync.Mutex // goroutines of the scan call found at the same time
	found := func(d *walk.Dir, name string, _ walk.Place, info fsys.Info) {
		if info.Kind != fsys.Regular {
			return
		}
		size := info.Size
		if r.opts.Sparse != SparseNever {
			size = min(size, info.Blocks*512)
		}
		size /= int64(max(info.Nlink, 1)) // further links need no space
		mu.Lock()
		defer mu.Unlock()
		for i, t := range tight {
			path := d.Join(name)
			have := t.Earlier.Reached(path, info)
			if finders[i] != nil {
				if there, err := finders[i].Lstat(path); err == nil && there.Kind == fsys.Regular {
					have = max(have, there.Size)
				}
			}
			needed[i] += max(size-have, 0)
		}
	}
	r.scan(ctx, dir, workers, walk.Counter{}, found)
	if ctx.Err() != nil {
		return
	}
	for i, t := range tight {
		if !r.opts.DryRun { // a dry run creates no files, so the scan has counted all of them
			needed[i] += created[i]
		}
		t.Space.Needed.Store(needed[i])
	}
	r.targets.warnSpace(tight)
}

// warnSpace warns of some of the targets, if they have less space than they need.
func (all targets) warnSpace(some []*target) {
	for _, t := range some {
		if needed := all.needOn(t, -1); t.Space.Lacks(needed) && !t.Dropped() {
			t.Report(event.Event{Kind: event.Warning, Target: t.Given, Err: fmt.Errorf(
				"the copy may not fit: needs %s, %s available", units.Size(needed), units.Size(t.Space.Available))})
		}
	}
}

// needOn returns how many bytes the destinations on the device of t need together. Each needs
// total bytes, or, if total is negative, the result of its second scan.
func (all targets) needOn(t *target, total int64) (needed int64) {
	for _, other := range all {
		switch {
		case other.Space.Device != t.Space.Device || other.Dropped():
		case total >= 0:
			needed += total
		default:
			needed += other.Space.Needed.Load()
		}
	}
	return needed
}
