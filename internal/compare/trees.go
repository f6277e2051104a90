package compare

import (
	"context"
	"os"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// tree is one of the compared trees.
type tree struct {
	given   string // path in the form in which the user gave it
	root    *fsys.Dir
	info    fsys.Info
	handles *fsys.Handles
}

func (r *run) closeTrees() {
	for _, t := range r.trees {
		t.root.Close()
	}
}

// openTrees opens the roots, and refuses trees that are equal or inside one another.
func (r *run) openTrees() error {
	for i, given := range r.opts.Trees {
		root, err := r.opts.FS.OpenRoot(given)
		if err != nil {
			if info, statErr := os.Stat(given); statErr == nil && !info.IsDir() {
				return failure.Refuse("%s (%s) is not a directory; to compare two files, use cmp", Letter(i), quote.Name(given))
			}
			return failure.Refuse("%s (%s) cannot be opened: %s", Letter(i), quote.Name(given), reason(err))
		}
		t := &tree{given: given, root: root, handles: fsys.NewHandles(jobs.Directories(len(r.opts.Trees)))}
		r.trees = append(r.trees, t)
		if t.info, err = root.Stat(); err != nil {
			return failure.Refuse("%s (%s) cannot be read: %s", Letter(i), quote.Name(given), reason(err))
		}
	}
	for i, t := range r.trees {
		for k, other := range r.trees {
			switch {
			case k < i && t.info.ID == other.info.ID:
				return failure.Refuse("%s (%s) and %s (%s) are the same directory", Letter(k), quote.Name(other.given), Letter(i), quote.Name(t.given))
			case k != i && route.IsBelow(t.given, other.given):
				return failure.Refuse("%s (%s) is inside %s (%s)", Letter(i), quote.Name(t.given), Letter(k), quote.Name(other.given))
			}
		}
	}
	return nil
}

// reason returns the text of an error without the path, which the message already contains.
func reason(err error) string { return quote.Text(fsys.BareError(err).Error()) }

// walkFirst visits the selected entries of A in a separate walk. It returns false if the
// root cannot be opened again, which the merge reports.
func (r *run) walkFirst(ctx context.Context, v walk.Visitor, o walk.Options) bool {
	root, err := r.trees[0].root.OpenDir(".")
	if err != nil {
		return false
	}
	handles := fsys.NewHandles(fsys.FinderLimit())
	o.Workers, o.Filter, o.Only, o.OneFileSystem = 1, r.opts.Filter, r.opts.Only, r.opts.OneFileSystem
	o.SkipReserved = func(*walk.Dir, string) {}
	walk.Walk(ctx, walk.NewRoot(handles.Root(root), r.trees[0].info, v), o)
	return true
}

// refuseEmpty refuses A if no selected entry of it is a file. A may be the mount point of a
// card that is not mounted, and the comparison would then find no difference.
func (r *run) refuseEmpty(ctx context.Context) error {
	look, found := context.WithCancel(ctx)
	defer found()
	s := &search{Entries: func(_ *walk.Dir, _ string, kind fsys.Kind) {
		if kind == fsys.Regular {
			found()
		}
	}}
	opened := r.walkFirst(look, s, walk.Options{})
	given := quote.Name(r.trees[0].given)
	switch {
	case look.Err() != nil || !opened || s.failed:
		return nil // a file was found, the run was stopped, or the merge reports why there was none
	case r.opts.Filter != nil || r.opts.Only != nil:
		return failure.Refuse("the filters leave no file of A (%s) to compare", given)
	}
	return failure.Refuse("A (%s) contains no file; is the card mounted?", given)
}

// search is a visitor that finds regular files.
type search struct {
	walk.Entries
	failed bool // true if an entry could not be read; the walk has one goroutine
}

// Failed implements walk.Visitor. A missing path of --files-from is not a file.
func (s *search) Failed(_ *walk.Dir, _ string, err error) {
	s.failed = s.failed || !fsys.NoSuchFile(err)
}

// scan counts the files of A and their bytes.
func (r *run) scan(ctx context.Context) (complete bool) {
	counter := walk.Counter{Counters: r.counters, Times: 1}
	if r.opts.Quick {
		counter.Times = 0
	}
	return r.walkFirst(ctx, counter, walk.Options{Found: counter.Found})
}
