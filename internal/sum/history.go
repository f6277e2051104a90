package sum

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// MHL requests a generation of the ASC MHL history of a directory.
type MHL struct {
	Creator       mhl.Creator
	Hashes        []hash.Algorithm
	Ignore        []string // patterns besides those that the history has
	DetectRenames bool     // find files that were renamed since the last generation
}

// history updates the histories of one tree.
type history struct {
	opts   *MHL
	given  string
	root   *fsys.Dir
	tree   *mhl.Tree
	added  []string     // patterns of this run
	ignore *mhl.Ignore  // rules of the same patterns
	others int          // number of entries that have a separate pattern
	own    string       // the path of Options.Manifest in the tree; "" outside
	hidden atomic.Int64 // files that the patterns leave out
}

// refuseInBag refuses a new history or media hash list in the payload of a bag.
func (r *run) refuseInBag(args []argument) error {
	if r.opts.MHL == nil && r.opts.MediaList == nil || !isTree(args) {
		return nil
	}
	if err := bag.RefuseHistory(args[0].given); err != nil {
		return failure.Refuse("%s: %s", quote.Name(args[0].given), err)
	}
	return nil
}

// openHistory reads the histories of the tree, and refuses entries that they cannot list.
// It sets which hashes the run computes.
func (r *run) openHistory(args []argument) (err error) {
	if r.opts.MHL == nil {
		return nil
	}
	if !isTree(args) {
		return failure.Refuse("--mhl needs one directory, which gets the history")
	}
	if err := extsort.CheckTemp(); err != nil { // writing would fail after everything was hashed
		r.report(Event{Warning: true, Err: fmt.Errorf("a history of thousands of files needs a %w", err)})
	}
	h := &history{opts: r.opts.MHL, given: args[0].given, added: r.opts.MHL.Ignore}
	r.history = h
	if h.root, err = r.opts.FS.OpenTrustedRoot(h.given); err != nil {
		return failure.Refuse("%s: %s", quote.Name(h.given), err)
	}
	chosen := mhl.NewIgnore(h.added...)
	survey, err := mhl.NewSurvey(h.root, chosen.Hides)
	if err == nil && survey.Blocked {
		err = mhl.ErrBlocked
	}
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(h.given), err)
	}
	if h.tree, err = mhl.Open(h.root, survey.Nested, extsort.TempFile); err != nil {
		return fmt.Errorf("%s: %w", quote.Name(h.given), err)
	}
	if err := h.tree.CheckBag(); err != nil {
		return failure.Refuse("%s: %s", quote.Name(h.given), err)
	}
	if names := survey.Unfit.String(); names != "" {
		return failure.Refuse("%s: XML, and so ASC MHL, cannot hold these names: %s; rename the files, or leave them out with --mhl-ignore",
			quote.Name(h.given), names)
	}
	hidden, err := h.tree.PatternsFor(survey.Others, chosen.Hides)
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(h.given), err)
	}
	h.added, h.others = append(h.added[:len(h.added):len(h.added)], hidden...), len(hidden)
	if h.others > 0 {
		err := fmt.Errorf("ASC MHL lists no symbolic links and special files: %s left out by ignore patterns", count(h.others))
		r.report(Event{Warning: true, Path: h.given, Err: err})
	}
	h.ignore = mhl.NewIgnore(h.added...)
	if err := h.ignoreManifest(r.opts.Manifest); err != nil {
		return failure.Refuse("%s: %s", quote.Name(h.given), err)
	}
	if r.hashes, err = h.tree.Formats(r.hashes); err != nil {
		return fmt.Errorf("%s: %w", quote.Name(h.given), err)
	}
	return nil
}

