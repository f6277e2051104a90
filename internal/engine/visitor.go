package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// A run is the visitor of the walk. Enter begins and Leave completes a directory at all
// destinations. Entry sends any other entry to a worker.
var _ walk.Visitor = (*run)(nil)

// Enter implements walk.Visitor.
func (r *run) Enter(d *walk.Dir) bool {
	d.State = newDestDirs(&r.placer, d)
	return r.mode.enter(r, d)
}

// enter skips a directory that a recorder copies. It also skips a
// directory that is a destination of this copy, and reports it.
func (treeCopy) enter(r *run, d *walk.Dir) bool {
	if d.Parent != nil {
		r.found.Store(true)
	}
	if r.holds(d) || r.isDestination(d) {
		for _, dd := range d.State.(destDirs) {
			dd.state = destRefused
		}
		return false
	}
	if d.Parent != nil && r.unlists(d) {
		for _, dd := range d.State.(destDirs) {
			dd.unlisted = true
		}
	}
	return true
}

// isDestination reports whether a directory of the source is the root of a destination, and then
// reports that it is not copied. The root of the source is none: route has refused that.
func (r *run) isDestination(d *walk.Dir) bool {
	if d.Parent == nil {
		return false
	}
	for _, t := range r.targets {
		if t.Root != nil && t.ID == d.Info.ID {
			r.reportSource(d.Path(), failure.StageScan, errReached)
			return true
		}
	}
	return false
}

var errReached = errors.New("it is a destination of this copy, reached through the source")

// Entry implements walk.Visitor.
func (r *run) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	if !r.found.Load() {
		r.found.Store(true)
	}
	if r.isLast(d, name) {
		return
	}
	r.send(job{Dir: d, Name: name, Kind: kind})
}

// send holds the directory of a job and passes the job to a worker.
func (r *run) send(j job) {
	j.Dir.Hold()
	select {
	case r.jobs <- j:
	case <-r.ctx.Done():
		j.Dir.Done()
	}
}

// Failed implements walk.Visitor.
func (r *run) Failed(d *walk.Dir, name string, err error) {
	p := d.Path()
	if name != "" {
		p = d.Join(name)
	}
	if fsys.IsSymlinkRefusal(err) {
		err = errExchanged
	}
	if r.rules.planned && errors.Is(err, fs.ErrNotExist) {
		err = failure.ErrVanished
	}
	r.reportSource(p, failure.StageScan, err)
}

// reportUnfinished reports each sign that the source is an unfinished copy. The copy of that source is
// not complete either.
func (r *run) reportUnfinished() {
	if r.route.Name != "" || !r.rules.completes {
		return
	}
	signs, _ := incomplete.Find(r.source) // the walk reports a source that cannot be listed
	for _, s := range signs {
		r.report(event.OfFile(event.Mismatch, s.Name, "", failure.StageCheck, fmt.Errorf("the source is not complete: %w", s.Err)))
	}
}

// skipReserved counts an entry of the source that no copy gets.
func (r *run) skipReserved(path string) { r.collector.addReserved(path) }

// Leave implements walk.Visitor.
func (r *run) Leave(d *walk.Dir) { r.mode.leave(r, d) }

// leave completes a directory at all destinations. The walk calls it when all entries in the
// directory are done, so nothing changes the directory's metadata afterwards.
func (treeCopy) leave(r *run, d *walk.Dir) {
	dirs := d.State.(destDirs)
	isEmpty := !slices.ContainsFunc(dirs, func(dd *destDir) bool { return !dd.untried() })
	if isEmpty && d.Parent != nil && !d.Implied() && r.ctx.Err() == nil {
		r.collector.do(func() { r.addEmpty(d.Path()) })
	}
	meta := &metadata.Values{Info: d.Info}
	var metaErr error
	loaded := false
	for _, dd := range dirs {
		if dd.untried() && (d.Implied() && !(d.Parent == nil && dd.target.RootOurs) || r.ctx.Err() != nil) {
			continue
		}
		dir, ok := dd.acquire(&r.placer)
		if dir == nil || !ok {
			dd.close()
			continue
		}
		dd.target.SyncList.AddDir(d.Path())
		if !loaded && r.ctx.Err() == nil {
			loaded = true
			metaErr = r.dirXattrs(d, meta)
			if metaErr != nil {
				r.reportSource(d.Path(), failure.StageMetadata, metaErr)
			}
		}
		if err := r.leaveDest(dd, dir, meta, metaErr == nil); err != nil {
			dd.target.Fail(d.Path(), failure.StageMetadata, err)
		}
		dd.syncLeft(r, dir)
		dd.release(dir)
		dd.close()
	}
	r.sendDirResult(d)
}

