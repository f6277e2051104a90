package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// scanSource walks the source and adds its entries to the planner.
func (p *planning) scanSource() error {
	root, _, err := p.route.OpenSource()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	v := &planVisitor{planning: p, stop: cancel}
	o := p.walkOptions()
	o.Found, o.LeftOut = v.found, &p.planner.LeftOut
	walk.Walk(ctx, walk.NewRoot(p.newHandles().Root(root), p.sourceInfo, v), o)
	p.collector.await()
	if n := p.collector.summary.Reserved; n > 0 {
		p.report(event.Event{Kind: event.Warning, Path: p.collector.summary.ReservedAt[0], Err: fmt.Errorf("journals, markers and temporaries of unfinished copies are not copied; the source has %d", n)})
	}
	if ctx.Err() == nil {
		p.counters.ScanDone.Store(true)
	}
	return context.Cause(ctx)
}

// planVisitor is the visitor of the walk. The state of a directory says whether something in it belongs
// to the plan.
type planVisitor struct {
	*planning
	stop context.CancelCauseFunc // ends the walk with the first error of the planner
}

// Enter implements walk.Visitor.
func (v *planVisitor) Enter(d *walk.Dir) bool {
	d.State = &atomic.Bool{}
	return !v.isDestination(d)
}

// found adds an entry of the source, unless the merge decides about it.
func (v *planVisitor) found(d *walk.Dir, name string, _ walk.Place, info fsys.Info) {
	path := d.Join(name)
	if info.Kind == fsys.Regular {
		v.counters.TotalFiles.Add(1)
		counters.Grow(&v.counters.TotalBytes, info.Size)
		if v.late[path] {
			return
		}
	}
	d.State.(*atomic.Bool).Store(true)
	v.check(v.planner.Add(shard.Entry{Path: path, Kind: info.Kind, Size: info.Size}, info.ID, info.Nlink))
}

// Leave implements walk.Visitor. A directory that the filters do not name belongs to the plan if
// something in it does.
func (v *planVisitor) Leave(d *walk.Dir) {
	if d.Implied() && d.Parent != nil && !d.State.(*atomic.Bool).Load() {
		return
	}
	if d.Parent != nil {
		d.Parent.State.(*atomic.Bool).Store(true)
	}
	dir := shard.Directory{Path: d.Path()}
	if !d.Implied() {
		dir.Mtime, dir.Ctime = d.Info.Mtime, d.Info.Ctime
	}
	v.check(v.planner.AddDirectory(dir))
}

func (v *planVisitor) check(err error) {
	if err != nil {
		v.stop(err)
	}
}
