package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// tree is a directory to check.
type tree struct {
	given      string // path as the user gave it, or the directory of the manifest that the user gave
	root       *fsys.Dir
	info       fsys.Info
	manifests  []*treeManifest
	ids        map[fsys.ID]bool       // ids of the manifests, and of those that cannot be read
	signs      []incomplete.Sign      // signs of an unfinished copy
	isSearched bool                   // true if the manifests are those that were found in the directory
	untrusted  []string               // names of manifests that cannot be used
	notes      []note                 // reports that come before all others
	selects    func(path string) bool // reports whether the filters want a line
	listed     *lookup.Set            // the paths that the manifests mean; nil if no check needs them
	bag        *bagCheck              // check of the bag; nil if there is no bag, or only lines are checked
	history    *mhl.Tree              // ASC MHL history; nil if there is none
	progress   counters.Destination
}

// note is a report that is not about a line.
type note struct {
	verdict Verdict // Warning, Failure, Incomplete or Invalid
	path    string
	err     error
}

// treeManifest is a manifest of one tree.
type treeManifest struct {
	tree      *tree
	shown     string // path as a user would write it
	format    manifest.Format
	algorithm hash.Algorithm // algorithm of untagged lines; "" if only their length shows it
	in        io.ReaderAt
	size      int64
	file      *fsys.File // file to close, perhaps nil; the run closes a file that is for all trees
	id        fsys.ID    // identity of the file; zero if it is not in a tree
	lines     int64
	first     int64 // number of the first line in the order of all lines
	err       error // error with which reading the lines ended
	ignored   int64 // lines with a missing file that Options.IgnoreMissing suppresses
	ahead     lookahead

	found     bool      // true if it was found in the root of the tree, and the user did not name it
	isHistory bool      // true if its lines come from an ASC MHL history; the name of a file shows nothing then
	temp      io.Closer // temporary behind in, perhaps nil
}

func (s *treeManifest) close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.temp != nil {
		_ = s.temp.Close() // a temporary that is not needed any more
	}
}

func (t *tree) close() {
	for _, s := range t.manifests {
		s.close()
	}
	t.closeHistory()
	if t.root != nil {
		t.root.Close()
	}
}

// openTrees opens the directories and their manifests, and counts the lines. So an invalid
// one is refused before any file is read.
func (r *run) openTrees(ctx context.Context) error {
	named, err := r.openNamed(ctx)
	if err != nil {
		return err
	}
	if named != nil {
		r.named = treeManifest{file: named.file, temp: named.temp}
		named.file, named.temp = nil, nil
	}
	for _, given := range r.opts.Paths {
		if err := r.openTree(ctx, given, named); err != nil {
			return err
		}
	}
	return nil
}

// openTree opens a directory and its manifests, or a manifest and its directory. named is
// the manifest for all directories, or nil.
func (r *run) openTree(ctx context.Context, given string, named *treeManifest) error {
	t := &tree{given: given, selects: r.opts.selects}
	r.trees = append(r.trees, t)
	own, err := r.openManifest(given)
	if err != nil {
		return err
	}
	if own != nil {
		own.tree, t.manifests, t.given = t, []*treeManifest{own}, filepath.Dir(given)
		if absolute, err := filepath.Abs(t.given); own.isHistory && err == nil && filepath.Base(absolute) == mhl.Folder {
			t.given = filepath.Join(t.given, "..")
		}
	}
	if err := t.openRoot(r.opts.FS, own != nil || r.opts.Manifest != ""); err != nil {
		return err
	}
	if r.opts.Unlisted {
		t.listed = &lookup.Set{}
	}
	complete := false // true to validate a bag, and not only check lines
	switch {
	case own != nil:
	case named != nil:
		s := *named
		s.tree = t
		t.manifests = []*treeManifest{&s}
	case r.opts.Manifest != "":
		err = t.openWithin(r.opts.Manifest, r.opts.choose())
	default:
		t.isSearched = true
		hint := "name one with --manifest"
		if r.byLine { // scrub has no such flag
			hint = "check that its volume is mounted"
		}
		err = t.find(r.opts.choose(), hint)
		complete = !r.byLine && r.opts.Filter == nil && r.opts.Only == nil
	}
	if err == nil {
		err = t.openBag(complete)
	}
	if err != nil {
		return err
	}
	if err := r.survey(ctx, t); err != nil {
		return err
	}
	for i, s := range t.signs {
		t.notes = slices.Insert(t.notes, i, note{Incomplete, s.Name, s.Err})
	}
	if r.opts.Begin != nil {
		return r.opts.Begin(t.root)
	}
	return nil
}

