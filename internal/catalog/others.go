package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// others are the own manifests in the root of the destination that are not this run's. By rule 1,
// they lose the lines of files that the run replaces, and of manifests that change.
type others struct {
	*manifests
	found    []*list   // with names of rule 2; for a single file, also those beside it
	once     onceError // finding them
	sidecars struct {
		sync.Mutex
		moved map[string]*list // those beside one file that are aside, by their paths
	}
	order []*list // own manifests that change, each one after those that list it
}

// find opens the other manifests, once. It leaves out those that describe the source. The source may be
// closed.
func (x *others) find() error { return x.once.do(x.open) }

func (x *others) open() error {
	if x.Root == nil {
		return nil
	}
	if err := x.openMoved(); err != nil {
		return err
	}
	return x.each(func(name string, a hash.Algorithm) error {
		if slices.Contains(x.ofSource, name) {
			return nil
		}
		o, err := x.openOne(name, a)
		if o != nil && err == nil {
			x.found = append(x.found, &list{algorithm: a, path: name, prev: o})
		}
		return err
	})
}

// each calls yield for the names in the root of the destination that manifests of earlier
// runs can have and those of this run do not have.
func (x *others) each(yield func(name string, a hash.Algorithm) error) error {
	for _, a := range hash.Algorithms() {
		for _, name := range a.FileNames() {
			if x.isManifest(name) {
				continue
			}
			if err := yield(name, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// openOne opens an own manifest in the root of the destination, also one that is aside. It
// returns nil if there is none.
func (x *others) openOne(file string, a hash.Algorithm) (*existing, error) {
	var o *existing
	var err error
	if x.near.contain(file) {
		o, err = x.findExisting(file, a)
	}
	if o.isEmpty() {
		o.close()
		return nil, nil
	}
	name, isAside := x.Asides[file]
	if err != nil || !isAside {
		return o, ignoreTaken(err)
	}
	aside, err := openAside(x.Root, file, name, a)
	switch {
	case err != nil || aside == nil:
		return o, ignoreTaken(err)
	case o != nil: // the run was killed after it had written the new one
		aside.close()
		x.leftover = append(x.leftover, aside)
		return o, nil
	}
	if _, gone := x.Root.Lstat(file); !errors.Is(gone, fs.ErrNotExist) { // its name is taken
		aside.close()
		return nil, nil
	}
	return aside, nil
}

// equalsSource reports whether the source has a file of the same name and content as a manifest in
// the root of the destination.
func (x *others) equalsSource(o *existing) (bool, error) {
	if !x.nearSource.contain(o.path) || !isRegular(x.Source, o.path) {
		return false, nil
	}
	f, info, err := x.Source.OpenRegular(o.path)
	if err != nil {
		return false, nil //nolint:nilerr // copying the file reports it
	}
	defer f.Close()
	equal, err := sameContent(o.file, f, o.info.Size, info.Size)
	if err != nil {
		err = fmt.Errorf("%s: %w", quoteName(o.path), err)
	}
	return equal, err
}

// isAside reports whether an other manifest with this path is aside.
func (x *others) isAside(file string) bool {
	l := x.sidecars.moved[file]
	if l == nil {
		if i := slices.IndexFunc(x.found, func(l *list) bool { return l.path == file }); i >= 0 {
			l = x.found[i]
		}
	}
	return l != nil && l.prev.aside
}

// judge finds out which own manifests change. These are the ones of this run with other content, and the
// others that list a replaced file. Each manifest that lists one of them changes, too.
func (x *others) judge() error {
	var changed []*list
	if x.Outside == "" {
		for _, l := range x.lists {
			if l.prev != nil && l.digest == "" {
				changed = append(changed, l)
			}
		}
	}
	if len(x.Asides) > 0 || len(changed) > 0 {
		if err := x.find(); err != nil {
			return err
		}
	}
	finder := fsys.NewFinder(x.Root, 64)
	defer finder.Close()
	for _, l := range x.found {
		if !l.prev.aside {
			continue
		}
		n, err := x.composeOne(finder, l)(io.Discard)
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
		if n.Dropped > 0 {
			changed = append(changed, l)
		}
	}
	for _, l := range x.sidecars.moved {
		file, _ := besideOf(l)
		replaced, err := x.isReplaced(finder, l, file, l.given)
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
		if replaced {
			changed = append(changed, l)
		}
	}
	for _, l := range changed {
		if err := x.change(l); err != nil {
			return err
		}
	}
	return nil
}

// change records that an own manifest changes, and that those change that list it. Only now it is known,
// so they are moved aside.
func (x *others) change(l *list) error {
	if l.changes {
		return nil
	}
	l.changes = true
	x.changes.replaced.Add(l.path)
	all := x.found
	if x.Outside == "" && x.File == "" {
		all = append(slices.Clip(x.lists), all...)
	}
	for _, other := range all {
		if other.changes || !other.lists(l.path) {
			continue
		}
		if x.File == "" {
			if err := x.moveAside(other.prev); err != nil {
				return err
			}
		}
		if err := x.change(other); err != nil {
			return err
		}
	}
	x.order = append(x.order, l)
	return nil
}

// writeBack gives the other own manifests that are aside their names again, without the lines of
// files that this run or an unfinished one has replaced. A manifest that changes comes after those that list it,
// so after a kill, the next run finds no other one with a line of it.
func (x *others) writeBack() error {
	moved := slices.Collect(maps.Values(x.sidecars.moved))
	for _, l := range slices.Concat(x.order, x.found, moved) {
		if l.prev == nil || !l.prev.aside || slices.Contains(x.lists, l) {
			continue
		}
		if err := x.writeBackOne(l); err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
	}
	return nil
}

func (x *others) writeBackOne(l *list) error {
	if !l.changes {
		return x.moveBack(l.prev)
	}
	if _, beside := besideOf(l); !beside { // otherwise it has no line left
		finder := fsys.NewFinder(x.Root, 64)
		defer finder.Close()
		r := replacement{home: l.prev.home, name: l.path, like: l.prev, durable: x.Durable, compose: x.composeOne(finder, l)}
		if _, _, err := r.write(); err != nil {
			return err
		}
		if x.Durable {
			if err := l.prev.home.Sync(); err != nil {
				return err
			}
		}
	}
	return x.removeAside(l.prev)
}

// composeOne returns the composer of an own manifest that is not this run's.
func (x *others) composeOne(finder *fsys.Finder, l *list) composer {
	return x.composeKept(l, func(file string, digest []byte) ([]byte, error) {
		if replaced, err := x.isReplaced(finder, l, file, digest); replaced || err != nil {
			return nil, err
		}
		return digest, nil
	})
}

// isReplaced reports whether this run or an unfinished one has replaced a file that l lists with a digest.
func (x *others) isReplaced(finder *fsys.Finder, l *list, file string, digest []byte) (bool, error) {
	if x.changes.replaced.Has(file) || x.isLost(file) {
		return true, nil
	}
	if !l.prev.killed {
		return false, nil
	}
	return x.wasReplaced(finder, l, file, digest)
}

// wasReplaced reports whether an unfinished run may have changed a file that the manifest l lists, and
// the file does not have that digest now.
func (x *others) wasReplaced(finder *fsys.Finder, l *list, file string, digest []byte) (bool, error) {
	info, err := finder.Lstat(file)
	if err != nil {
		return false, nil //nolint:nilerr // the line stays, and says that the file is missing
	}
	if info.Kind != fsys.Regular {
		return true, nil
	}
	if x.Interrupted != nil {
		if _, touched := x.Interrupted.Touched(file, info); !touched {
			return false, nil
		}
	}
	now, err := digestOf(finder, file, l.algorithm)
	return !bytes.Equal(now, digest), err
}

// composeKept returns the composer of a manifest that has only lines of the previous one.
func (x *others) composeKept(l *list, keep func(string, []byte) ([]byte, error)) composer {
	return func(w io.Writer) (manifest.Counts, error) {
		b := manifest.NewBuilder([]hash.Algorithm{l.algorithm}, nil, 0)
		defer b.Close() //nolint:errcheck // it has no records
		return b.Write(w, manifest.Document{Previous: []io.ReadSeeker{l.prev.lines()}, Keep: keep})
	}
}

// beforeSingle is BeforeChange for the others of a single file.
func (x *others) beforeSingle() error {
	if _, err := x.Root.Lstat(x.File); err != nil { // nothing is replaced
		if fsys.NoSuchFile(err) {
			err = nil
		}
		return err
	}
	return x.removeLines(x.File)
}

// removeLines removes the line of a file that the run replaces from all own manifests in the root of the
// destination that are not this run's. The file is the single one or the manifest beside it. Several runs
// can do so at the same time, so they take turns, and no manifest is aside.
func (x *others) removeLines(file string) error {
	if err := x.findNeighbours(); err != nil {
		return err
	}
	lists := func(l *list) bool { return l.lists(file) }
	if err := x.openFor(file); err != nil || !slices.ContainsFunc(x.found, lists) {
		x.close()
		return err
	}
	x.close()
	unlock, err := lock(context.Background(), x.Root)
	if err != nil {
		return err
	}
	defer unlock()
	defer x.close()
	if err := x.openFor(file); err != nil {
		return err
	}
	for _, l := range x.found {
		if lists(l) {
			if err := x.change(l); err != nil {
				return err
			}
		}
	}
	for _, l := range x.order {
		keep := func(path string, digest []byte) ([]byte, error) {
			if path == file || slices.ContainsFunc(x.order, func(changed *list) bool { return changed.path == path }) {
				return nil, nil
			}
			return digest, nil
		}
		r := replacement{home: l.prev.home, name: l.path, replaces: l.prev, like: l.prev, durable: x.Durable, compose: x.composeKept(l, keep)}
		n, _, err := r.write()
		if err == nil && n.Lines == 0 {
			err = removeSame(l.prev.home, l.path, l.prev)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
	}
	return nil
}

// openFor opens the others that may list the single file, or the manifest beside it.
func (x *others) openFor(file string) error {
	if err := x.open(); err != nil {
		return err
	}
	sidecars, err := x.openSidecars(file)
	x.found = append(x.found, sidecars...)
	return err
}

func (x *others) close() {
	for _, l := range x.found {
		l.prev.close()
	}
	x.found, x.order = nil, nil
}
