package catalog

import (
	"fmt"
	"path"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/record"
)

// Histories is the record.Recorder of ASC MHL histories. Those of the source and of the destinations
// are read at the start of a run.
type Histories struct {
	record.NoRecorder
	run     *record.Run
	order   mhl.Order // the options that are equal for all destinations; orderFor adds the others
	source  *mhl.Tree
	dests   map[string]*mhl.Tree // by the directory; nil if that does not exist yet
	roots   []*fsys.Dir          // of source and dests
	folders map[string]bool      // paths of the source's ascmhl directories
	others  int                  // symbolic links and special files of the source that got an ignore pattern
}

// NewHistories returns a recorder of generations. An empty comment of the creator becomes "Copy of SRC to
// DST". The patterns are added to those of the histories.
func NewHistories(creator mhl.Creator, ignore []string, hashes []hash.Algorithm) *Histories {
	return &Histories{order: mhl.Order{Creator: creator, Process: mhl.Transfer, Hashes: hashes, Ignore: ignore}}
}

// refuseLists refuses a run that can have neither a history nor a media hash list.
func refuseLists(r *record.Run) error {
	if r.File != "" {
		return failure.Refuse("--mhl needs a directory as the source, and %s is a file", quoteName(r.Source))
	}
	for _, d := range r.Destinations {
		if err := bag.RefuseHistory(d.Dir); err != nil {
			return failure.Refuse("destination %s: %s", quoteName(d.Given), err)
		}
	}
	return nil
}

// Refuse implements record.Recorder. It refuses entries that a history cannot record. It sets
// Run.Hashes to the hashes that the run has to compute. The error can wrap a *mhl.ChainError.
func (h *Histories) Refuse(r *record.Run) error {
	if err := refuseLists(r); err != nil {
		return err
	}
	h.run, h.folders, h.dests = r, map[string]bool{}, map[string]*mhl.Tree{}
	root, err := r.OpenSource()
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.Source), err)
	}
	h.roots = append(h.roots, root)
	patterns := h.order.Ignore
	chosen := mhl.NewIgnore(patterns...)
	leftOut := func(path string, isDir bool) bool { return chosen.Hides(path, isDir) || !r.Wanted(path) }
	survey, err := mhl.NewSurvey(root, leftOut)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.Source), err)
	}
	if survey.Blocked && r.Wanted(mhl.Folder) {
		return failure.Refuse("source %s: %s", quoteName(r.Source), mhl.ErrBlocked)
	}
	if h.source, err = mhl.Open(root, survey.Nested, extsort.TempFile); err != nil {
		return fmt.Errorf("source %s: %w", quoteName(r.Source), err)
	}
	if err := h.source.CheckBag(); err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.Source), err)
	}
	if names := survey.Unfit.String(); names != "" {
		return failure.Refuse("source %s: XML, and so ASC MHL, cannot hold these names: %s; rename the files, or leave them out with --mhl-ignore",
			quoteName(r.Source), names)
	}
	hidden, err := h.source.PatternsFor(survey.Others, leftOut)
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.Source), err)
	}
	h.others = len(hidden)
	for _, history := range h.source.Histories() {
		h.folders[path.Join(history.Path, mhl.Folder)] = true
	}
	computed, err := h.source.Formats(r.Hashes)
	if err != nil {
		return fmt.Errorf("source %s: %w", quoteName(r.Source), err)
	}
	for _, d := range r.Destinations {
		tree, err := h.openDestination(r.FS, d)
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
	h.order.Ignore = append(patterns[:len(patterns):len(patterns)], hidden...)
	r.Hashes = computed
	return nil
}

// openDestination reads the histories of a destination and adds them to dests. The tree is
// nil if the directory does not exist or cannot be opened.
func (h *Histories) openDestination(sys *fsys.FS, d record.Place) (*mhl.Tree, error) {
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
	h.dests[d.Dir] = tree
	return tree, err
}

// Close implements record.Recorder.
func (h *Histories) Close() {
	if h.source != nil {
		_ = h.source.Close() // temporaries that are not needed any more
	}
	for _, t := range h.dests {
		if t != nil {
			_ = t.Close() // the same
		}
	}
	for _, root := range h.roots {
		root.Close()
	}
	h.roots = nil
}

// Holds implements record.Recorder. Finish copies the histories of the source.
func (h *Histories) Holds(name string, path func() string) bool {
	return name == mhl.Folder && h.folders[path()]
}

// Open implements record.Recorder.
func (h *Histories) Open(d *record.Destination) (record.Book, error) {
	if h.others > 0 {
		d.Report(event.Event{Kind: event.Warning, Err: fmt.Errorf("ASC MHL lists no symbolic links and special files: %d of them have ignore patterns", h.others)})
		h.others = 0 // one warning is enough for all destinations
	}
	return openHistory(d, h.source, h.dests[d.Dir], h.orderFor(d))
}

// orderFor returns the order for new generations of one destination.
func (h *Histories) orderFor(d *record.Destination) mhl.Order {
	order := h.order
	order.Name = filepath.Base(d.Dir)
	if dir := filepath.ToSlash(h.run.BackupDir); dir != "" {
		order.Ignore = append(order.Ignore[:len(order.Ignore):len(order.Ignore)], mhl.PatternFor(path.Clean(dir))+"/")
	}
	if c := &order.Creator; c.Comment == "" {
		if c.Comment = "Copy of " + h.run.Source + " to " + d.Given; !mhl.Representable(c.Comment) {
			c.Comment = ""
		}
	}
	return order
}
