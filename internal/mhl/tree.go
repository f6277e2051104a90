package mhl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Tree has the histories of a directory tree.
type Tree struct {
	root      *fsys.Dir
	histories []*History // sorted by path
	records   *records
}

// Open reads the history of a directory and those at nested, which a Survey has found, and
// checks them against their chains and their references. A tree may have no history.
// newSpill makes a temporary for what does not fit into memory. The error is a *ChainError
// if a history is not as its chain says.
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

// owner returns the path of the closest history above a path, "" if there is none or it is
// that of the tree.
func (t *Tree) owner(path string) string {
	for end := strings.LastIndexByte(path, '/'); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if t.At(path[:end]) != nil {
			return path[:end]
		}
	}
	return ""
}

// checkReferences compares the references of the last generations with the chains of the
// histories that they refer to. One that was moved or removed lacks its files as well.
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

// cutFolder takes the path of a generation apart: "dir/ascmhl/0001_dir.mhl".
func cutFolder(path string) (dir, name string, ok bool) {
	at := strings.LastIndex(path, "/"+Folder+"/")
	if at < 0 {
		return "", "", false
	}
	return path[:at], path[at+len(Folder)+2:], true
}

// Hides reports whether the ignore patterns of a history leave out a path: those of the
// tree, and those of the histories above the path.
func (t *Tree) Hides(path string, isDir bool) bool {
	for _, h := range t.histories {
		below, within := strings.CutPrefix(path, h.Path+"/")
		if h.Path == "" {
			below, within = path, true
		}
		if within && h.Ignore.Hides(below, isDir) {
			return true
		}
	}
	return false
}

// Each calls yield for what the histories list and no pattern hides, sorted by path, where
// directories count as if they ended in a slash. The record is valid during the call.
func (t *Tree) Each(yield func(*Record) error) error {
	return t.records.each(func(r *Record) error {
		if t.Hides(r.Path, r.IsDir) {
			return nil
		}
		return yield(r)
	})
}

// Formats returns hashes, and those besides them that are needed to compare each listed file
// with one of its hashes at least.
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

// Survey is what there is in a tree that matters to a history of it.
type Survey struct {
	Nested []string // directories below the tree that have a history, in no order
	// Others are entries that are neither files nor directories, which no history can
	// list.
	Others []string
	// Unfit are the first paths that XML cannot hold, and UnfitCount is how many there are.
	Unfit      []string
	UnfitCount int
}

// maxOthers is how many entries may need an ignore pattern of their own.
const maxOthers = 2000

// NewSurvey lists a tree, except for what skip leaves out. It follows no symbolic link.
func NewSurvey(root *fsys.Dir, skip func(path string, isDir bool) bool) (*Survey, error) {
	s := &Survey{}
	err := Each(root, func(path string, kind fsys.Kind) (enter bool, err error) {
		isDir := kind == fsys.Directory
		name := path[strings.LastIndexByte(path, '/')+1:]
		if name == Folder && isDir {
			return false, s.folder(root, strings.TrimSuffix(strings.TrimSuffix(path, name), "/"))
		}
		if strings.HasPrefix(name, fsys.Reserved) || skip(path, isDir) {
			return false, nil
		}
		if !Representable(name) {
			if s.UnfitCount++; len(s.Unfit) < 10 {
				s.Unfit = append(s.Unfit, path)
			}
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

// PatternsFor returns ignore patterns for entries that no history can list, except for those
// that are hidden already, by a history or by hidden. The error says which other entry a
// pattern would hide.
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

// FirstHidden returns a path of the tree that the patterns would leave out, and that
// neither hidden nor a pattern of a history leaves out already; "" if there is none.
func (t *Tree) FirstHidden(patterns *Ignore, hidden func(path string, isDir bool) bool) (found string, err error) {
	err = Each(t.root, func(path string, kind fsys.Kind) (enter bool, err error) {
		isDir := kind == fsys.Directory
		name := path[strings.LastIndexByte(path, '/')+1:]
		if found != "" || name == Folder || strings.HasPrefix(name, fsys.Reserved) || t.Hides(path, isDir) || hidden(path, isDir) {
			return false, nil
		}
		if patterns.Hides(path, isDir) {
			found = path
		}
		return isDir, nil
	})
	return found, err
}

// folder notes the history in a directory called ascmhl below dir, if there is one.
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
					continue // it is gone
				}
				return fmt.Errorf("%.200q: %w", path, err)
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
		if err != nil {
			return fmt.Errorf("%.200q: %w", path, err)
		}
	}
	return nil
}
