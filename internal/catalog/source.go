package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
)

// Source has the manifests in the source. It knows which digests its files should have. Several goroutines may call Expect.
type Source struct {
	root     *fsys.Dir
	hashes   []hash.Algorithm
	lists    []*sourceList
	bag      *bagSource           // nil if the source is not a bag, or its manifests are not checked here
	sidecars map[string][]sidecar // by the name of the file in the root

	validates bool     // true if the source is a bag that the run validates
	payload   bag.Oxum // counted files

	temporaries []extsort.Spill // lines of the histories
}

// sourceList is a manifest in the source that lists any number of files.
type sourceList struct {
	name  string
	slot  int // of its hash among those of the run
	file  *fsys.File
	text  io.Closer // of a manifest that is not in UTF-8; nil for others
	index *manifest.Index
	isBag bool // it is a manifest of a bag
}

// sidecar is a manifest beside one file of the source's root.
type sidecar struct {
	name string
	slot int
}

// SourceOptions say which manifests of the source to open.
type SourceOptions struct {
	Hashes []hash.Algorithm
	File   string   // the name of the single file that is copied; "" for a tree
	Names  []string // further names of manifests: those of --manifest
	Check  bool     // if false, the digests in them are ignored
	Bag    bool     // the source is a bag, and is validated completely

	// Histories are those of the source, which are also checked. If they are nil, OpenSource
	// opens the one of the root.
	Histories *Histories
}

// Severity is the effect of a Problem on the run.
type Severity uint8

// The severities.
const (
	Warning Severity = iota
	Mismatch
	Failure
)

// Problem is a fact about a manifest of the source that the user has to know.
type Problem struct {
	Path     string
	Severity Severity
	Err      error
}

const (
	// maxSourceLists limits the manifests of a source that are checked, without sidecars.
	maxSourceLists = 256

	// heldInMemory is the largest size, in bytes, of a manifest that is kept in memory
	// instead of open.
	heldInMemory = 256 << 10
)

// OpenSource opens the manifests in the root of a source that list digests which the run
// computes.
func OpenSource(root *fsys.Dir, o SourceOptions) (*Source, []Problem) {
	s := &Source{root: root, hashes: o.Hashes, validates: o.Bag, sidecars: map[string][]sidecar{}}
	if !o.Check || len(o.Hashes) == 0 {
		return s, nil
	}
	finder := fsys.NewFinder(root, 2)
	defer finder.Close()
	var problems []Problem
	found, err := findLists(root, o)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // otherwise the walk reports it
		problems = append(problems, Problem{"", Failure, fmt.Errorf("looking for manifests: %w", err)})
	}
	var declared bag.Declared
	var declareErr error
	if o.Bag || slices.ContainsFunc(found, func(c foundList) bool { return c.format == manifest.BagIt }) {
		declared, declareErr = readDeclaration(root)
		if !o.Bag && declareErr != nil && !errors.Is(declareErr, fs.ErrNotExist) {
			problems = append(problems, Problem{bag.DeclarationName, Warning, declareErr})
		}
	}
	for _, c := range found {
		usual := slices.Contains(o.Hashes[c.slot].FileNames(), c.name) || slices.Contains(o.Names, c.name) || o.File != ""
		if base, ok := sidecarOf(c.name); ok && s.isSidecar(c.name, base, o.Hashes[c.slot]) {
			s.sidecars[base] = append(s.sidecars[base], sidecar{c.name, c.slot})
			continue
		}
		if len(s.lists) == maxSourceLists {
			problems = append(problems, Problem{c.name, Warning, fmt.Errorf("it and the manifests after it are not checked: the source has more than %d", maxSourceLists)})
			break
		}
		l, more := openSourceList(finder, c, o.Hashes[c.slot], usual, o.Bag && c.format == manifest.BagIt, declared.Encoding)
		problems = append(problems, more...)
		if l != nil {
			s.lists = append(s.lists, l)
		}
	}
	if o.Bag {
		problems = append(problems, s.openBag(declared, declareErr)...)
	}
	var histories *mhl.Tree
	if o.Histories != nil {
		histories = o.Histories.source
	} else if o.File == "" {
		var more []Problem
		histories, more = s.openRootHistory()
		problems = append(problems, more...)
		if histories != nil {
			defer histories.Close() //nolint:errcheck // a temporary that is not needed any more
		}
	}
	return s, append(problems, s.openHistories(histories)...)
}

