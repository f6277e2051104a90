package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// findUnlisted reports the files of a tree that no manifest lists, in order.
func (r *run) findUnlisted(ctx context.Context, t *tree) {
	r.walk(ctx, t, &unlistedVisitor{r, t}, walk.Options{Filter: r.opts.Filter, Only: r.opts.Only})
}

// walk visits a tree in order, from one goroutine. It reports a tree that cannot be opened, and
// returns false.
func (r *run) walk(ctx context.Context, t *tree, v walk.Visitor, o walk.Options) bool {
	root, err := r.opts.FS.OpenRoot(t.given) // the walk closes it
	if err != nil {
		r.addTo(t, Failure, "", scanError(err))
		return false
	}
	info, err := root.Stat()
	if err == nil && info.ID != t.info.ID {
		err = fsys.ErrMoved
	}
	if err != nil {
		root.Close()
		r.addTo(t, Failure, "", scanError(err))
		return false
	}
	o.Workers = 1
	walk.Walk(ctx, walk.NewRoot(fsys.NewHandles(jobs.Directories(1)).Root(root), info, v), o)
	return true
}

func scanError(err error) error { return fmt.Errorf("%s: %w", failure.StageScan, err) }

// unlistedVisitor visits a tree. One goroutine calls it.
type unlistedVisitor struct {
	run  *run
	tree *tree
}

func (v *unlistedVisitor) Enter(d *walk.Dir) bool {
	if d.Parent == nil {
		return true
	}
	return !incomplete.IsReserved(d.Name, d.Parent.Parent == nil, fsys.Directory) && !(d.Name == mhl.Folder && mhl.HoldsHistory(d.Parent)) && !v.tree.hides(d.Path(), true)
}

func (v *unlistedVisitor) Leave(*walk.Dir) {}

func (v *unlistedVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	path := d.Join(name)
	if v.tree.bag != nil && bag.InPayload(path) { // checkBag reports it
		return
	}
	if kind != fsys.Regular || incomplete.IsReserved(name, d.Parent == nil, kind) || v.tree.listed.Has(path) || v.tree.hides(path, false) {
		return
	}
	switch isManifest, err := v.isManifest(d, name); {
	case err != nil:
		v.run.addTo(v.tree, Failure, path, scanError(err))
	case !isManifest:
		v.run.addTo(v.tree, Unlisted, path, nil)
	}
}

// isManifest reports whether the file is one of the manifests that verify has opened.
func (v *unlistedVisitor) isManifest(d *walk.Dir, name string) (bool, error) {
	dir, err := d.Acquire()
	if err != nil {
		return false, err
	}
	defer d.Release()
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) { // removed since the directory was listed
		err = nil
	}
	return v.tree.ids[info.ID], err
}

func (v *unlistedVisitor) Failed(d *walk.Dir, name string, err error) {
	path := d.Join(name)
	v.run.addTo(v.tree, Failure, path, scanError(err))
}
