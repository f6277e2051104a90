package shard

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// ScanOptions choose what Scan adds to a plan.
type ScanOptions struct {
	Workers       int
	Filter        *filter.List
	Only          *filter.Only
	OneFileSystem bool
	// Wanted, if set, reports whether an entry belongs to the plan. It is called concurrently.
	Wanted func(path string, info fsys.Info) bool
	// SkipReserved is called for each name that Sealift made for itself; such names are skipped.
	SkipReserved func(path string)
	// Failed is called for what cannot be read, with the path. A plan that lacks it is not a
	// plan of the source, so the caller should not write it. It is called concurrently.
	Failed func(path string, err error)
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
	handles := fsys.NewHandles(max(fsys.OpenLimit()/4, 8))
	walk.Walk(ctx, walk.NewRoot(handles.Root(root), info, s), walk.Options{
		Workers:       o.Workers,
		Filter:        o.Filter,
		Only:          o.Only,
		OneFileSystem: o.OneFileSystem,
		Found:         s.found,
		SkipReserved: func(d *walk.Dir, name string) {
			if o.SkipReserved != nil {
				o.SkipReserved(d.Join(name))
			}
		},
	})
	s.failed.Lock()
	defer s.failed.Unlock()
	if s.failed.err != nil {
		return s.failed.err
	}
	return context.Cause(ctx)
}

// scan is the visitor of Scan.
type scan struct {
	planner *Planner
	opts    ScanOptions
	stop    context.CancelCauseFunc
	failed  struct {
		sync.Mutex
		err error // of the planner
	}
}

// used is the state of a directory: whether something in it belongs to the plan.
type used struct{ atomic.Bool }

// Enter implements walk.Visitor.
func (s *scan) Enter(d *walk.Dir) bool {
	d.State = &used{}
	return true
}

// Entry implements walk.Visitor. It is not called, because the walk has Found.
func (s *scan) Entry(*walk.Dir, string, fsys.Kind) {}

func (s *scan) found(d *walk.Dir, name string, _ walk.Place, info fsys.Info) {
	path := d.Join(name)
	if s.opts.Wanted != nil && !s.opts.Wanted(path, info) {
		return
	}
	d.State.(*used).Store(true)
	e := Entry{Path: path, Kind: info.Kind, Size: info.Size, Mtime: info.Mtime}
	s.check(s.planner.Add(e, info.ID, info.Nlink))
}

// Leave implements walk.Visitor.
func (s *scan) Leave(d *walk.Dir) {
	if d.Implied() && d.Parent != nil && !d.State.(*used).Load() {
		return
	}
	if d.Parent != nil {
		d.Parent.State.(*used).Store(true)
	}
	s.check(s.planner.AddDirectory(Directory{
		Path: d.Path(), ID: d.Info.ID, Mtime: d.Info.Mtime, Ctime: d.Info.Ctime, Implied: d.Implied(),
	}))
}

// Failed implements walk.Visitor.
func (s *scan) Failed(d *walk.Dir, name string, err error) {
	if s.opts.Failed == nil {
		return
	}
	path := d.Path()
	if name != "" {
		path = d.Join(name)
	}
	s.opts.Failed(path, err)
}

func (s *scan) check(err error) {
	if err == nil {
		return
	}
	s.failed.Lock()
	defer s.failed.Unlock()
	if s.failed.err == nil {
		s.failed.err = err
		s.stop(err)
	}
}