// foundList is the name of a possible manifest for one of the run's hashes.
type foundList struct {
	name   string
	slot   int // of the hash
	format manifest.Format
}

// findLists returns the names that manifests in the root of the source can have. These are names
// that the root has, and those of a single file and of --manifest, which may not exist. After an
// error, names of the root may be absent.
func findLists(root *fsys.Dir, o SourceOptions) (found []foundList, err error) {
	if o.File == "" {
		err = root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
			algorithm, format, ok := manifest.Recognize(string(name))
			for slot, a := range o.Hashes {
				// A manifest whose name has no algorithm can list digests of each hash.
				if ok && (algorithm == a || algorithm == "") {
					found = append(found, foundList{string(name), slot, format})
				}
			}
			return true
		})
		slices.SortStableFunc(found, func(a, b foundList) int { return strings.Compare(a.name, b.name) })
	}
	for slot, a := range o.Hashes {
		if o.File != "" {
			found = append(found, foundList{o.File + "." + a.Extension(), slot, manifest.GNU})
		}
		for _, name := range o.Names {
			if !slices.ContainsFunc(found, func(l foundList) bool { return l.name == name && l.slot == slot }) {
				found = append(found, foundList{name, slot, manifest.GNU})
			}
		}
	}
	return found, err
}

// openRootHistory opens the history of the root, if the run computes a hash that it can have.
func (s *Source) openRootHistory() (*mhl.Tree, []Problem) {
	if !slices.ContainsFunc(s.hashes, func(a hash.Algorithm) bool { return slices.Contains(mhl.Algorithms(), a) }) {
		return nil, nil
	}
	tree, err := mhl.Open(s.root, nil, extsort.TempFile)
	if err == nil {
		return tree, nil
	}
	severity, file := Failure, mhl.Folder
	if chain := (*mhl.ChainError)(nil); errors.As(err, &chain) {
		severity, file, err = Warning, chain.Path, fmt.Errorf("the history is not checked: %w", chain.Err)
	}
	return nil, []Problem{{file, severity, err}}
}

// openHistories makes a list of each hash that the histories of the source have.
func (s *Source) openHistories(t *mhl.Tree) (problems []Problem) {
	if t == nil || len(t.Histories()) == 0 {
		return nil
	}
	for slot, a := range s.hashes {
		lines, size, err := t.Lines(mhl.Of(a), extsort.TempFile)
		var index *manifest.Index
		if err == nil {
			s.temporaries = append(s.temporaries, lines)
			index, err = manifest.BuildCheckIndex(lines, size, manifest.BSD, a)
		}
		name := path.Join(mhl.Folder, mhl.ChainName)
		if chain, ok := errors.AsType[*mhl.ChainError](err); ok {
			problems = append(problems, Problem{chain.Path, Mismatch, chain.Err})
			continue
		}
		if err != nil {
			problems = append(problems, Problem{name, Failure, err})
			continue
		}
		if index.Len() > 0 {
			s.lists = append(s.lists, &sourceList{name: name, slot: slot, index: index})
		}
	}
	return problems
}

// sidecarOf returns the name of the file in the root that the manifest name, also in the
// root, may list.
func sidecarOf(name string) (base string, ok bool) {
	if stem := name[:max(len(name)-4, 0)]; strings.EqualFold(name[len(stem):], ".txt") {
		name = stem
	}
	dot := strings.LastIndexByte(name, '.')
	return name[:max(dot, 0)], dot > 0 && !strings.Contains(name, "/")
}

// isSidecar reports whether the file name lists only the digest of the file base. Each of
// many files may have a sidecar, so it is not kept open.
func (s *Source) isSidecar(name, base string, a hash.Algorithm) bool {
	if info, err := s.root.Lstat(base); err != nil || info.Kind != fsys.Regular {
		return false
	}
	_, alone, err := givenIn(s.root, name, base, a, false)
	return err == nil && alone
}