// syncLeft syncs a complete directory if directories on its file system are synced separately. The
// root is synced when the destination is flushed.
func (dd *destDir) syncLeft(r *run, dir *fsys.Dir) {
	if dd.parent == nil || !dd.system.SyncEach || r.ctx.Err() != nil {
		return
	}
	t := dd.target
	if err := t.FileSystems.SyncOne(dir); err != nil {
		t.DropUnflushed(dd.src.Path(), err)
		return
	}
	r.collector.do(func() { t.Log.SyncedNames(dd.src.Path()) }) // the results of all its entries were sent before
}

// sendDirResult sends a result to the collector. It has the destinations at which the directory was
// created or replaced a link, or its metadata was updated.
func (r *completer) sendDirResult(d *walk.Dir) {
	if d.Parent == nil {
		return
	}
	f := &result{path: d.Path(), kind: fsys.Directory}
	for _, dd := range d.State.(destDirs) {
		switch {
		case dd.wasMade() && dd.replaced:
			f.targets = append(f.targets, targetResult{target: dd.target, done: outReplaced, reason: "was a " + fsys.Symlink.String()})
		case dd.wasMade():
			f.targets = append(f.targets, targetResult{target: dd.target, done: outCreated})
		case dd.refreshed != "":
			f.targets = append(f.targets, targetResult{target: dd.target, done: outRefreshed, reason: dd.refreshed})
		}
	}
	r.collector.addDir(f)
}

// wasMade reports whether this run created the directory, or would in a real run.
func (dd *destDir) wasMade() bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.fresh && (dd.state == destReady || dd.state == destAbsent)
}

// dirXattrs reads the extended attributes of a directory of the source into m.
func (r *completer) dirXattrs(d *walk.Dir, m *metadata.Values) error {
	if !r.metadata.MayHave(d.Info.ID.Dev) {
		return nil
	}
	src, err := d.Acquire()
	if err != nil {
		return err
	}
	defer d.Release()
	return r.metadata.Read(&src.Object, d.Path(), m)
}

// leaveDest sets the metadata of the directory at one destination. known is true if meta is
// complete. The metadata of the destination's root is set only if this run, or an interrupted
// one that it continues, created the root; that happens at the end of the run.
func (r *completer) leaveDest(dd *destDir, dir *fsys.Dir, meta *metadata.Values, known bool) error {
	running := r.ctx.Err() == nil
	if running && !r.opts.DryRun {
		if err := dd.target.Earlier.RemoveLeftovers(dir, dd.src.Path()); err != nil {
			return err
		}
	}
	known = known && running
	if dd.parent == nil && dd.target.RootOurs && known {
		dd.target.rootMeta = meta // set after the manifest is written and the journal is removed
		return nil
	}
	gets := known && (dd.fresh || dd.parent != nil && r.opts.Policy != policy.Never) // true if it gets the source's metadata
	before := dd.info                                                                // the directory as the user left it
	if dd.tookOver {
		before.Mode = dd.originalMode
	}
	if r.rules.planned { // the tasks have changed the mtime
		before.Mtime = meta.Info.Mtime
	}
	switch {
	case r.opts.DryRun && gets && !dd.fresh:
		outdated, err := dd.system.Outdated(&dir.Object, meta, before)
		if outdated {
			dd.refreshed = dd.system.OutdatedKinds(meta.Info, before)
		}
		return err
	case r.opts.DryRun:
	case gets:
		return r.applyToDir(dd, dir, meta, before)
	case dd.tookOver:
		return dir.Chmod(dd.originalMode)
	}
	return nil
}

// applyToDir gives the directory the source's metadata. before describes it before the run. If it
// existed, refreshed gets what the run has updated. The mtime and mode that the run itself has
// changed, by its work in the directory, do not count.
func (r *completer) applyToDir(dd *destDir, dir *fsys.Dir, meta *metadata.Values, before fsys.Info) (err error) {
	have := dd.info
	if !dd.empty {
		if have, err = dir.Stat(); err != nil {
			return err
		}
	}
	if dd.tookOver { // taking over has also changed the ACL of a directory
		if err := dir.Chmod(dd.originalMode); err != nil {
			return err
		}
		have.Mode = dd.originalMode
	}
	outdated := false
	disturbed := have.Mtime != before.Mtime || have.Mode != before.Mode // this run has changed entries of the directory
	if !dd.fresh && disturbed {
		if outdated, err = dd.system.Outdated(&dir.Object, meta, before); err != nil {
			return err
		}
	}
	changed, err := dd.system.Apply(&dir.Object, meta, have, dd.fresh, !dd.empty)
	if err != nil {
		return err
	}
	if !dd.fresh && (outdated || changed && !disturbed) {
		dd.refreshed = dd.system.OutdatedKinds(meta.Info, before)
	}
	return nil
}

// untried reports whether nothing has needed the directory at the destination so far.
func (dd *destDir) untried() bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.state == destUntried
}

// close closes the directory's descriptor, except that of the root, which is needed until the
// end.
func (dd *destDir) close() {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if dd.handle != nil && dd.parent != nil {
		dd.handle.Close()
	}
	dd.existing = nil
}
