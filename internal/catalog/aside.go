package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
)

// This file moves manifests aside that list files which the run replaces. These are the previous
// ones of this run (rule 8) and all other own ones in the root of the destination (rule 1).

// wasPrefix begins the name of a manifest while the run replaces files that it lists.
const wasPrefix = fsys.Reserved + "was-"

// wasName returns that name for the manifest name.
func wasName(name string) string {
	if len(wasPrefix)+len(name) > fsys.MaxName-3 { // -99
		set := hash.NewSet([]hash.Algorithm{hash.XXH128})
		set.Write([]byte(name))
		name = strings.ToValidUTF8(name[:fsys.MaxName/2], "") + "-" + hash.XXH128.Text(set.Digests()[0])
	}
	return wasPrefix + name
}

// BeforeChange implements record.Book. If an own manifest lists the name, BeforeChange first moves
// all manifests aside that may list more than one file, and those beside the file.
func (m *manifests) BeforeChange(file string) error {
	if m.File != "" {
		if err := m.others.beforeSingle(); err != nil {
			return err
		}
	} else if err := m.others.find(); err != nil {
		return err
	}
	sidecars, err := m.others.findSidecars(file)
	if err != nil {
		return err
	}
	lists := func(l *list) bool {
		return l.lists(file) || slices.ContainsFunc(sidecars, func(s *list) bool { return l.lists(s.path) })
	}
	if slices.ContainsFunc(m.lists, lists) || slices.ContainsFunc(m.others.found, lists) {
		if err := m.BeforeChanges(); err != nil {
			return err
		}
	}
	return m.others.moveSidecars(sidecars)
}

// BeforeChanges implements record.Book. It renames the own manifests, so that none of them has its
// name while the run replaces files that it lists. A manifest that another process has changed
// since Open stays, and Finish reports it.
func (m *manifests) BeforeChanges() error {
	if m.Outside == "" && m.File == "" {
		if err := m.others.find(); err != nil {
			return err
		}
	}
	return m.aside.do(func() error {
		all := m.others.found
		if m.Outside == "" {
			all = append(slices.Clip(m.lists), all...)
		}
		for _, l := range all {
			if err := m.moveAside(l.prev); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *manifests) moveAside(prev *existing) error {
	if prev == nil || prev.aside {
		return nil
	}
	if inPlace, err := prev.isInPlace(); err != nil || !inPlace {
		return err
	}
	name, err := asideName(prev, m.Source)
	if err != nil {
		return err
	}
	if err := m.Journal.RecordAside(prev.path, name, m.Durable); err != nil {
		return err
	}
	if err := prev.home.RenameNew(prev.name, name); err != nil {
		return err
	}
	prev.aside, prev.name = true, name
	if m.Durable {
		return prev.home.Sync()
	}
	return nil
}

// asideName returns a name that neither the destination nor the source has. The source may have it,
// because it may be a copy of an unfinished one.
func asideName(prev *existing, source *fsys.Dir) (string, error) {
	finder := fsys.NewFinder(source, 1)
	defer finder.Close()
	for i := 1; ; i++ {
		name := wasName(prev.name)
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		_, here := prev.home.Lstat(name)
		_, there := finder.Lstat(path.Join(path.Dir(prev.path), name))
		switch free := errors.Is(here, fs.ErrNotExist); {
		case free && there != nil:
			return name, nil
		case !free && here != nil:
			return "", here
		case i == maxAsideNames:
			return "", fmt.Errorf("%s: %w", quoteName(name), fs.ErrExist)
		}
	}
}

// maxAsideNames limits the search for a name.
const maxAsideNames = 99

// moveBack renames a manifest back to its name, if it is aside.
func (m *manifests) moveBack(prev *existing) error {
	if prev == nil || !prev.aside {
		return nil
	}
	if err := prev.home.RenameNew(prev.name, path.Base(prev.path)); err != nil {
		return err
	}
	prev.aside, prev.name = false, path.Base(prev.path)
	if m.Durable {
		if err := prev.home.Sync(); err != nil {
			return err
		}
	}
	return m.Journal.ForgetAside(prev.path)
}

// NeedsJournal implements record.Book. It reports whether a manifest is aside. The journal shows
// which lines of that manifest are still right.
func (m *manifests) NeedsJournal() bool {
	all := slices.AppendSeq(append(slices.Clip(m.lists), m.others.found...), maps.Values(m.others.sidecars.moved))
	return slices.ContainsFunc(all, func(l *list) bool { return l.prev != nil && l.prev.aside })
}

// MoveBack renames the manifests at root that an unfinished run has moved aside back to their
// names, if no file that they list was replaced since. An existing name stays unchanged.
func MoveBack(root *fsys.Dir, asides map[string]string, j record.Journal) error {
	for _, file := range slices.Sorted(maps.Keys(asides)) {
		home, err := openHome(root, file, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = home.RenameNew(asides[file], path.Base(file))
		if err == nil {
			err = home.Sync()
		}
		if home != root {
			home.Close()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			err = j.ForgetAside(file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAside removes a manifest that is aside, because its lines are in another file now.
func (m *manifests) removeAside(o *existing) error {
	before, err := o.home.Stat()
	if err != nil {
		return err
	}
	o.close()
	if err := o.home.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.aside = false
	if err := m.settleHome(o.home, before); err != nil {
		return err
	}
	return m.Journal.ForgetAside(o.path)
}

// removeAsides removes the previous manifests that are aside, because their lines are in the new
// ones, and the records of all.
func (m *manifests) removeAsides() error {
	old := m.leftover
	for _, l := range m.lists {
		if l.prev != nil && l.prev.aside {
			old = append(old, l.prev)
		}
		l.prev.close()
	}
	for _, o := range old {
		if err := m.removeAside(o); err != nil {
			return fmt.Errorf("%s: %w", quoteName(o.name), err)
		}
	}
	for file := range m.Asides { // a killed run may have removed the manifest and not the record
		if err := m.Journal.ForgetAside(file); err != nil {
			return err
		}
	}
	return nil
}
