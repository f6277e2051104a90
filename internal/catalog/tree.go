package catalog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
)

// Tree is the record.Book of the manifests in a destination. Usually these are in its root.
type Tree struct{ *manifests }

// chooseNames applies rules 2 and 3 to the manifests of all hashes.
func (m *manifests) chooseNames() error {
	for _, l := range m.lists {
		if err := m.choose(l); err != nil {
			return err
		}
	}
	// Only one manifest needs the lines, so those that stay are marked.
	if len(m.lists) == 1 && len(m.Hashes) == 1 && m.lists[0].prev != nil && !m.Shared {
		m.Files.Mark(m.lists[0].prev.index)
	}
	return nil
}

// choose applies rules 2 and 3 to the manifest of one hash of a tree. It sets the name, and opens
// the manifest of an earlier run.
func (m *manifests) choose(l *list) error {
	candidates := l.algorithm.FileNames()
	if m.Usual != "" {
		candidates = []string{m.Usual}
	}
	var first error
	for _, file := range candidates {
		l.path = file
		err := m.isFree(l)
		if ignoreTaken(err) != nil {
			return err
		}
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	l.path = candidates[0]
	return m.refuse(l.path, first)
}

// isFree opens the manifest of an earlier run at the path of l. The error is a *takenError if the
// source or the destination has something else that takes the name.
func (m *manifests) isFree(l *list) error {
	if m.File == "" {
		o, err := find(m.Source, m.nearSource, l.path, l.algorithm)
		if other, ok := errors.AsType[*takenError](err); ok {
			err = &takenError{"in the source, " + other.why}
		}
		if err != nil {
			return err
		}
		o.closeHome(m.Source)
		if o.isEmpty() {
			return &takenError{"in the source, it is empty"}
		}
	}
	if m.Root == nil {
		return nil
	}
	var err error
	if l.prev, err = m.findExisting(l.path, l.algorithm); err != nil {
		return err
	}
	if l.prev.isEmpty() && m.Usual == "" {
		return &takenError{"it is empty"}
	}
	return m.findAside(l)
}

// findAside finds the manifest that an unfinished run has moved aside.
func (m *manifests) findAside(l *list) error {
	name, isAside := m.Asides[l.path]
	if !isAside {
		return nil
	}
	aside, err := openAside(m.Root, l.path, name, l.algorithm)
	switch {
	case err != nil:
		return ignoreTaken(err) // it is not the manifest that the journal names
	case aside == nil:
	case l.prev == nil:
		l.prev = m.hold(aside)
	default: // the run was killed after it had written the new one
		m.hold(aside).close()
		m.leftover = append(m.leftover, aside)
	}
	return nil
}

// findExisting is find at the destination. The catalog closes the directory.
func (m *manifests) findExisting(file string, a hash.Algorithm) (*existing, error) {
	o, err := find(m.Root, m.near, file, a)
	return m.hold(o), err
}

// hold lets the catalog close the directory of a manifest at the destination.
func (m *manifests) hold(o *existing) *existing {
	if o != nil && o.home != m.Root {
		m.homes = append(m.homes, o.home)
	}
	return o
}

// Kept implements record.Book.
func (t *Tree) Kept(file string) record.Kept {
	marked := t.Files.Marked()
	if marked == nil {
		return t.manifests.Kept(file)
	}
	prev := t.lists[0].prev
	if !t.lists[0].isKnown(t.Destination) || prev.path == file { // no manifest can list itself
		return record.Kept{}
	}
	digest, line, err := marked.LookupLine(file)
	if line == 0 || err != nil { // Finish reports a line that cannot be read
		return record.Kept{Digests: make(hash.Digests, 1)}
	}
	return record.Kept{Digests: hash.Digests{digest}, Line: line, Complete: true}
}

// findNeighbours finds the neighbours of all names that manifests can have in the roots of source and
// destination, and the possible manifests beside one file in that of the destination.
func (m *manifests) findNeighbours() (err error) {
	var names []string
	for _, a := range hash.Algorithms() {
		names = append(names, a.FileNames()...)
	}
	if m.Usual != "" && !strings.Contains(m.Usual, "/") {
		names = append(names, m.Usual)
	}
	if m.File == "" {
		if m.nearSource, err = neighboursOf(m.Source, names...); err != nil {
			return err
		}
	}
	if m.Root != nil {
		m.near, m.beside, err = listNeighbours(m.Root, names, true)
	}
	return err
}

// findGuarded finds the paths of guarded and ofSource. They are all in the root.
func (m *manifests) findGuarded() error {
	return m.others.each(func(name string, a hash.Algorithm) error {
		if !m.nearSource.contain(name) {
			return nil
		}
		o, err := m.others.openOne(name, a)
		if o == nil || err != nil {
			return err
		}
		defer o.close()
		equal, err := m.others.equalsSource(o)
		switch {
		case err != nil:
		case equal:
			m.ofSource = append(m.ofSource, name)
		default:
			m.guarded = append(m.guarded, name)
		}
		return err
	})
}

// Names returns the paths of the run's manifests, relative to the destination.
func (m *manifests) Names() (names []string) {
	for _, l := range m.lists {
		names = append(names, l.path)
	}
	return names
}

// Special returns the paths of regular files in the source that no run copies, because Claim
// returns Own or Guarded for them.
func (m *manifests) Special() (files []string) {
	for _, file := range append(m.Names(), m.guarded...) {
		if m.Claim(file) != (record.Claim{}) && isRegular(m.Source, file) {
			files = append(files, file)
		}
	}
	return files
}

// isRegular reports whether a tree has a regular file at a path.
func isRegular(root *fsys.Dir, file string) bool {
	finder := fsys.NewFinder(root, 1)
	defer finder.Close()
	info, err := finder.Lstat(file)
	return err == nil && info.Kind == fsys.Regular
}

// EachKept calls yield for the lines of earlier manifests that Kept returns, with the index
// of the hash among those of the run.
func (m *manifests) EachKept(yield func(slot int, file string, digest []byte) error) error {
	if m.Outside != "" {
		return nil
	}
	for _, l := range m.lists {
		if !l.isKnown(m.Destination) {
			continue
		}
		err := l.prev.index.Each(func(file string, digest []byte) error {
			if file == l.path { // no manifest can list itself
				return nil
			}
			return yield(l.slot, file, digest)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
	}
	return nil
}

// Planned are line manifests as the plan of a copy needs them.
type Planned interface {
	record.Book
	Names() []string
	Special() []string
	EachKept(yield func(slot int, file string, digest []byte) error) error
	// MoveSidecars moves the own manifests beside files in the root aside, because tasks may replace these
	// files. Finish gives those of other files their names again.
	MoveSidecars() error
}
