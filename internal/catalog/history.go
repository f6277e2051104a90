package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path"
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
)

// History makes a catalog write generations of ASC MHL histories.
type History struct {
	Order  mhl.Order // without the computed hashes, and without fields that depend on the destination
	Source *mhl.Tree // histories of the source, which are copied
	Dest   *mhl.Tree // histories of the destination when the run began; nil if it did not exist
}

// history updates the histories of a destination.
type history struct {
	History
	lines []extsort.Spill   // of Dest, one for each hash of the run that it has
	index []*manifest.Index // of lines; nil where Dest lists none
	made  lookup.Set        // paths that this run or an interrupted one has created or replaced
}

// openHistory indexes the lines of the histories of the destination.
func (c *Catalog) openHistory() error {
	h := &history{History: *c.opts.History}
	c.history = h
	if h.Dest == nil || len(h.Dest.Histories()) == 0 {
		return nil
	}
	for _, a := range c.opts.Hashes {
		lines, size, err := h.Dest.Lines(mhl.Of(a), extsort.TempFile)
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

func (h *history) close() {
	for _, lines := range h.lines {
		_ = lines.Close() // a temporary that is not needed any more
	}
	h.lines = nil
}

// listed returns the digests of a file in the histories of the destination, nil for each
// hash that they do not have. The error is that of reading their lines.
func (h *history) listed(file string, hashes int) (digests hash.Digests, err error) {
	digests = make(hash.Digests, hashes)
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

// InHistory reports whether the histories of the destination list a file, or cannot be read.
func (c *Catalog) InHistory(file string) bool {
	if c.history == nil {
		return false
	}
	known, err := c.history.listed(file, len(c.opts.Hashes))
	return err != nil || slices.ContainsFunc(known, func(d []byte) bool { return d != nil })
}

// Contradicts reports whether the histories of the destination list a file with another
// digest than one of these. Then its content must not be recorded under that path. Without
// digests it returns false.
func (c *Catalog) Contradicts(file string, digests hash.Digests) (bool, error) {
	if c.history == nil || digests == nil {
		return false, nil
	}
	listed, err := c.history.listed(file, len(digests))
	for slot, d := range digests {
		if known := listed[slot]; known != nil && !bytes.Equal(known, d) {
			return true, nil
		}
	}
	return false, err
}

// WriteHistory copies the histories of the source and writes the generations of the run,
// when all files are at the destination and durable. A destination with a history gets a
// generation of only the files that the run has added; without such files it gets none.
func (c *Catalog) WriteHistory() (written []Written, err error) {
	if c.err != nil {
		return nil, c.err
	}
	h := c.history
	if err := h.Source.Bring(c.root, c.opts.Durable); err != nil {
		return nil, err
	}
	o := h.Order
	ignore, more := c.ignoreLines(o.Ignore)
	o.Ignore = ignore
	o.Computed, o.Durable, o.NewSpill = c.opts.Hashes, c.opts.Durable, c.opts.Spill
	survey, err := mhl.NewSurvey(c.root, mhl.NewIgnore(o.Ignore...).Hides)
	if err != nil {
		return nil, err
	}
	tree, err := mhl.Open(c.root, survey.Nested, c.opts.Spill)
	if err != nil {
		return nil, err
	}
	defer tree.Close() //nolint:errcheck // temporaries that are not needed any more
	if err := tree.Settle(c.opts.Durable); err != nil {
		return nil, err
	}
	present := manifest.NewBuilder(nil, c.opts.Spill, 4<<20)
	defer present.Close() //nolint:errcheck // the same
	if err := c.findPresent(tree, o.Ignore, present); err != nil {
		return nil, err
	}
	entries, others := c.entries(present), 0
	if err := entries(func(manifest.Entry) error { return nil }, func() { others++ }); err != nil {
		return nil, err
	}
	continues := h.Dest != nil && h.Dest.At("") != nil
	o.Partial = continues || others > 0
	if continues {
		o.Select = func(file string, listed bool) bool { return !listed || h.made.Has(file) }
		o.Always = more
	}
	generations, err := tree.Write(&o, func(yield func(manifest.Entry) error) error { return entries(yield, func() {}) })
	for _, g := range generations {
		written = append(written, Written{Path: c.shown(g.Path), Lines: g.Files, SHA256: g.SHA256, Generation: true})
	}
	return written, err
}

// linePatterns returns the ignore patterns for the line manifests.
func (c *Catalog) linePatterns() (patterns []string) {
	for _, l := range c.lists {
		if c.opts.Outside == "" {
			patterns = append(patterns, mhl.PatternFor(l.path))
		}
	}
	return patterns
}

// ignoreLines adds the patterns for the line manifests that the run has written. more is
// true if the history of the destination lacks one of them.
func (c *Catalog) ignoreLines(patterns []string) (all []string, more bool) {
	lines := c.linePatterns()
	if h := c.history; h.Dest != nil && h.Dest.At("") != nil {
		known := h.Dest.At("").Ignore.Patterns()
		more = slices.ContainsFunc(lines, func(p string) bool { return !slices.Contains(known, p) })
	}
	return append(slices.Clip(patterns), lines...), more
}

// refuseHidden refuses line manifests whose ignore pattern would also hide another entry of
// the source or of the destination.
func (c *Catalog) refuseHidden() error {
	if len(c.lists) == 0 {
		return nil
	}
	h := c.history
	chosen := mhl.NewIgnore(h.Order.Ignore...)
	lines := mhl.NewIgnore(c.linePatterns()...)
	hides := func(file string, isDir bool) bool { return c.isPlace(file) || chosen.Hides(file, isDir) }
	found, err := h.Source.FirstHidden(lines, hides)
	if err == nil && found == "" && h.Dest != nil {
		found, err = h.Dest.FirstHidden(lines, hides)
	}
	if err != nil || found == "" {
		return err
	}
	return failure.Refuse("%s has the name of the manifest that the history ignores, so the history would not list it; choose another name with --manifest, or leave it out with --mhl-ignore", quoteName(found))
}

// findPresent adds to a builder the files and directories of the destination that no
// pattern hides.
func (c *Catalog) findPresent(tree *mhl.Tree, patterns []string, into *manifest.Builder) error {
	finder := fsys.NewFinder(c.root, 16)
	defer finder.Close()
	ignore := mhl.NewIgnore(patterns...)
	return mhl.Each(c.root, func(file string, kind fsys.Kind) (enter bool, err error) {
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
func (c *Catalog) entries(present *manifest.Builder) func(yield func(manifest.Entry) error, other func()) error {
	noDigests := make(hash.Digests, len(c.opts.Hashes))
	for i, a := range c.opts.Hashes {
		noDigests[i] = make([]byte, a.Size())
	}
	return func(yield func(manifest.Entry) error, other func()) error {
		next, stop := iter.Pull2(pairs(c.builder))
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

// pairs returns Builder.Each as an iterator.
func pairs(b *manifest.Builder) iter.Seq2[manifest.Entry, error] {
	return func(yield func(manifest.Entry, error) bool) {
		enough := fmt.Errorf("enough")
		err := b.Each(func(e manifest.Entry) error {
			if !yield(e, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(manifest.Entry{}, err)
		}
	}
}
