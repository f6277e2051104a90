package shard

import (
	"context"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// ScanOptions choose what Scan adds to a plan.
type ScanOptions struct {
	walk.Options // Found and LeftOut are set by Scan
	// Enter reports whether a directory is listed. Calls may be concurrent.
	Enter func(d *walk.Dir) bool
	// Wanted reports whether an entry belongs to the plan. Calls may be concurrent.
	Wanted func(path string, info fsys.Info) bool
	// Unreadable is called with the path of each entry that cannot be read. The plan then lacks a part
	// of the source, so the caller should not write it. Calls may be concurrent.
	Unreadable func(path string, err error)
}

// Scan walks the source below root, which it takes over, and adds what it finds to the planner.
// The error is that of the planner, or of ctx.
func Scan(ctx context.Context, root *fsys.Dir, p *Planner, o ScanOptions) error {
	info, err := root.Stat()
	if err != nil {
		root.Close()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &scan{planner: p, opts: o, stop: cancel}
	o.Found, o.LeftOut = s.found, &p.LeftOut
	handles := fsys.NewHandles(max(fsys.OpenLimit()/4, 8))
	walk.Walk(ctx, walk.NewRoot(handles.Root(root), info, s), o.Options)
	return context.Cause(ctx)
}

// scan is the visitor of Scan. The state of a directory says whether something in it belongs to the
// plan.
type scan struct {
	planner *Planner
	opts    ScanOptions
	stop    context.CancelCauseFunc // ends the walk with the first error of the planner
}

// Enter implements walk.Visitor.
func (s *scan) Enter(d *walk.Dir) bool {
	d.State = &atomic.Bool{}
	return s.opts.Enter(d)
}

// Entry implements walk.Visitor. The walk never calls it, because walk.Options.Found is set.
func (s *scan) Entry(*walk.Dir, string, fsys.Kind) {}

func (s *scan) found(d *walk.Dir, name string, _ walk.Place, info fsys.Info) {
	path := d.Join(name)
	if s.opts.Wanted(path, info) {
		d.State.(*atomic.Bool).Store(true)
		s.check(s.planner.Add(Entry{Path: path, Kind: info.Kind, Size: info.Size}, info.ID, info.Nlink))
	}
}

// Leave implements walk.Visitor.
func (s *scan) Leave(d *walk.Dir) {
	if d.Implied() && d.Parent != nil && !d.State.(*atomic.Bool).Load() {
		return
	}
	if d.Parent != nil {
		d.Parent.State.(*atomic.Bool).Store(true)
	}
	dir := Directory{Path: d.Path()}
	if !d.Implied() {
		dir.Mtime, dir.Ctime = d.Info.Mtime, d.Info.Ctime
	}
	s.check(s.planner.AddDirectory(dir))
}

// Failed implements walk.Visitor.
func (s *scan) Failed(d *walk.Dir, name string, err error) {
	path := d.Path()
	if name != "" {
		path = d.Join(name)
	}
	s.opts.Unreadable(path, err)
}

func (s *scan) check(err error) {
	if err != nil {
		s.stop(err)
	}
}
