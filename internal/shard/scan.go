package shard

import (
	"context"
	"errors"
	"io/fs"
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
	// Targets are the open directories of the destinations. Scan checks which directories of the
	// source are absent there. It does not close Targets.
	Targets []*fsys.Dir
	// Made has one element for each of Targets: true if this copy has made the destination.
	Made []bool
	// ReplaceLinks: the tasks replace a symbolic link that has the name of a directory, so that
	// directory is absent.
	ReplaceLinks bool
	// Enter, if set, reports whether a directory is listed. Calls may be concurrent.
	Enter func(d *walk.Dir) bool
	// Wanted, if set, reports whether an entry belongs to the plan. Calls may be concurrent.
	Wanted func(path string, info fsys.Info) bool
	// SkipReserved is called for each entry that no copy gets; see walk.Options.
	SkipReserved func(path string)
	// Failed is called with the path of each entry that cannot be read. The plan then lacks a part
	// of the source, so the caller should not write it. Calls may be concurrent.
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
	budget := max(fsys.OpenLimit()/4/(1+len(o.Targets)), 8)
	handles := fsys.NewHandles(budget)
	for _, target := range o.Targets {
		dir, err := target.OpenDir(".")
		if err != nil {
			root.Close()
			return err
		}
		handle := fsys.NewHandles(budget).Root(dir)
		defer handle.Close()
		s.targets = append(s.targets, handle)
	}
	walk.Walk(ctx, walk.NewRoot(handles.Root(root), info, s), walk.Options{
		Workers:       o.Workers,
		Filter:        o.Filter,
		Only:          o.Only,
		OneFileSystem: o.OneFileSystem,
		Found:         s.found,
		LeftOut:       &p.LeftOut,
		SkipReserved: func(d *walk.Dir, name string) {
			if o.SkipReserved != nil {
				o.SkipReserved(d.Join(name))
			}
		},
	})
	return context.Cause(ctx)
}

// scan is the visitor of Scan.
type scan struct {
	planner *Planner
	opts    ScanOptions
	stop    context.CancelCauseFunc // ends the walk with the first error of the planner
	targets []*fsys.Handle
}

// scanned is the state of a directory.
type scanned struct {
	used   atomic.Bool    // something in it belongs to the plan
	there  []*fsys.Handle // its counterparts at the destinations; nil where there is none
	absent []bool         // the tasks make it at a destination
}

// Enter implements walk.Visitor.
func (s *scan) Enter(d *walk.Dir) bool {
	n := len(s.targets)
	state := &scanned{there: make([]*fsys.Handle, n), absent: make([]bool, n)}
	d.State = state
	for i := range s.targets {
		if d.Parent == nil {
			state.there[i], state.absent[i] = s.targets[i], s.opts.Made[i]
			continue
		}
		up := d.Parent.State.(*scanned)
		state.there[i], state.absent[i] = s.counterpart(up.there[i], up.absent[i], d.Name)
	}
	return s.opts.Enter == nil || s.opts.Enter(d)
}

// counterpart opens the directory called name at a destination. absent is true if no entry has the
// name, or if the tasks replace the entry. If the entry is no directory or cannot be opened,
// counterpart returns nil and false. The tasks then report the problem.
func (s *scan) counterpart(up *fsys.Handle, upAbsent bool, name string) (there *fsys.Handle, absent bool) {
	if up == nil {
		return nil, upAbsent
	}
	parent, err := up.Acquire()
	if err != nil {
		return nil, false
	}
	defer up.Release()
	dir, err := parent.OpenDir(name)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist) || s.opts.ReplaceLinks && fsys.IsSymlinkRefusal(err)
	}
	info, err := dir.Stat()
	if err != nil {
		dir.Close()
		return nil, false
	}
	there = up.Child(name, dir, info.ID)
	there.Release()
	return there, false
}

// Entry implements walk.Visitor. The walk never calls it, because walk.Options.Found is set.
func (s *scan) Entry(*walk.Dir, string, fsys.Kind) {}

func (s *scan) found(d *walk.Dir, name string, _ walk.Place, info fsys.Info) {
	path := d.Join(name)
	if s.opts.Wanted != nil && !s.opts.Wanted(path, info) {
		return
	}
	d.State.(*scanned).used.Store(true)
	e := Entry{Path: path, Kind: info.Kind, Size: info.Size, Mtime: info.Mtime}
	s.check(s.planner.Add(e, info.ID, info.Nlink))
}

// Leave implements walk.Visitor.
func (s *scan) Leave(d *walk.Dir) {
	state := d.State.(*scanned)
	for _, there := range state.there {
		if there != nil && d.Parent != nil {
			there.Close()
		}
	}
	if d.Implied() && d.Parent != nil && !state.used.Load() {
		return
	}
	if d.Parent != nil {
		d.Parent.State.(*scanned).used.Store(true)
	}
	s.check(s.planner.AddDirectory(Directory{
		Path: d.Path(), ID: d.Info.ID, Mtime: d.Info.Mtime, Ctime: d.Info.Ctime, Implied: d.Implied(),
		Absent: NewAbsence(state.absent),
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
	if err != nil {
		s.stop(err)
	}
}
