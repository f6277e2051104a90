package verify

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// openHistory makes a manifest of the ASC MHL history in the directory's root and those below
// it, with their hashes as lines. The error is a *mhl.ChainError if a history does not
// match its chain.
func (t *tree) openHistory(choose func(*mhl.Record) []mhl.Known) error {
	survey, err := mhl.NewSurvey(t.root, mhl.NewIgnore().Hides)
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(t.given), err)
	}
	h, err := mhl.Open(t.root, survey.Nested, extsort.TempFile)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Name(t.given), err)
	}
	t.history = h
	if h.At("") == nil { // a directory of the same name
		return nil
	}
	shown := filepath.Join(t.given, mhl.Folder, mhl.ChainName)
	lines, size, err := h.Lines(choose, extsort.TempFile)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Name(t.given), err)
	}
	t.manifests = append(t.manifests, &treeManifest{tree: t, shown: shown, format: manifest.BSD, in: lines, size: size, temp: lines, isHistory: true})
	return nil
}

// useGeneration uses the lines of a single generation of an ASC MHL history from a file. It
// returns false for another kind of file.
func (s *treeManifest) useGeneration(f *fsys.File, info fsys.Info, choose func(*mhl.Record) []mhl.Known) (taken bool, err error) {
	in := f.Reader(info.Size)
	beginning := make([]byte, 1<<10)
	n, _ := in.ReadAt(beginning, 0) // a later read reports the error
	if !mhl.IsGeneration(beginning[:n]) {
		return false, nil
	}
	lines, size, err := mhl.GenerationLines(in, choose, extsort.TempFile)
	if _, contradicts := errors.AsType[*mhl.ChainError](err); contradicts {
		return true, fmt.Errorf("%s: %w", quote.Name(s.shown), err)
	}
	if err != nil {
		return true, refused(s.shown, err)
	}
	s.format, s.in, s.size, s.temp, s.id, s.isHistory = manifest.BSD, lines, size, lines, info.ID, true
	return true, nil
}

func (t *tree) closeHistory() {
	if t.history != nil {
		_ = t.history.Close() // temporaries that are not needed any more
	}
}

// hides reports whether the ignore patterns of a history leave a path out.
func (t *tree) hides(path string, isDir bool) bool {
	return t.history != nil && t.history.At("") != nil && t.history.Hides(path, isDir)
}

// findDirectories reports directories that the history of a tree lists and that do not
// exist.
func (r *run) findDirectories(t *tree) {
	if t.history == nil {
		return
	}
	for _, s := range t.manifests {
		if !s.isHistory {
			continue
		}
		finder := fsys.NewFinder(t.root, 4)
		err := t.history.Each(func(record *mhl.Record) error {
			if !record.IsDir || !t.selects(record.Path) {
				return nil
			}
			info, err := finder.Lstat(record.Path)
			switch {
			case err == nil && info.Kind == fsys.Directory:
			case err == nil:
				r.add(s, Missing, record.Path, errNoDirectory)
			case fsys.NoSuchFile(err):
				r.add(s, Missing, record.Path, err)
			default:
				r.add(s, Unreadable, record.Path, err)
			}
			return nil
		})
		finder.Close()
		if err != nil {
			r.add(s, Failure, filepath.Base(s.shown), err)
		}
	}
}

var errNoDirectory = errors.New("it is no directory any more")
