package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// others are the own manifests in the root of the destination that are not this run's. By rule 1,
// they lose the lines of files that the run replaces.
type others struct {
	*manifests
	found []*list
	once  onceError // finding them
}

// find opens the other manifests, once. It leaves out one that is equal to a file of the source,
// because it describes the source.
func (x *others) find() error { return x.once.do(x.open) }

func (x *others) open() error {
	if x.Root == nil {
		return nil
	}
	return x.each(func(name string, a hash.Algorithm) error {
		o, err := x.openOne(name, a)
		if o == nil || err != nil {
			return err
		}
		if equal, err := x.equalsSource(o); equal || err != nil {
			o.close()
			return err
		}
		x.found = append(x.found, &list{algorithm: a, path: name, prev: o})
		return nil
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
	if err != nil || info.Size != o.info.Size {
		if f != nil {
			f.Close()
		}
		return false, nil //nolint:nilerr // copying the file reports it
	}
	defer f.Close()
	_, digest, err := equals(o.file, o.info.Size, func(w io.Writer) (manifest.Counts, error) {
		_, err := io.Copy(w, f.Reader(info.Size))
		return manifest.Counts{}, err
	})
	if err != nil {
		return false, fmt.Errorf("%s: %w", quoteName(o.path), err)
	}
	return digest != "", nil
}

// aside returns the other manifest of a path if it is aside, otherwise nil.
func (x *others) aside(file string) *list {
	if i := slices.IndexFunc(x.found, func(l *list) bool { return l.path == file && l.prev.aside }); i >= 0 {
		return x.found[i]
	}
	return nil
}

// judge finds out which of the other own manifests that are aside will change. Manifests of this
// run that list one of them need to know that, because its name leads to no file now.
func (x *others) judge() error {
	if len(x.Asides) > 0 && x.File == "" {
		if err := x.find(); err != nil {
			return err
		}
	}
	finder := fsys.NewFinder(x.Root, 64)
	defer finder.Close()
	for _, l := range x.found {
		if l.prev.aside {
			n, err := x.composeOne(finder, l)(io.Discard)
			if err != nil {
				return fmt.Errorf("%s: %w", quoteName(l.path), err)
			}
			l.changes = n.Dropped > 0
		}
	}
	return nil
}

// writeBack gives the other own manifests that are aside their names again, without the lines of
// files that this run or an unfinished one has replaced.
func (x *others) writeBack() error {
	for _, l := range x.found {
		if l.prev.aside {
			if err := x.withoutReplaced(l); err != nil {
				return fmt.Errorf("%s: %w", quoteName(l.path), err)
			}
		}
	}
	return nil
}

// withoutReplaced writes a manifest without the lines of files that were replaced. A manifest that would not
// change only gets its name again.
func (x *others) withoutReplaced(l *list) error {
	finder := fsys.NewFinder(x.Root, 64)
	defer finder.Close()
	compose := x.composeOne(finder, l)
	n, err := compose(io.Discard)
	if err != nil {
		return err
	}
	if n.Dropped == 0 {
		return x.moveBack(l.prev)
	}
	r := replacement{home: l.prev.home, name: l.path, like: l.prev, durable: x.Durable, compose: compose}
	if _, _, err := r.write(); err != nil {
		return err
	}
	if x.Durable {
		if err := l.prev.home.Sync(); err != nil {
			return err
		}
	}
	return x.removeAside(l.prev)
}

// composeOne returns the composer of an own manifest that is not this run's.
func (x *others) composeOne(finder *fsys.Finder, l *list) composer {
	return x.composeKept(l, func(file string, digest []byte) ([]byte, error) {
		replaced, err := x.changes.replaced.Has(file) || x.isLost(file), error(nil)
		if !replaced && l.prev.killed {
			replaced, err = x.wasReplaced(finder, l, file, digest)
		}
		if replaced {
			return nil, err
		}
		return digest, err
	})
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

// removeLines removes the line of the single file that the run replaces from all own manifests in
// the root of the destination that are not this run's. Several runs can do so at the same time, so
// they take turns, and no manifest is aside.
func (x *others) removeLines() error {
	if _, err := x.Root.Lstat(x.File); err != nil { // nothing is replaced
		if fsys.NoSuchFile(err) {
			err = nil
		}
		return err
	}
	if err := x.findNeighbours(); err != nil {
		return err
	}
	lists := func(l *list) bool { return l.prev.index.MayList(x.File) }
	if err := x.open(); err != nil || !slices.ContainsFunc(x.found, lists) {
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
	if err := x.open(); err != nil {
		return err
	}
	for _, l := range x.found {
		if !lists(l) {
			continue
		}
		keep := func(file string, digest []byte) ([]byte, error) {
			if file == x.File {
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

func (x *others) close() {
	for _, l := range x.found {
		l.prev.close()
	}
	x.found = nil
}

// beforeManifest is BeforeChange for a manifest of this run, which another manifest may list.
func (x *others) beforeManifest(l *list) error {
	if x.Outside != "" || x.File != "" {
		return nil
	}
	if err := x.find(); err != nil {
		return err
	}
	x.changes.replaced.Add(l.path)
	for _, other := range x.found {
		if other.prev.index.MayList(l.path) {
			if err := x.moveAside(other.prev); err != nil {
				return err
			}
		}
	}
	return nil
}
