package engine

import (
	"context"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/tally"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// startScan counts what there is to do in a walk of its own, ahead of the one
// that copies, if anybody wants to know. stop ends it and waits for it.
func (r *run) startScan() (stop func()) {
	c := r.counters
	c.Phase.Store(int32(tally.PhaseCopying))
	if !c.CountTotals {
		return func() {}
	}
	if r.route.name != "" {
		if file, err := r.source.Lstat(r.route.name); err == nil {
			c.TotalFiles.Store(1)
			c.TotalBytes.Store(file.Size)
			c.ScanDone.Store(true)
		}
		return func() {}
	}
	dir, err := fsys.OpenRoot(r.route.dir)
	if err != nil {
		return func() {} // the copy will report it
	}
	c.Phase.Store(int32(tally.PhaseScanning))
	ctx, cancel := context.WithCancel(r.ctx)
	var scan sync.WaitGroup
	scan.Go(func() {
		root := walk.NewRoot(r.newHandles().Root(dir), r.sourceInfo, scanner{c})
		walk.Walk(ctx, root, walk.Options{
			Workers: 1, Filter: r.opts.Filter, Only: r.opts.Only, OneFileSystem: r.opts.OneFileSystem,
			SkipReserved: func(*walk.Dir, string) {},
		})
		if ctx.Err() == nil {
			c.ScanDone.Store(true)
			c.Phase.CompareAndSwap(int32(tally.PhaseScanning), int32(tally.PhaseCopying))
		}
	})
	return func() {
		cancel()
		scan.Wait()
	}
}

// scanner adds up regular files. What it cannot see, the copy reports.
type scanner struct{ c *tally.Counters }

func (s scanner) Enter(*walk.Dir) bool { return true }
func (s scanner) Leave(*walk.Dir)      {}

func (s scanner) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	if kind != fsys.Regular {
		return
	}
	dir, err := d.Acquire()
	if err != nil {
		return
	}
	defer d.Release()
	if info, err := dir.Lstat(name); err == nil {
		s.c.TotalFiles.Add(1)
		s.c.TotalBytes.Add(info.Size)
	}
}

func (s scanner) Failed(*walk.Dir, string, error) {}
