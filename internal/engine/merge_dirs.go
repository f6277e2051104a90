package engine

import (
	"errors"
	"io"
	"path"
	"slices"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file is the walk of a merge: it visits the directories of the plan, so that they are
// completed, and the files that have names of manifests.

// feed visits the directories below root.
func (m *merging) feed(r *run, root *walk.Dir) {
	dirs, err := m.store.OpenDirs()
	if err != nil {
		m.failPlan(r, err)
		r.Enter(root)
		root.Done()
		return
	}
	defer dirs.Close()
	if _, err := dirs.Next(); err != nil { // the root
		m.failPlan(r, err)
	}
	root.Note = m.root
	s := &mergeSteps{merging: m, dirs: dirs, late: m.lateIn("")}
	if err := walk.Feed(r.ctx, root, s.next); err != nil {
		m.failPlan(r, err)
	}
}

// mergeSteps are the steps of a merge: each directory of the plan, and then its late files.
type mergeSteps struct {
	*merging
	dirs *shard.DirReader
	dir  string   // the current one
	late []string // names in it
}

func (s *mergeSteps) next() (walk.Step, error) {
	if len(s.late) > 0 {
		name := s.late[0]
		s.late = s.late[1:]
		return walk.Step{Dir: s.dir, Name: name, Kind: fsys.Regular}, nil
	}
	d, err := s.dirs.Next()
	if err != nil {
		return walk.Step{}, err
	}
	s.dir, s.late = d.Path, s.lateIn(d.Path)
	return walk.Step{Dir: d.Path, Note: d}, nil
}

// lateIn returns the names of the late files in a directory.
func (m *merging) lateIn(dir string) (names []string) {
	for _, file := range m.store.Plan.Late {
		if parent := path.Dir(string(file)); parent == dir || parent == "." && dir == "" {
			names = append(names, path.Base(string(file)))
		}
	}
	return names
}

// plannedDir returns what the plan says of a directory. It is nil for a directory that the plan
// does not contain: the walk enters it only to reach another.
func plannedDir(d *walk.Dir) *shard.Directory {
	p, _ := d.Note.(*shard.Directory)
	return p
}

// enter passes the directory to a worker, which completes it.
func (m *merging) enter(r *run, d *walk.Dir) bool {
	if p := plannedDir(d); p != nil && (p.Mtime != d.Info.Mtime || p.Ctime != d.Info.Ctime) {
		if err := m.listAgain(r, d, p); err != nil {
			r.reportSource(d.Path(), failure.StageScan, err)
		}
	}
	if d.Parent != nil {
		r.send(job{Dir: d, Kind: fsys.Directory})
	}
	return true
}

// listAgain lists a directory that has changed since the plan.
func (m *merging) listAgain(r *run, d *walk.Dir, p *shard.Directory) error {
	if p.Implied && m.store.Plan.Options.FilesFrom != "" {
		return nil // the directory is listed only for entries that --files-from names
	}
	dir, err := d.Acquire()
	if err != nil {
		return err
	}
	defer d.Release()
	listing, err := dir.List()
	if err != nil {
		return err
	}
	verdict := r.verdictOn(d.Path())
	for i := range listing.Len() {
		name := listing.Name(i)
		kind := listing.Kind(i)
		if kind == fsys.Unknown {
			info, err := dir.Lstat(name)
			if err != nil {
				continue // removed since the listing; for a planned entry, the task has reported that
			}
			kind = info.Kind
		}
		if incomplete.IsReserved(name, d.Parent == nil, kind) {
			continue
		}
		file := d.Join(name)
		if r.opts.Filter.Match(file, kind == fsys.Directory, verdict).LeftOut() {
			continue
		}
		if err := m.drift.Listed(file, kind == fsys.Directory); err != nil {
			return err
		}
	}
	return nil
}

// verdictOn returns the verdict of the filters on a directory.
func (r *run) verdictOn(dir string) filter.Verdict {
	if dir == "" {
		return r.opts.Filter.Root()
	}
	return r.opts.Filter.MatchAll(dir, true)
}

// findAbsent reports what the source has or lacks, compared with the plan and its own manifests.
func (m *merging) findAbsent(r *run) {
	if r.ctx.Err() != nil {
		return
	}
	finder := fsys.NewFinder(r.source, fsys.FinderLimit())
	defer finder.Close()
	err := m.drift.Each(r.ctx, func(file string) error {
		wanted, err := m.isWanted(r, finder, file)
		if err != nil {
			r.reportSource(file, failure.StageScan, err)
		} else if wanted {
			r.report(event.OfFile(event.Failed, file, "", failure.StageScan, errNewer))
		}
		return nil
	})
	if err != nil {
		m.failPlan(r, err)
	}
	if err := m.reportMissing(r); err != nil {
		m.failPlan(r, err)
	}
}

var errNewer = errors.New("it came into the source after the plan was made, and was not copied; end this plan with merge --abandon and plan again")

// isWanted reports whether a name that the plan lacks belongs to the copy. A directory that the
// filters do not include belongs to it if they include an entry below.
func (m *merging) isWanted(r *run, finder *fsys.Finder, file string) (bool, error) {
	info, err := finder.Lstat(file)
	if fsys.NoSuchFile(err) {
		return false, nil
	}
	if err != nil || info.Kind != fsys.Directory || r.verdictOn(file).Selected {
		return err == nil, err
	}
	parent, name, err := finder.Parent(file)
	if err != nil {
		return false, err
	}
	dir, err := parent.OpenDir(name)
	if err != nil {
		return false, err
	}
	v := &searching{run: r, prefix: file}
	root := walk.NewRoot(r.newHandles().Root(dir), info, v) // the walk closes dir
	walk.Walk(r.ctx, root, walk.Options{Workers: 1})
	return v.found, nil
}

// searching is the visitor of a walk below a directory that finds out whether the filters want
// anything there.
type searching struct {
	run    *run
	prefix string
	found  bool
}

func (s *searching) path(d *walk.Dir) string {
	if p := d.Path(); p != "" {
		return s.prefix + "/" + p
	}
	return s.prefix
}

func (s *searching) Enter(d *walk.Dir) bool {
	v := s.run.verdictOn(s.path(d))
	s.found = s.found || v.Selected
	return v.Searched && !s.found
}

func (s *searching) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	if !incomplete.IsReserved(name, false, kind) && s.run.opts.Filter.MatchAll(s.path(d)+"/"+name, false).Selected {
		s.found = true
	}
}

func (s *searching) Leave(*walk.Dir)                 {}
func (s *searching) Failed(*walk.Dir, string, error) {}

// reportMissing reports the paths that manifests of the source list and the source lacks.
func (m *merging) reportMissing(r *run) error {
	missing, err := m.store.OpenMissing()
	if err != nil {
		return err
	}
	defer missing.Close()
	absent := absentFiles{run: r}
	defer absent.warn()
	for r.ctx.Err() == nil {
		x, err := missing.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		absent.add(string(m.store.Plan.Lists[x.List].Name), x.Path, false)
	}
	return nil
}

// rootOf reads the root of the source from a plan.
func rootOf(s *shard.Store) (*shard.Directory, error) {
	dirs, err := s.OpenDirs()
	if err != nil {
		return nil, err
	}
	defer dirs.Close()
	root, err := dirs.Next()
	if errors.Is(err, io.EOF) || err == nil && root.Path != "" {
		err = errors.New("directories of the plan: the root is not the first")
	}
	return root, err
}

// targetOf returns the destination of the run that has an index in the plan, nil if that was
// completed before.
func (m *merging) targetOf(r *run, index int) *target {
	if i := slices.Index(m.targets, index); i >= 0 {
		return r.targets[i]
	}
	return nil
}
