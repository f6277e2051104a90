package mhl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Tree has the histories of a directory tree.
type Tree struct {
	root      *fsys.Dir
	histories []*History // histories of the tree, sorted by path
	records   *records
}

// Open reads the history of a directory and those at nested, which a Survey has found. It
// checks them against their chains and their references. A tree may have no history. newSpill
// creates temporary files for data that exceeds the memory limits. The error is a *ChainError
// if a history does not match its chain.
func Open(root *fsys.Dir, nested []string, newSpill func() (extsort.Spill, error)) (_ *Tree, err error) {
	t := &Tree{root: root, records: newRecords(newSpill)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if err := t.load(root, ""); err != nil {
		return t, err
	}
	finder := fsys.NewFinder(root, 4)
	defer finder.Close()
	for _, path := range nested {
		dir, _, err := finder.Parent(path + "/" + Folder)
		if err == nil {
			err = t.load(dir, path)
		}
		if err != nil {
			return t, err
		}
	}
	slices.SortFunc(t.histories, func(a, b *History) int { return strings.Compare(a.Path, b.Path) })
	return t, t.checkReferences()
}

func (t *Tree) load(dir *fsys.Dir, path string) error {
	h, err := load(dir, path, t.records)
	if h != nil {
		t.histories = append(t.histories, h)
	}
	return err
}

// Close removes the temporary files.
func (t *Tree) Close() error { return t.records.close() }

// Histories returns the histories, sorted by path. The slice must not be changed.
func (t *Tree) Histories() []*History { return t.histories }

// At returns the history of the directory at a path, nil if it has none.
func (t *Tree) At(path string) *History {
	i, found := slices.BinarySearchFunc(t.histories, path, func(h *History, path string) int { return strings.Compare(h.Path, path) })
	if !found {
		return nil
	}
	return t.histories[i]
}

// CheckBag returns an error if the tree is a bag with a history in its payload, because a new
// generation would make the bag invalid.
func (t *Tree) CheckBag() error {
	if _, err := t.root.Lstat(bag.DeclarationName); err != nil {
		return nil //nolint:nilerr // it is no bag
	}
	for _, h := range t.histories {
		if bag.InPayload(h.Path + "/") {
			return fmt.Errorf("it is a bag, and %s is in its payload: a new generation there would make it invalid", quote.Name(join(h.Path, Folder)))
		}
	}
	return nil
}

// owner returns the path of the closest history above a path. It returns "" if that is the
// history of the tree or if there is none.
func (t *Tree) owner(path string) string {
	for end := strings.LastIndexByte(path, '/'); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if t.At(path[:end]) != nil {
			return path[:end]
		}
	}
	return ""
}

// checkReferences compares the references of the last generations with the chains of the
// histories that they refer to. A history that was moved or removed is no error here, because
// its files are missing, too.
func (t *Tree) checkReferences() error {
	for _, h := range t.histories {
		for _, r := range h.refer {
			dir, name, ok := cutFolder(r.Path)
			if !ok {
				continue
			}
			other := t.At(join(h.Path, dir))
			if other == nil {
				continue
			}
			at := slices.IndexFunc(other.Chain, func(l Link) bool { return l.Name == name })
			if at < 0 || !bytes.Equal(other.Chain[at].C4, r.C4) {
				return &ChainError{join(h.Path, r.Path), errors.New("the history above it refers to it with another C4 ID")}
			}
		}
	}
	return nil
}

// cutFolder splits the path of a generation: "dir/ascmhl/0001_dir.mhl".
func cutFolder(path string) (dir, name string, ok bool) {
	at := strings.LastIndex(path, "/"+Folder+"/")
	if at < 0 {
		return "", "", false
	}
	return path[:at], path[at+len(Folder)+2:], true
}

// Hides reports whether ignore patterns of the histories above a path match it.
func (t *Tree) Hides(path string, isDir bool) bool {
	if h := t.At(""); h != nil && h.Ignore.Hides(path, isDir) {
		return true
	}
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if h := t.At(path[:i]); h != nil && h.Ignore.Hides(path[i+1:], isDir) {
			return true
		}
	}
	return false
}

// Each calls yield for the records of the histories that no pattern hides, sorted by path. For
// sorting, the paths of directories end in a slash. The record is valid during the call.
func (t *Tree) Each(yield func(*Record) error) error {
	return t.records.each(func(r *Record) error {
		if t.Hides(r.Path, r.IsDir) {
			return nil
		}
		return yield(r)
	})
}

// Formats returns the given hashes and the further ones that are needed so that each listed
// file can be compared by at least one of its hashes.
func (t *Tree) Formats(hashes []hash.Algorithm) (needed []hash.Algorithm, err error) {
	needed = slices.Clone(hashes)
	err = t.Each(func(r *Record) error {
		has := slices.ContainsFunc(r.Known, func(k Known) bool { return slices.Contains(needed, k.Algorithm) })
		if !has && len(r.Known) > 0 {
			needed = append(needed, r.Known[0].Algorithm)
		}
		return nil
	})
	return needed, err
}

// Survey has the facts about a tree that a history of it depends on.
type Survey struct {
	Nested []string // directories below the tree that have a history, in no order
	// Others are entries that are neither files nor directories, which no history can
	// list.
	Others []string
	Unfit  quote.Unfit // paths that XML cannot contain
	// Blocked means that the root has an entry with the name ascmhl that is no directory. No
	// history can be written there.
	Blocked bool
}

