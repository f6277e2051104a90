package incomplete

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Sign is a marker or a journal in the root of a tree.
type Sign struct {
	Name    string
	Journal bool  // true for a journal, false for a marker
	Err     error // The kind of sign, and how to complete the copy.
}

// lockName is the file of a journal that a copy locks. If a journal has no other file
// except temporaries, its copy has finished.
const lockName = "lock"

// maxShown limits the part of a marker's claim that a message shows, in bytes.
const maxShown = 300

// Find returns the markers and the journals of unfinished copies in the root of a
// tree, in the order of their names.
func Find(root *fsys.Dir) ([]Sign, error) {
	names, err := list(root, func(name string) bool { return IsName(name) || fsys.IsJournal(name) })
	if err != nil {
		return nil, err
	}
	var signs []Sign
	for _, name := range names {
		var err error
		if fsys.IsJournal(name) {
			err = unfinished(root, name)
		} else if info, found := root.Lstat(name); found == nil && info.Kind == fsys.Regular || found != nil && !errors.Is(found, fs.ErrNotExist) {
			err = claim(root, name)
		}
		if err != nil {
			signs = append(signs, Sign{Name: name, Journal: fsys.IsJournal(name), Err: err})
		}
	}
	return signs, nil
}

// IsReserved reports whether an entry belongs to a copy and not to the tree in which it is. That is a
// journal or a marker in the root of the tree, or a temporary in any directory. No copy has it, and
// no manifest lists it. A marker is a regular
// file; if kind is Unknown, the name decides.
func IsReserved(name string, inRoot bool, kind fsys.Kind) bool {
	return fsys.IsTemp(name) || inRoot && (fsys.IsJournal(name) || IsName(name) && (kind == fsys.Regular || kind == fsys.Unknown))
}

// unfinished describes the journal of an unfinished copy. It returns nil for any other
// journal.
func unfinished(root *fsys.Dir, name string) error {
	work, err := holdsWork(root, name)
	switch {
	case err != nil:
		return fmt.Errorf("a copy into this directory may be unfinished: its journal cannot be read: %w", err)
	case work:
		return errors.New("a copy into this directory is unfinished or still running; if it is not running, run that copy again")
	}
	return nil
}

// holdsWork reports whether a journal belongs to an unfinished copy.
func holdsWork(root *fsys.Dir, name string) (bool, error) {
	info, err := root.Lstat(name)
	if err == nil && info.Kind != fsys.Directory {
		return false, nil // no copy has created it
	}
	var dir *fsys.Dir
	if err == nil {
		dir, err = root.OpenDir(name)
	}
	if errors.Is(err, fs.ErrNotExist) { // the copy has just finished
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	work := false
	err = dir.Each(func(name []byte, _ uint64, kind fsys.Kind) bool {
		work = kind != fsys.Directory && string(name) != lockName && !fsys.IsTemp(name)
		return !work
	})
	return work, err
}

// claim describes a marker by the text in its own head.
func claim(root *fsys.Dir, name string) error {
	head, _, err := Open(root, name)
	if err != nil {
		return fmt.Errorf("marks an incomplete copy (%w); Sealift does not remove this file: delete it when the copy is complete", err)
	}
	what := "paths are"
	if head.Missing == 1 {
		what = "path is"
	}
	return fmt.Errorf("the copy from %s is incomplete, %d %s missing or wrong; run the same copy again: it removes this file when it is complete", shown(head.Source), head.Missing, what)
}

// shown shortens and quotes a claim of a marker for a message.
func shown(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return quote.Text(s)
}