// openSourceList opens a manifest. It returns nil if no file of that name has a digest.
// That is a problem only if the name is one that Sealift uses (usual).
func openSourceList(finder *fsys.Finder, c foundList, a hash.Algorithm, usual, isBag bool, e bag.Encoding) (*sourceList, []Problem) {
	name := c.name
	problem := func(severity Severity, err error) []Problem { return []Problem{{name, severity, err}} }
	info, err := finder.Lstat(name)
	switch {
	case fsys.NoSuchFile(err), errors.Is(err, fsys.ErrOutside), err != nil && fsys.IsSymlinkRefusal(err):
		return nil, nil
	case err != nil:
		return nil, problem(Failure, err)
	case info.Kind != fsys.Regular && info.Kind != fsys.Symlink:
		return nil, nil
	}
	isLink := info.Kind == fsys.Symlink
	f, info, err := finder.Open(name)
	if err != nil && isLink {
		return nil, problem(Warning, fmt.Errorf("it is a link, and the file that it leads to is not checked as a manifest: %w", err))
	}
	if err != nil {
		return nil, problem(Failure, err)
	}
	l := &sourceList{name: name, slot: c.slot, file: f, isBag: isBag}
	var content io.ReaderAt = fsys.ReaderAt{File: f}
	if manifest.IsAppleDouble(name, content) {
		l.close()
		return nil, nil
	}
	if info.Size <= heldInMemory {
		held, err := io.ReadAll(io.NewSectionReader(content, 0, info.Size))
		l.close()
		if err != nil {
			return nil, problem(Failure, err)
		}
		content, info.Size = bytes.NewReader(held), int64(len(held))
	}
	if c.format == manifest.BagIt {
		text, size, err := e.Decode(content, info.Size)
		if err != nil {
			l.close()
			return nil, problem(Mismatch, err)
		}
		if text != nil {
			l.text, content, info.Size = text, text, size
		}
	}
	l.index, err = manifest.BuildCheckIndex(content, info.Size, c.format, a)
	if err != nil {
		l.close()
		if document, ok := errors.AsType[*manifest.DocumentError](err); ok {
			return nil, problem(Warning, fmt.Errorf("it is not checked: %w", document))
		}
		return nil, problem(Failure, err)
	}
	bad := l.index.Malformed()
	if isBag {
		if bad > 0 {
			return l, problem(Mismatch, fmt.Errorf("it has lines that are not those of a manifest (%d)", bad))
		}
		return l, nil
	}
	if l.index.Len() == 0 {
		l.close()
		if bad > 0 && usual {
			return nil, problem(Warning, fmt.Errorf("it is not checked: no line has a %s digest", a))
		}
		return nil, nil
	}
	switch {
	case bad == 1:
		return l, problem(Warning, errors.New("1 line of it could not be read and is not checked"))
	case bad > 1:
		return l, problem(Warning, fmt.Errorf("it has lines that could not be read and are not checked (%d)", bad))
	}
	return l, nil
}

func (l *sourceList) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if l.text != nil {
		_ = l.text.Close() // a temporary that is not needed any more
		l.text = nil
	}
}

// Close closes the manifests.
func (s *Source) Close() {
	for _, l := range s.lists {
		l.close()
	}
	for _, lines := range s.temporaries {
		_ = lines.Close() // a temporary that is not needed any more
	}
	s.temporaries = nil
}

// Expectation has the digests of one file in the manifests of the source.
type Expectation struct {
	lines   []Listed
	invalid error // why the file is invalid in a bag
}

// Listed has the digests of one file in one manifest of the source.
type Listed struct {
	Manifest string // path of the manifest; "" for one that lists only the file beside it
	Slot     int    // index of its hash among those of the run
	Digests  [][]byte
}

// NewExpectation returns the expectation for a file that manifests list with these lines.
func NewExpectation(lines []Listed) Expectation { return Expectation{lines: lines} }

// Any reports whether a manifest lists the file.
func (x Expectation) Any() bool { return len(x.lines) > 0 }

// Invalid returns an error if the file is invalid in a bag with any content, otherwise nil.
func (x Expectation) Invalid() error { return x.invalid }

// Met reports whether all manifests that list the file have these digests.
func (x Expectation) Met(digests hash.Digests) bool {
	_, wrong := x.refuting(digests)
	return wrong == nil
}