// ignoreManifest adds a pattern for the manifest, if it is in the tree.
func (h *history) ignoreManifest(file string) error {
	if file == "" {
		return nil
	}
	root, err := realPath(h.given)
	if err != nil {
		return err
	}
	dir, err := realPath(filepath.Dir(file))
	if err != nil {
		return nil //nolint:nilerr // opening the manifest reports it
	}
	path, err := filepath.Rel(root, filepath.Join(dir, filepath.Base(file)))
	if err != nil || !filepath.IsLocal(path) {
		return nil //nolint:nilerr // it is outside
	}
	h.own = filepath.ToSlash(path)
	if !mhl.Representable(h.own) {
		return fmt.Errorf("the history cannot ignore the manifest %s, because XML cannot hold the name; choose another name with --manifest", quote.Name(h.own))
	}
	pattern := mhl.PatternFor(h.own)
	found, err := h.tree.FirstHidden(mhl.NewIgnore(pattern), func(path string, isDir bool) bool {
		return path == h.own || h.ignore.Hides(path, isDir)
	})
	if err != nil {
		return err
	}
	if found != "" {
		return fmt.Errorf("%s has the name of the manifest that the history ignores, so the history would not list it; choose another name with --manifest, or leave it out with --mhl-ignore", quote.Name(found))
	}
	h.added = append(h.added, pattern)
	h.ignore = mhl.NewIgnore(h.added...)
	return nil
}

// realPath returns the absolute path of a directory without symbolic links.
func realPath(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

func count(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// hides reports whether the history leaves out an entry.
func (h *history) hides(path string, isDir bool) bool {
	return h.ignore.Hides(path, isDir) || h.tree.Hides(path, isDir)
}

// recorded returns the entries of a builder that the history does not leave out.
func (h *history) recorded(all mhl.Entries) mhl.Entries {
	return func(yield func(manifest.Entry) error) error {
		return all(func(e manifest.Entry) error {
			if !strings.HasSuffix(e.Path, "/") && h.hides(e.Path, false) {
				return nil
			}
			return yield(e)
		})
	}
}

func (h *history) close() error {
	var err error
	if h.tree != nil {
		err = h.tree.Close()
	}
	if h.root != nil {
		h.root.Close()
	}
	return err
}

// errNotWritten means that files could not be read.
var errNotWritten = errors.New("no generation was written")

// write writes a generation for each history of the tree.
func (h *history) write(r *run) (err error) {
	if n := r.summary.Errors; n > 0 {
		return fmt.Errorf("%w: %s could not be hashed", errNotWritten, units.Plural(n, "file"))
	}
	path, err := filepath.Abs(h.given)
	if err != nil {
		return err
	}
	o := &mhl.Order{
		Creator: h.opts.Creator, Process: mhl.InPlace, Name: filepath.Base(path), Ignore: h.added,
		Hashes: h.opts.Hashes, Computed: r.hashes, Durable: true, NewSpill: extsort.TempFile,
		Report: func(path string, finding mhl.Finding) { r.compared(strings.TrimSuffix(path, "/"), finding) },
	}
	entries := h.recorded(r.builder.Each)
	if h.opts.DetectRenames {
		if o.Renamed, err = h.tree.Renames(entries, r.hashes); err != nil {
			return err
		}
		r.summary.Renamed = len(o.Renamed)
		r.renamed = map[string]bool{}
		for _, was := range o.Renamed {
			r.renamed[was] = true
		}
	}
	r.summary.Ignored = h.hidden.Load()
	r.summary.Generations, err = h.tree.Write(o, entries)
	for i, g := range r.summary.Generations {
		r.summary.Generations[i].Path = filepath.Join(h.given, filepath.FromSlash(g.Path))
	}
	return err
}

var (
	errMismatch = errors.New("its content is not what its history lists; it is recorded as failed")
	errMissing  = errors.New("its history lists it, and it does not exist")
)

// compared counts and reports how an entry compares with its history.
func (r *run) compared(path string, finding mhl.Finding) {
	var err error
	switch {
	case finding == mhl.Mismatch:
		r.summary.Mismatches++
		err = errMismatch
	case finding == mhl.Missing && !r.renamed[path]:
		r.summary.Missing++
		err = errMissing
	default:
		return
	}
	r.report(Event{Mismatch: true, Path: path, Err: &failure.FileError{Path: path, Stage: failure.StageVerify, Err: err}})
}

// directory returns the result for a directory that a generation lists. Its digests are zeros.
func (r *run) directory(name string, mtime fsys.Time) *job {
	empty := make(hash.Digests, len(r.hashes))
	for i, a := range r.hashes {
		empty[i] = make([]byte, a.Size())
	}
	return &job{name: name + "/", digests: empty, mtime: mtime}
}