// openRoot opens the directory, and finds the signs of an unfinished copy in it. If the user named
// the manifest, the directory is not searched for others, so it need not be readable.
func (t *tree) openRoot(sys *fsys.FS, isNamed bool) (err error) {
	open := sys.OpenRoot
	if isNamed {
		open = sys.OpenLookup
	}
	if t.root, err = open(t.given); err == nil {
		t.info, err = t.root.Stat()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.Refuse("%s does not exist", quote.Name(t.given))
	case err != nil && fsys.IsSymlinkRefusal(err):
		return failure.Refuse("%s is neither a directory nor a manifest", quote.Name(t.given))
	case err != nil:
		return failure.Refuse("%s: %s", quote.Name(t.given), err)
	}
	t.signs, err = incomplete.Find(t.root)
	if isNamed && errors.Is(err, fs.ErrPermission) { // the directory grants only search permission
		err = nil
	}
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(t.given), err)
	}
	return nil
}

// openManifest opens a manifest that the user gave instead of a directory. It returns nil
// if the path is not that of a regular file.
func (r *run) openManifest(given string) (*treeManifest, error) {
	if info, err := os.Stat(given); err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilnil // openTree reports what else it is
	}
	if err := fsys.CheckLinks(given); err != nil {
		return nil, refused(given, err)
	}
	if r.opts.Manifest != "" {
		return nil, failure.Refuse("%s is not a directory, and --manifest already names the manifest", quote.Name(given))
	}
	f, info, err := r.opts.FS.OpenFile(given)
	if err != nil {
		return nil, refused(given, err)
	}
	s := &treeManifest{shown: given}
	return s, s.open(f, info, r.opts.choose())
}

// open uses an open manifest: a generation of an ASC MHL history, or a manifest whose name
// shows its format.
func (s *treeManifest) open(f *fsys.File, info fsys.Info, choose func(*mhl.Record) []mhl.Known) error {
	if strings.HasSuffix(s.shown, classic.Extension) {
		if taken, err := s.useGeneration(f, info, choose); taken || err != nil {
			f.Close()
			return err
		}
	}
	s.algorithm, s.format = manifest.AlgorithmIn(filepath.Base(s.shown))
	s.use(f, info)
	return nil
}

// openNamed opens the manifest that the user gave with --manifest. It returns nil if there
// is none. It also returns nil if the name does not exist here: each directory may have a
// manifest of this name, written by copy --manifest.
func (r *run) openNamed(ctx context.Context) (*treeManifest, error) {
	name := r.opts.Manifest
	if name == "" {
		return nil, nil
	}
	s := &treeManifest{shown: name}
	s.algorithm, s.format = manifest.AlgorithmIn(filepath.Base(name))
	if name == "-" {
		s.shown, s.algorithm = "standard input", ""
		in, err := r.opts.FS.InheritInputUntil(ctx, r.opts.Stdin)
		return s, s.readStream(in, err)
	}
	if err := fsys.CheckLinks(name); err != nil {
		return nil, refused(name, err)
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name):
		return nil, nil
	case err != nil:
		return nil, refused(s.shown, err)
	case !info.Mode().IsRegular():
		in, err := r.opts.FS.OpenInputUntil(ctx, name)
		return s, s.readStream(in, err)
	}
	f, opened, err := r.opts.FS.OpenFile(name)
	if err != nil {
		return nil, refused(s.shown, err)
	}
	return s, s.open(f, opened, r.opts.choose())
}

// smallManifest is the largest size, in bytes, of a manifest that is kept in memory instead
// of open. A directory may have one for every file.
const smallManifest = 4 << 10

// use sets the content of the manifest to the open file.
func (s *treeManifest) use(f *fsys.File, info fsys.Info) {
	s.file, s.in, s.size, s.id = f, fsys.ReaderAt{File: f}, info.Size, info.ID
	if s.size > smallManifest {
		return
	}
	content := make([]byte, s.size)
	if n, err := f.ReadAt(content, 0); err == nil { // otherwise the next read reports the error
		s.in, s.size, s.file = bytes.NewReader(content[:n]), int64(n), nil
		f.Close()
	}
}

