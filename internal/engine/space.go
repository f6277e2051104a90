package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/units"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// space is the free space of a destination when the copy began, and the space that the copy
// needs.
type space struct {
	device    uint64 // on which the free space is
	available int64  // bytes, -1 if unknown
	created   int64  // bytes of files that this run had created when the second scan began
	// bytes that the copy needs, from the second scan; 0 before that is complete
	needed atomic.Int64
}

// measureSpace reads the free space of each destination before the first write.
func (r *run) measureSpace() {
	for _, t := range r.targets {
		t.space.available = -1
		if !t.isDropped() {
			t.measureSpace()
		}
	}
}

// measureSpace reads the free space. A dry run does not make the destination, so it reads that of the
// directory above.
func (t *target) measureSpace() {
	dir := t.root
	if dir == nil {
		var err error
		if dir, err = t.FS.OpenTrustedRoot(t.Anchor); err != nil {
			return
		}
		defer dir.Close()
	}
	if info, err := dir.Stat(); err == nil {
		t.space.device, t.space.available = info.ID.Dev, dir.Available()
	}
}

// checkSpace warns of each destination on which the copy may not fit. total is the number of
// bytes that the scan has counted in the source, including files that exist at the
// destination. If total does not fit, checkSpace scans a second time and compares the sizes of
// the files. It leaves out a destination that can share extents with the source. Files that
// change during the scan make the sum too small, not too large.
func (r *run) checkSpace(ctx context.Context, workers int, total int64) {
	var tight []*target
	for _, t := range r.targets {
		shares := t.space.device == r.sourceInfo.ID.Dev && r.opts.Reflink != ReflinkNever
		if a := t.space.available; a >= 0 && !shares && !t.isDropped() && r.needOn(t, total) > a {
			t.space.created = t.createdBytes.Load()
			tight = append(tight, t)
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
		if t.root != nil && !t.created {
			finders[i] = fsys.NewFinder(t.root, fsys.FinderLimit())
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
			have := t.log.Reached(path, info)
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
			needed[i] += t.space.created
		}
		t.space.needed.Store(needed[i])
	}
	r.warnSpace(tight)
}

// warnSpace warns of those targets that have less space than they need.
func (r *run) warnSpace(targets []*target) {
	for _, t := range targets {
		if needed := r.needOn(t, -1); t.space.available >= 0 && needed > t.space.available && !t.isDropped() {
			r.report(event.Event{Kind: event.Warning, Target: t.Given, Err: fmt.Errorf(
				"the copy may not fit: needs %s, %s available", units.Size(needed), units.Size(t.space.available))})
		}
	}
}

// needOn returns how many bytes the destinations on the device of t need together. Each needs
// total bytes, or, if total is negative, the result of its second scan.
func (r *run) needOn(t *target, total int64) (needed int64) {
	for _, other := range r.targets {
		switch {
		case other.space.device != t.space.device || other.isDropped():
		case total >= 0:
			needed += total
		default:
			needed += other.space.needed.Load()
		}
	}
	return needed
}

// withSpace adds the free space to the error of a full device and, if a scan has counted it,
// the space that the rest of the copy needs. If the destination's directory existed before,
// only the second scan knows the files in it. The rest of the copy includes the file that did
// not fit, so the space of its written part counts as free. If the path is on a file system that is
// mounted in the destination, or if the file system has no inode left, withSpace adds only that.
func (t *target) withSpace(path string, err error) error {
	if !fsys.DeviceFull(err) || t.root == nil || t.space.available < 0 {
		return err
	}
	find := fsys.NewFinder(t.root, fsys.FinderLimit())
	defer find.Close()
	dir, _, findErr := find.Parent(path)
	if findErr != nil {
		dir = t.root // the path is that of a bag's payload, or its directory was not made
	}
	now := dir.Available()
	if dir.LacksInodes() {
		return fmt.Errorf("%w (no inodes free, %s free)", err, units.Size(now))
	}
	if info, statErr := dir.Stat(); statErr == nil && info.ID.Dev != t.id.Dev {
		return fmt.Errorf("%w (%s free there)", err, units.Size(now))
	}
	free := max(t.space.available-t.createdBytes.Load(), now)
	needed := t.totals.TotalBytes.Load() - t.presentBytes.Load()
	if !t.created {
		needed = t.space.needed.Load() - t.createdBytes.Load()
	}
	if !t.totals.ScanDone.Load() || needed <= 0 {
		return fmt.Errorf("%w (%s free)", err, units.Size(now))
	}
	if needed <= free {
		free = now
	}
	return fmt.Errorf("%w (needs %s, %s free)", err, units.Size(needed), units.Size(free))
}
