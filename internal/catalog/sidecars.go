package catalog

import (
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file finds the own manifests beside files that the run replaces, NAME.sha256 of rule 7. It
// has exactly one line, that of the file NAME, and matches it. One that does not match may be a publisher's
// for another version of the file, perhaps the new one.

// besideOf returns the file that the manifest l is beside. It is false for a manifest with a name of rule 2.
func besideOf(l *list) (file string, ok bool) {
	if slices.Contains(l.algorithm.FileNames(), l.path) {
		return "", false
	}
	return strings.CutSuffix(l.path, "."+l.algorithm.Extension())
}

// openSidecars opens the own manifests beside a file in the root of the destination that are not this
// run's. Those that the source has are left to the copy.
func (x *others) openSidecars(file string) (found []*list, err error) {
	for _, a := range hash.Algorithms() {
		l := &list{algorithm: a, path: file + "." + a.Extension()}
		if _, listed := slices.BinarySearch(x.beside, l.path); !listed || x.isManifest(l.path) {
			continue
		}
		if _, ok := besideOf(l); !ok {
			continue
		}
		if x.File == "" {
			if _, err := x.Source.Lstat(l.path); !fsys.NoSuchFile(err) {
				continue
			}
		}
		if isOwn, err := x.openSidecar(l, file); err != nil {
			return found, err
		} else if isOwn {
			found = append(found, l)
		}
	}
	return found, nil
}

// openSidecar opens the manifest l beside a file. It reports whether it is own and matches the file.
func (x *others) openSidecar(l *list, file string) (isOwn bool, err error) {
	o, err := openExisting(x.Root, l.path, l.algorithm)
	if o == nil || err != nil {
		return false, ignoreTaken(err)
	}
	defer func() {
		if !isOwn {
			o.close()
		}
	}()
	if o.index.Len() != 1 || x.beside.refuseCrowd(l.path, false) != nil {
		return false, nil
	}
	if l.given, _, err = o.index.Lookup(file); err != nil || l.given == nil {
		return false, err
	}
	o.path, l.prev = l.path, o
	return l.matches(x.Root, file)
}

// findSidecars opens the own manifests beside a file of a tree that the run is about to replace.
func (x *others) findSidecars(file string) ([]*list, error) {
	if x.File != "" || len(x.beside) == 0 || strings.Contains(file, "/") {
		return nil, nil
	}
	return x.openSidecars(file)
}

// moveSidecars moves manifests beside files aside. It closes them, because each of many files may have one.
func (x *others) moveSidecars(sidecars []*list) error {
	x.sidecars.Lock()
	defer x.sidecars.Unlock()
	for _, l := range sidecars {
		err := x.moveAside(l.prev)
		if l.prev.aside {
			x.keepMoved(l)
		}
		l.prev.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// MoveSidecars implements Planned.
func (m *manifests) MoveSidecars() error {
	var last string
	for _, entry := range m.beside {
		file := strings.TrimSuffix(entry, path.Ext(entry))
		if file == last {
			continue
		}
		last = file
		found, err := m.others.findSidecars(file)
		if err == nil {
			err = m.others.moveSidecars(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *others) keepMoved(l *list) {
	if x.sidecars.moved == nil {
		x.sidecars.moved = map[string]*list{}
	}
	x.sidecars.moved[l.path] = l
}

// openMoved opens the manifests beside files that an unfinished run has moved aside.
func (x *others) openMoved() error {
	if x.File != "" {
		return nil
	}
	for path := range x.Asides {
		for _, a := range hash.Algorithms() {
			l := &list{algorithm: a, path: path}
			file, ok := besideOf(l)
			if !ok || strings.Contains(path, "/") || x.isManifest(path) {
				continue
			}
			var err error
			if l.prev, err = x.openOne(path, a); err == nil && l.prev != nil {
				l.given, _, err = l.prev.index.Lookup(file)
				l.prev.close()
				x.keepMoved(l)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