// refuting returns the first lines that have another digest, and that digest; nil if there are none.
func (x Expectation) refuting(digests hash.Digests) (l Listed, digest []byte) {
	for _, l := range x.lines {
		for _, digest := range l.Digests {
			if !bytes.Equal(digest, digests[l.Slot]) {
				return l, digest
			}
		}
	}
	return l, nil
}

// Mismatch returns an error that says how the digests of the file, by the hashes, differ from its lines;
// nil if Met.
func (x Expectation) Mismatch(hashes []hash.Algorithm, digests hash.Digests) error {
	l, listed := x.refuting(digests)
	if listed == nil {
		return nil
	}
	name := "its manifest"
	if l.Manifest != "" {
		name = quoteName(l.Manifest)
	}
	if len(l.Digests) > 1 {
		return fmt.Errorf("not copied: %s lists it with different digests; correct that manifest, or use --source-manifest=ignore", name)
	}
	a := hashes[l.Slot]
	return fmt.Errorf("not copied: its %s is %s, but %s lists %s; restore it, or use --source-manifest=ignore", a, a.Text(digests[l.Slot]), name, a.Text(listed))
}

// Expect returns the digests of the file at a path in the manifests of the source. It also
// records for Absent that the file exists. The error names the manifest that cannot be
// read.
func (s *Source) Expect(file string) (x Expectation, err error) {
	listed := false // in a payload manifest
	for _, l := range s.lists {
		if l.name == file {
			continue // no manifest can list its own digest; find with sha256sum writes such lines
		}
		found, err := s.listed(l, file)
		if err != nil {
			return x, fmt.Errorf("%s: %w", quoteName(l.name), err)
		}
		if l.isBag && x.invalid == nil {
			x.invalid = s.bag.check(l, file, found)
		}
		if len(found.Digests) > 0 {
			l.index.Meet(found)
			x.lines = append(x.lines, Listed{l.name, l.slot, found.Digests})
			listed = listed || l.isPayload()
		}
	}
	if s.bag != nil && bag.InPayload(file) && !listed {
		x.invalid = errUnlisted
	}
	for _, c := range s.sidecars[file] {
		digest, _, err := givenIn(s.root, c.name, file, s.hashes[c.slot], false)
		if err != nil {
			return x, fmt.Errorf("%s: %w", quoteName(c.name), err)
		}
		if digest != nil {
			x.lines = append(x.lines, Listed{c.name, c.slot, [][]byte{digest}})
		}
	}
	return x, nil
}

// listed looks a path up, also in the spelling of Windows, unless the source has a file
// with that literal name.
func (s *Source) listed(l *sourceList, file string) (manifest.Listing, error) {
	found, err := l.index.Listing(file)
	if l.isBag && err == nil && len(found.Digests) == 0 {
		return s.listedInBag(l, file)
	}
	if err != nil || len(found.Digests) > 0 || !strings.Contains(file, "/") {
		return found, err
	}
	literal := strings.ReplaceAll(file, "/", `\`)
	found, err = l.index.Listing(literal)
	if err == nil && len(found.Digests) > 0 {
		if _, there := s.root.Lstat(literal); there == nil {
			return manifest.Listing{}, nil
		}
	}
	return found, err
}

// Absent calls yield once for each path that the manifests list and that was not passed to
// Expect, with the name of the manifest. The error is that of yield, or names the manifest
// that cannot be read.
func (s *Source) Absent(yield func(list, file string, bag bool) error) error {
	for i, l := range s.lists {
		var yieldErr error
		err := l.index.Unmet(func(file string) error {
			if file != l.name && !s.listedBefore(i, file) {
				yieldErr = yield(l.name, file, l.isBag)
			}
			return yieldErr
		})
		if yieldErr != nil {
			return yieldErr
		}
		if err != nil {
			return &ListError{l.name, err}
		}
	}
	return nil
}

// ListError means that a manifest of the source cannot be read.
type ListError struct {
	Name string
	Err  error
}

func (e *ListError) Error() string { return quoteName(e.Name) + ": " + e.Err.Error() }
func (e *ListError) Unwrap() error { return e.Err }

// listedBefore reports whether an earlier manifest lists the path.
func (s *Source) listedBefore(i int, file string) bool {
	for _, l := range s.lists[:i] {
		if found, err := l.index.Listing(file); err == nil && len(found.Digests) > 0 {
			return true
		}
	}
	return false
}
