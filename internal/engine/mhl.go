package engine

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// MHL makes a run write generations of ASC MHL histories.
type MHL struct {
	Creator mhl.Creator // an empty comment becomes "Copy of SRC to DST"
	Ignore  []string    // patterns in addition to those of the histories

	Hashes []hash.Algorithm // hashes that a generation records; all of them are in Options.Hashes
	// Lines is how many of Options.Hashes, counted from the first, also get a line manifest.
	Lines int
}

// histories are the ASC MHL histories of the source and of the destinations at the start of a
// run.
type histories struct {
	order   mhl.Order // the options that are equal for all destinations; histories.of adds the others
	source  *mhl.Tree
	dests   []*mhl.Tree     // by target.index; nil if the destination has no directory yet
	roots   []*fsys.Dir     // of source and dests, to be closed
	folders map[string]bool // paths of the source's ascmhl directories
	others  int             // symbolic links and special files of the source that got an ignore pattern
}

// openHistories reads the histories of the source and of the destinations, and refuses entries
// that a history cannot record. It sets Options.Hashes to the hashes that the run has to
// compute. The error is a *failure.RefusedError, or wraps a *mhl.ChainError.
func (r *run) openHistories() error {
	o := r.opts
	h := &histories{folders: map[string]bool{}}
	r.histories = h
	root, _, err := r.route.OpenSource() // the walk closes its own
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
	}
	h.roots = append(h.roots, root)
	patterns := o.MHL.Ignore
	chosen := mhl.NewIgnore(patterns...)
	leftOut := func(path string, isDir bool) bool { return chosen.Hides(path, isDir) || !r.opts.wanted(path) }
	survey, err := mhl.NewSurvey(root, leftOut)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
	}
	if survey.Blocked && r.opts.wanted(mhl.Folder) {
		return failure.Refuse("source %s: %s", quoteName(o.Source), mhl.ErrBlocked)
	}
	if h.source, err = mhl.Open(root, survey.Nested, extsort.TempFile); err != nil {
		return fmt.Errorf("source %s: %w", quoteName(o.Source), err)
	}
	if err := h.source.CheckBag(); err != nil {
		return failure.Refuse("source %s: %s", quoteName(o.Source), err)
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
		return fmt.Errorf("source %s: %w", quoteName(o.Source), err)
	}
	for _, d := range r.route.Destinations {
		tree, err := h.openDestination(o.FS, d)
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
			return fmt.Errorf("destination %s: %w", quoteName(d.Given), err)
		}
	}
	h.order = mhl.Order{
		Creator: o.MHL.Creator, Process: mhl.Transfer, Hashes: o.MHL.Hashes,
		Ignore: append(patterns[:len(patterns):len(patterns)], hidden...),
	}
	o.Hashes = computed
	return nil
}

// openDestination reads the histories of a destination and appends them to dests. The tree is
// nil if the directory does not exist or cannot be opened.
func (h *histories) openDestination(sys *fsys.FS, d route.Destination) (*mhl.Tree, error) {
	h.dests = append(h.dests, nil)
	if !d.Exists {
		return nil, nil //nolint:nilnil // no directory is no error
	}
	root, err := sys.OpenTrustedRoot(d.Dir)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // opening it as a destination reports it
	}
	h.roots = append(h.roots, root)
	survey, err := mhl.NewSurvey(root, mhl.NewIgnore().Hides)
	if err == nil && survey.Blocked {
		err = mhl.ErrBlocked
	}
	if err != nil {
		return nil, failure.Refuse("destination %s: %s", quoteName(d.Given), err)
	}
	tree, err := mhl.Open(root, survey.Nested, extsort.TempFile)
	h.dests[len(h.dests)-1] = tree
	return tree, err
}

// closeHistories closes the trees and roots, and removes their temporary files.
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

// warnHistories warns of entries that are copied and not recorded.
func (r *run) warnHistories() {
	if r.histories != nil && r.histories.others > 0 {
		is := fmt.Sprintf("%d of them have ignore patterns", r.histories.others)
		r.report(event.Event{Kind: event.Warning, Err: errors.New("ASC MHL lists no symbolic links and special files: " + is)})
	}
}

// of returns the histories of one destination, and the order for new generations.
func (h *histories) of(r *run, t *target) (*mhl.Tree, mhl.Order) {
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
	return h.dests[t.Index], order
}

// isHistory reports whether a directory of the source contains a history. The catalog copies
// it when everything else is complete.
func (r *run) isHistory(d *walk.Dir) bool {
	return r.histories != nil && d.Name == mhl.Folder && r.histories.folders[d.Path()]
}