// maxPiped is the largest size, in bytes, of a manifest from a pipe or device: some four
// million lines. Such input can be read only once, and may be endless.
const maxPiped = 512 << 20

// readStream reads a manifest from a stream, and closes it. err is the error of opening the stream.
func (s *treeManifest) readStream(in io.ReadCloser, err error) error {
	if err != nil {
		return refused(s.shown, err)
	}
	defer in.Close() //nolint:errcheck // it was only read
	return s.readAll(in, maxPiped)
}

// readAll reads a manifest of at most the given number of bytes.
func (s *treeManifest) readAll(in io.Reader, most int64) error {
	all, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return refused(s.shown, err)
	case int64(len(all)) > most:
		return refused(s.shown, fmt.Errorf("more than %d MiB come from there, which are kept in memory; put it into a file", most>>20))
	}
	s.in, s.size = bytes.NewReader(all), int64(len(all))
	return nil
}

func refused(shown string, err error) error {
	return failure.Refuse("manifest %s: %s", quote.Name(shown), fsys.BareError(err))
}

// openWithin opens the manifest that has the given name in the directory.
func (t *tree) openWithin(name string, choose func(*mhl.Record) []mhl.Known) error {
	look := fsys.NewFinder(t.root, 2)
	defer look.Close()
	shown := filepath.Join(t.given, name)
	f, info, err := look.Open(filepath.ToSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Refuse("there is no manifest %s, nor %s", quote.Name(name), quote.Name(shown))
	}
	if err != nil {
		return refused(shown, err)
	}
	s := &treeManifest{tree: t, shown: shown}
	t.manifests = append(t.manifests, s)
	return s.open(f, info, choose)
}

// find opens the manifests in the directory's root. The refusal of a directory without one ends with hint.
func (t *tree) find(choose func(*mhl.Record) []mhl.Known, hint string) error {
	var names []string
	history := false
	err := t.root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		history = history || string(name) == mhl.Folder
		if _, _, ok := manifest.Recognize(string(name)); ok {
			names = append(names, string(name))
		}
		return true
	})
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(t.given), err)
	}
	if history {
		if err := t.openHistory(choose); err != nil {
			return err
		}
	}
	slices.Sort(names)
	look := fsys.NewFinder(t.root, 1)
	defer look.Close()
	for _, name := range names {
		algorithm, format, _ := manifest.Recognize(name)
		f, info, err := look.Open(name)
		if other := (*fsys.KindError)(nil); errors.As(err, &other) {
			continue // a directory with the name of a manifest
		}
		if err != nil {
			t.notes = append(t.notes, note{Failure, name, fmt.Errorf("the manifest cannot be read: %w", err)})
			t.untrusted = append(t.untrusted, name)
			continue
		}
		if manifest.IsAppleDouble(name, fsys.ReaderAt{File: f}) {
			f.Close()
			continue
		}
		s := &treeManifest{tree: t, shown: filepath.Join(t.given, name), format: format, algorithm: algorithm, found: true}
		s.use(f, info)
		t.manifests = append(t.manifests, s)
	}
	if len(t.manifests) == 0 {
		if err := t.findUnfinishedBag(); err != nil {
			return err
		}
		if len(t.notes) > 0 {
			return failure.Refuse("%s: %s", quote.Name(filepath.Join(t.given, t.notes[0].path)), t.notes[0].err)
		}
		if len(t.signs) > 0 { // an interrupted first copy has no manifest yet
			t.notes = append(t.notes, note{Failure, "", errors.New("there is no manifest, so no file was checked")})
			return nil
		}
		return failure.Refuse("there is no manifest in %s (SHA256SUMS or the like); %s", quote.Name(t.given), hint)
	}
	return nil
}

var errNoLine = errors.New("not a manifest: no line has a digest")

// expectation is the content of a manifest entry for one file. The file must match all of
// it.
type expectation struct {
	path    string
	literal string          // a second spelling of path, or ""
	digests []hash.Expected // empty if only the size is listed
	size    int64           // size in bytes; -1 if it is not listed
}
