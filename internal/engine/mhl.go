package engine

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// MHL asks for generations of ASC MHL histories.
type MHL struct {
	Creator mhl.Creator // without a comment: "Copy of SRC to DST"
	Ignore  []string    // patterns besides those that the histories have

	Hashes []hash.Algorithm // that a generation records; all of them are in Options.Hashes
	// Lines is how many of Options.Hashes, the first ones, have a line manifest as well.
	Lines int
}

// histories are those of the source and of the destinations when a run begins.
type histories struct {
	order   mhl.Order   // without what depends on the destination
	ignore  *mhl.Ignore // the patterns of order
	source  *mhl.Tree
	dests   []*mhl.Tree // by index; nil where there is no directory yet
	roots   []*fsys.Dir // of dests, to be closed
	folders map[string]bool
	others  int // entries of the source that have an ignore pattern of their own
}

// openHistories reads the histories of the source and of the destinations, refuses what
// cannot be recorded, and decides which hashes the run computes. The error is a
// *failure.RefusedError, or a *mhl.ChainError within.
func (r *run) openHistories() error {
	o := r.opts
	if r.route.Name != "" {
		return failure.Refuse("--mhl needs a directory as the source, and %s is a file", quoteName(o.Source))
	}
	h := &histories{folders: map[string]bool{}}
	r.histories = h
	root, _, err := r.route.OpenSource() // the walk closes its own
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
	}
	h.roots = append(h.roots, root)
	patterns := o.MHL.Ignore
	chosen := mhl.NewIgnore(patterns...)
	leftOut := func(path string, isDir bool) bool { return chosen.Hides(path, isDir) || !r.wanted(path) }
	survey, err := mhl.NewSurvey(root, leftOut)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
	}
	if h.source, err = mhl.Open(root, survey.Nested, extsort.TempFile); err != nil {
		return fmt.Errorf("source %s: %w", quoteName(o.Source), err)
	}
	if survey.UnfitCount > 0 {
		return failure.Refuse("source %s: ASC MHL cannot list %s, because XML cannot hold the name, nor %d others; rename them, or leave them out with --mhl-ignore",
			quoteName(o.Source), quoteName(survey.Unfit[0]), survey.UnfitCount-1)
	}
	hidden, err := h.source.PatternsFor(survey.Others, leftOut)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
	}
	h.others = len(hidden)
	for _, history := range h.source.Histories() {
		h.folders[path.Join(history.Path, mhl.Folder)] = true
	}
	computed, err := h.source.Formats(o.Hashes)
	if err != nil {
		return err
	}
	for _, d := range r.route.Destinations {
		tree, err := h.openDestination(o.FS, d.Dir, d.Exists)
		if err != nil {
			return fmt.Errorf("destination %s: %w", quoteName(d.Given), err)
		}
		if tree == nil {
			continue
		}
		if err := h.source.CheckBring(tree); err != nil {
			return failure.Refuse("destination %s: %s", quoteName(d.Given), err)
		}
		if computed, err = tree.Formats(computed); err != nil {
			return err
		}
	}
	h.order = mhl.Order{
		Creator: o.MHL.Creator, Process: mhl.Transfer, Hashes: o.MHL.Hashes,
		Ignore: append(patterns[:len(patterns):len(patterns)], hidden...),
	}
	h.ignore = mhl.NewIgnore(h.order.Ignore...)
	o.Hashes = computed
	return nil
}

// ignores reports whether the history of a destination leaves out a file.
func (h *histories) ignores(t *target, path string) bool {
	if h == nil {
		return false
	}
	dest := h.dests[t.index]
	return h.ignore.Hides(path, false) || h.source.Hides(path, false) || dest != nil && dest.Hides(path, false)
}

// openDestination reads the histories of a destination.
func (h *histories) openDestination(sys *fsys.FS, dir string, exists bool) (*mhl.Tree, error) {
	h.dests = append(h.dests, nil)
	if !exists {
		return nil, nil //nolint:nilnil // no directory is no error
	}
	root, err := sys.OpenRoot(dir)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // opening it as a destination reports it
	}
	h.roots = append(h.roots, root)
	survey, err := mhl.NewSurvey(root, mhl.NewIgnore().Hides)
	if err != nil {
		return nil, failure.Refuse("%s", err)
	}
	tree, err := mhl.Open(root, survey.Nested, extsort.TempFile)
	h.dests[len(h.dests)-1] = tree
	return tree, err
}

// closeHistories removes temporaries.
func (r *run) closeHistories() {
	h := r.histories
	if h == nil {
		return
	}
	for _, t := range append([]*mhl.Tree{h.source}, h.dests...) {
		if t != nil {
			_ = t.Close() // temporaries that are not needed any more
		}
	}
	for _, root := range h.roots {
		root.Close()
	}
}

// warnHistories warns of what is copied and not recorded.
func (r *run) warnHistories() {
	if r.histories != nil && r.histories.others > 0 {
		is := fmt.Sprintf("%d of them have ignore patterns", r.histories.others)
		r.report(Event{Kind: EventWarning, Err: errors.New("ASC MHL lists no symbolic links and special files: " + is)})
	}
}

// of describes the history of one destination.
func (h *histories) of(r *run, t *target) *catalog.History {
	order := h.order
	order.Name = filepath.Base(t.Dir)
	if dir := filepath.ToSlash(r.opts.BackupDir); dir != "" {
		order.Ignore = append(order.Ignore[:len(order.Ignore):len(order.Ignore)], mhl.PatternFor(path.Clean(dir))+"/")
	}
	if c := &order.Creator; c.Comment == "" {
		if c.Comment = "Copy of " + r.opts.Source + " to " + t.Given; !mhl.Representable(c.Comment) {
			c.Comment = ""
		}
	}
	return &catalog.History{Order: order, Source: h.source, Dest: h.dests[t.index]}
}

// isHistory reports whether a directory of the source holds a history, which is copied when
// everything else is complete.
func (r *run) isHistory(d *walk.Dir) bool {
	return r.histories != nil && d.Name == mhl.Folder && r.histories.folders[d.Path()]
}

// errListed is about content that a history must not get.
var errListed = &conflictError{
	why:  "the history of the destination lists it with other content",
	next: "copy this source into another directory",
}

// contradicts reports whether a history of the transfer's destination lists its name with
// other content than the source's, which has these digests. A dry run, which may not know
// them, reads the source.
func (r *run) contradicts(e *entry, p *transfer, digests hash.Digests) (bool, error) {
	c, file := p.target.catalog, e.manifestPath(p)
	if c == nil || e.kind != fsys.Regular { // nothing is there in a dry run
		return false, nil
	}
	if digests == nil && r.opts.DryRun && c.InHistory(file) {
		if e.digests == nil {
			if err := r.readDigests(e); err != nil {
				return false, err
			}
		}
		digests = e.digests
	}
	return c.Contradicts(file, digests), nil
}

// readDigests reads the source for a dry run.
func (r *run) readDigests(e *entry) error {
	dir, err := e.dir.Acquire()
	if err != nil {
		return err
	}
	defer e.dir.Release()
	info, digests, err := r.digestFile(dir, e.name, e.clock)
	if err == nil && !sameState(e.meta.info, info) {
		err = errSourceChanged
	}
	if err != nil {
		return inStage(failure.StageRead, err)
	}
	e.digests = digests
	return nil
}
