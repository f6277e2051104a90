package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// scanAfter is the time after which the scan begins. A shorter run walks the source once. The scan
// begins at once if a destination has less than littleSpace, which a fast copy could fill meanwhile.
const (
	scanAfter   = time.Second
	littleSpace = 16 << 30 // bytes
)

// startScan counts the files and bytes of the source in a separate walk, ahead of the walk that
// copies. It does so if the totals are wanted, or for a dry run, which warns if the copy does not fit.
// stop waits for that walk. Unless the run is a dry run, stop ends the walk first.
func (treeCopy) startScan(r *run) (stop func()) {
	c := r.counters
	if !c.CountTotals && !r.opts.DryRun {
		return func() {}
	}
	if r.route.Name != "" {
		if file, err := r.source.Lstat(r.route.Name); err == nil {
			c.TotalFiles.Store(1)
			c.TotalBytes.Store(file.Size)
			c.ScanDone.Store(true)
			for _, t := range r.targets {
				t.Space.Needed.Store(file.Size - t.Earlier.Reached(t.Name, file))
			}
			r.targets.warnSpace(r.targets)
		}
		return func() {}
	}
	dir, _, err := r.route.OpenSource()
	if err != nil {
		return func() {} // the walk that copies has the source open and needs no totals
	}
	c.Phase.Store(int32(counters.PhaseScanning))
	ctx, cancel := context.WithCancel(r.ctx)
	var scan sync.WaitGroup
	scan.Go(func() {
		if !r.opts.DryRun && !slices.ContainsFunc(r.targets, func(t *target) bool { return t.Space.Available < littleSpace }) {
			select {
			case <-time.After(r.opts.scanAfter):
			case <-ctx.Done():
				dir.Close()
				return
			}
		}
		counter := walk.Counter{Counters: c, Times: 1}
		r.scan(ctx, dir, 1, counter, counter.Found)
		if ctx.Err() == nil {
			c.ScanDone.Store(true)
			c.Phase.CompareAndSwap(int32(counters.PhaseScanning), int32(counters.PhaseCopying))
			r.checkSpace(ctx, 1, c.TotalBytes.Load())
		}
	})
	return func() {
		if !r.opts.DryRun {
			cancel()
		}
		scan.Wait()
		cancel()
	}
}

// scan walks the source, which it closes, with some goroutines. It visits what a copy visits, and no
// leftovers of unfinished copies. If found is not nil, it gets the entries instead of the visitor.
func (r *reporter) scan(ctx context.Context, dir *fsys.Dir, workers int, visitor walk.Visitor, found func(*walk.Dir, string, walk.Place, fsys.Info)) {
	root := walk.NewRoot(r.newHandles().Root(dir), r.sourceInfo, visitor)
	walk.Walk(ctx, root, walk.Options{
		Workers: workers, Filter: r.opts.Filter, Only: r.opts.Only, OneFileSystem: r.opts.OneFileSystem,
		SkipReserved: func(*walk.Dir, string) {}, Found: found,
	})
}
