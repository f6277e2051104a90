package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/record"
)

// history updates the histories of a destination.
type history struct {
	record.NoBook
	*record.Destination
	order  mhl.Order
	ignore *mhl.Ignore // the patterns of order
	source *mhl.Tree
	dest   *mhl.Tree
	lines  []extsort.Spill   // of dest, one for each hash of the run that it has
	index  []*manifest.Index // of lines; nil where dest lists none
	made   lookup.Set        // paths that this run or an interrupted one has created or replaced
}

// openHistory indexes the lines of the histories of a destination. dest has these histories when the
// run began; it is nil if the destination did not exist.
func openHistory(d *record.Destination, source, dest *mhl.Tree, order mhl.Order) (*history, error) {
	h := &history{Destination: d, source: source, dest: dest, order: order, ignore: mhl.NewIgnore(order.Ignore...)}
	err := h.openLines()
	if err == nil {
		err = h.refuseHidden()
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *history) openLines() error {
	if h.dest == nil || len(h.dest.Histories()) == 0 {
		return nil
	}
	for _, a := range h.Hashes {
		lines, size, err := h.dest.Lines(mhl.Of(a), extsort.TempFile)
		if err != nil {
			return err
		}
		h.lines = append(h.lines, lines)
		index, err := manifest.BuildCheckIndex(lines, size, manifest.BSD, a)
		if err != nil {
			return err
		}
		h.index = append(h.index, index)
	}
	return nil
}

// Close implements record.Book.
func (h *history) Close() {
	for _, lines := range h.lines {
		_ = lines.Close() // a temporary that is not needed any more
	}
	h.lines = nil
}

// listed returns the digests of a file in the histories of the destination, nil for each
// hash that they do not have. The error is that of reading their lines.
func (h *history) listed(file string) (digests hash.Digests, err error) {
	digests = make(hash.Digests, len(h.Hashes))
	for slot, index := range h.index {
		found, failed := index.Listing(file)
		if failed != nil {
			err = cmp.Or(err, fmt.Errorf("the history of the destination: %w", failed))
		} else if len(found.Digests) > 0 {
			digests[slot] = found.Digests[0]
		}
	}
	return digests, err
}

// Kept implements record.Book.
func (h *history) Kept(file string) record.Kept {
	digests, _ := h.listed(file) // Accepts reports what cannot be read
	return record.Kept{Digests: digests, Complete: record.IsComplete(digests)}
}

// errListed is the conflict of a file whose new content would contradict the destination's
// history.
var errListed = &record.Conflict{
	Why:  "the history of the destination lists it with other content",
	Next: "copy this source into another directory",
}

// Accepts implements record.Book. New content must have the digests that the histories of the
// destination list under its path.
func (h *history) Accepts(file string, digests hash.Digests, changes bool) error {
	if !changes {
		return nil
	}
	listed, err := h.listed(file)
	if digests == nil {
		if err != nil || slices.ContainsFunc(listed, func(d []byte) bool { return d != nil }) {
			return record.ErrNoDigests
		}
		return nil
	}
	for slot, d := range digests[:len(listed)] {
		if known := listed[slot]; known != nil && !bytes.Equal(known, d) {
			return errListed
		}
	}
	return err
}

// Omits implements record.Book.
func (h *history) Omits(file string) bool {
	return h.ignore.Hides(file, false) || h.source.Hides(file, false) || h.dest != nil && h.dest.Hides(file, false)
}

// Account implements record.Book.
func (h *history) Account(o record.Outcome) error {
	if o.Created || o.Replaced || o.Resumed {
		h.made.Add(o.Path)
	}
	return nil
}

// Finish implements record.Book. It copies the histories of the source and writes the generations
// of the run if no entry of the source is missing. A destination with a history gets a generation
// of only the files that the run has added; without such files it gets none.
func (h *history) Finish(end record.End) (written []record.Written, err error) {
	if !end.Complete {
		return nil, nil
	}
	if err := h.source.Bring(h.Root, h.Durable); err != nil {
		return nil, err
	}
	o := h.order
	ignore, more := h.ignoreLines(o.Ignore)
	o.Ignore = ignore
	o.Computed, o.Durable, o.NewSpill = h.Hashes, h.Durable, h.Spill
	survey, err := mhl.NewSurvey(h.Root, mhl.NewIgnore(o.Ignore...).Hides)
	if err != nil {
		return nil, err
	}
	tree, err := mhl.Open(h.Root, survey.Nested, h.Spill)
	if err != nil {
		return nil, err
	}
	defer tree.Close() //nolint:errcheck // temporaries that are not needed any more
	if err := tree.Settle(h.Durable); err != nil {
		return nil, err
	}
	present := manifest.NewBuilder(nil, h.Spill, 4<<20)
	defer present.Close() //nolint:errcheck // the same
	if err := h.findPresent(tree, o.Ignore, present); err != nil {
		return nil, err
	}
	entries, others := h.entries(present), 0
	if err := entries(func(manifest.Entry) error { return nil }, func() { others++ }); err != nil {
		return nil, err
	}
	continues := h.dest != nil && h.dest.At("") != nil
	o.Partial = continues || others > 0
	if continues {
		o.Select = func(file string, listed bool) bool { return !listed || h.made.Has(file) }
		o.Always = more
	}
	generations, err := tree.Write(&o, func(yield func(manifest.Entry) error) error { return entries(yield, func() {}) })
	for _, g := range generations {
		written = append(written, record.Written{Path: filepath.Join(h.Shown, filepath.FromSlash(g.Path)), Lines: g.Files, SHA256: g.SHA256, Generation: true})
	}
	return written, err
}

// linePatterns returns the ignore patterns for the line manifests.
func (h *history) linePatterns() (patterns []string) {
	for _, name := range h.Names {
		patterns = append(patterns, mhl.PatternFor(name))
	}
	return patterns
}

// ignoreLines adds the patterns for the line manifests that the run has written. more is
// true if the history of the destination lacks one of them.
func (h *history) ignoreLines(patterns []string) (all []string, more bool) {
	lines := h.linePatterns()
	if h.dest != nil && h.dest.At("") != nil {
		known := h.dest.At("").Ignore.Patterns()
		more = slices.ContainsFunc(lines, func(p string) bool { return !slices.Contains(known, p) })
	}
	return append(slices.Clip(patterns), lines...), more
}

// refuseHidden refuses line manifests whose ignore pattern would also hide another entry of
// the source or of the destination.
func (h *history) refuseHidden() error {
	if len(h.Names) == 0 {
		return nil
	}
	lines := mhl.NewIgnore(h.linePatterns()...)
	isManifest := func(file string) bool {
		return slices.ContainsFunc(h.Names, func(name string) bool { return strings.EqualFold(name, file) })
	}
	hides := func(file string, isDir bool) bool { return isManifest(file) || h.ignore.Hides(file, isDir) }
	found, err := h.source.FirstHidden(lines, hides)
	if err == nil && found == "" && h.dest != nil {
		found, err = h.dest.FirstHidden(lines, hides)
	}
	if err != nil || found == "" {
		return err
	}
	return failure.Refuse("%s has the name of the manifest that the history ignores, so the history would not list it; choose another name with --manifest, or leave it out with --mhl-ignore", quoteName(found))
}

// findPresent adds to a builder the files and directories of the destination that no
// pattern hides.
func (h *history) findPresent(tree *mhl.Tree, patterns []string, into *manifest.Builder) error {
	finder := fsys.NewFinder(h.Root, 16)
	defer finder.Close()
	ignore := mhl.NewIgnore(patterns...)
	return mhl.Each(h.Root, func(file string, kind fsys.Kind) (enter bool, err error) {
		isDir, name := kind == fsys.Directory, path.Base(file)
		if incomplete.IsReserved(name, file == name, kind) || ignore.Hides(file, isDir) || tree.Hides(file, isDir) {
			return false, nil
		}
		e := manifest.Entry{Path: file}
		if isDir {
			info, err := finder.Lstat(file)
			if err != nil {
				return false, err
			}
			e = manifest.Entry{Path: file + "/", Mtime: info.Mtime.Sec}
		} else if kind != fsys.Regular {
			return false, nil
		}
		return isDir, into.Put(e)
	})
}

// entries returns a function that merges the files of the run with the existing files of
// the destination. It calls other for an existing file whose digests the run does not know.
func (h *history) entries(present *manifest.Builder) func(yield func(manifest.Entry) error, other func()) error {
	noDigests := make(hash.Digests, len(h.Hashes))
	for i, a := range h.Hashes {
		noDigests[i] = make([]byte, a.Size())
	}
	return func(yield func(manifest.Entry) error, other func()) error {
		next, stop := iter.Pull2(extsort.Seq(h.Files.Builder.Each))
		defer stop()
		mine, err, ok := next()
		failed := present.Each(func(e manifest.Entry) error {
			for ok && err == nil && mine.Path < e.Path { // the file does not exist any more, or is hidden
				mine, err, ok = next()
			}
			switch {
			case err != nil:
				return err
			case strings.HasSuffix(e.Path, "/"):
				return yield(manifest.Entry{Path: e.Path, Mtime: e.Mtime, Digests: noDigests})
			case ok && mine.Path == e.Path:
				return yield(mine)
			}
			other()
			return nil
		})
		return cmp.Or(failed, err)
	}
}