// ErrBlocked is the reason of a refusal if a Survey is Blocked.
var ErrBlocked = errors.New("its " + Folder + " is not a directory, and the history needs this name; rename it")

// maxOthers limits the entries that need a separate ignore pattern.
const maxOthers = 2000

// NewSurvey lists a tree without the paths for which skip returns true. It follows no symbolic
// link.
func NewSurvey(root *fsys.Dir, skip func(path string, isDir bool) bool) (*Survey, error) {
	s := &Survey{}
	err := Each(root, func(path string, kind fsys.Kind) (enter bool, err error) {
		isDir := kind == fsys.Directory
		name := path[strings.LastIndexByte(path, '/')+1:]
		if name == Folder && isDir {
			return false, s.folder(root, strings.TrimSuffix(strings.TrimSuffix(path, name), "/"))
		}
		s.Blocked = s.Blocked || path == Folder
		if isReserved(path, kind) || skip(path, isDir) {
			return false, nil
		}
		if !Representable(name) {
			s.Unfit.Add(path, "")
		}
		if !isDir && kind != fsys.Regular {
			if len(s.Others) == maxOthers {
				return false, fmt.Errorf("it has more than %d symbolic links and special files, which no history can list", maxOthers)
			}
			s.Others = append(s.Others, path)
		}
		return isDir, nil
	})
	return s, err
}

// PatternsFor returns ignore patterns for entries that no history can list. Entries that a
// history or hidden hides already need none. The error names another entry that a pattern
// would hide.
func (t *Tree) PatternsFor(others []string, hidden func(path string, isDir bool) bool) (patterns []string, err error) {
	listed := map[string]bool{}
	for _, path := range others {
		listed[path] = true
		if !t.Hides(path, false) {
			patterns = append(patterns, PatternFor(path))
		}
	}
	if patterns == nil {
		return nil, nil
	}
	found, err := t.FirstHidden(NewIgnore(patterns...), func(path string, isDir bool) bool { return listed[path] || hidden(path, isDir) })
	if err == nil && found != "" {
		err = fmt.Errorf("ASC MHL lists no symbolic links and special files, and the ignore pattern for one would leave out %s as well; choose a pattern with --mhl-ignore, or rename it", quote.Name(found))
	}
	return patterns, err
}

// FirstHidden returns a path of the tree that the patterns would hide, and that neither hidden
// nor a pattern of a history hides already; "" if there is none.
func (t *Tree) FirstHidden(patterns *Ignore, hidden func(path string, isDir bool) bool) (found string, err error) {
	err = Each(t.root, func(path string, kind fsys.Kind) (enter bool, err error) {
		isDir := kind == fsys.Directory
		name := path[strings.LastIndexByte(path, '/')+1:]
		if found != "" || name == Folder || isReserved(path, kind) || t.Hides(path, isDir) || hidden(path, isDir) {
			return false, nil
		}
		if patterns.Hides(path, isDir) {
			found = path
		}
		return isDir, nil
	})
	return found, err
}

// isReserved is incomplete.IsReserved for a path of a tree.
func isReserved(path string, kind fsys.Kind) bool {
	at := strings.LastIndexByte(path, '/') + 1
	return incomplete.IsReserved(path[at:], at == 0, kind)
}

// folder records the history in a directory with the name ascmhl below dir, if there is one.
func (s *Survey) folder(root *fsys.Dir, dir string) error {
	if dir == "" {
		return nil
	}
	finder := fsys.NewFinder(root, 1)
	defer finder.Close()
	parent, _, err := finder.Parent(dir + "/" + Folder)
	if err != nil {
		return err
	}
	folder, err := parent.OpenDir(Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	found, err := isHistory(folder)
	if found {
		s.Nested = append(s.Nested, dir)
	}
	return err
}

// Each calls yield for all entries below a directory, in no order, and enters those
// directories for which it returns true. It follows no symbolic link.
func Each(root *fsys.Dir, yield func(path string, kind fsys.Kind) (enter bool, err error)) error {
	finder := fsys.NewFinder(root, 64)
	defer finder.Close()
	pending := []string{""}
	for len(pending) > 0 {
		path := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		dir := root
		if path != "" {
			var err error
			if dir, _, err = finder.Parent(path + "/x"); err != nil {
				if fsys.NoSuchFile(err) {
					continue // the entry was removed
				}
				return fmt.Errorf("%s: %w", quote.Name(path), err)
			}
		}
		var failed error
		err := dir.Each(func(name []byte, _ uint64, kind fsys.Kind) bool {
			if kind == fsys.Unknown {
				info, err := dir.Lstat(string(name))
				if fsys.NoSuchFile(err) {
					return true
				}
				if failed = err; err != nil {
					return false
				}
				kind = info.Kind
			}
			entry := join(path, string(name))
			enter, err := yield(entry, kind)
			if failed = err; enter && err == nil {
				pending = append(pending, entry)
			}
			return err == nil
		})
		if failed != nil {
			return failed
		}
		if err != nil && path != "" {
			err = fmt.Errorf("%s: %w", quote.Name(path), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
