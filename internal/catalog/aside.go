package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
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

// BeforeChange is called before a file gets a name at the destination. If an own manifest
// lists the name, BeforeChange first moves all manifests aside.
func (c *Catalog) BeforeChange(file string) error {
	if c.recorder != nil || c.opts.Bag != nil {
		return nil
	}
	if c.opts.File != "" {
		if err := c.finding.do(c.removeLines); err != nil {
			return err
		}
	} else if err := c.finding.do(c.findOthers); err != nil {
		return err
	}
	listed := func(l *list) bool { return l.prev != nil && l.prev.index.MayList(file) }
	if slices.ContainsFunc(c.lists, listed) || slices.ContainsFunc(c.others, listed) {
		return c.MoveAside()
	}
	return nil
}

// MoveAside renames the own manifests, so that none of them has its name while the run
// replaces files that it lists. A manifest that another process has changed since Open
// stays, and Write reports it.
func (c *Catalog) MoveAside() error {
	if c.opts.Outside == "" && c.opts.File == "" {
		if err := c.finding.do(c.findOthers); err != nil {
			return err
		}
	}
	return c.aside.do(func() error {
		for _, l := range append(slices.Clip(c.lists), c.others...) {
			if l.prev != nil && (c.opts.Outside == "" || slices.Contains(c.others, l)) {
				if err := c.moveAside(l.prev); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (c *Catalog) moveAside(prev *own) error {
	if prev.aside {
		return nil
	}
	if inPlace, err := prev.isInPlace(); err != nil || !inPlace {
		return err
	}
	name, err := c.asideName(prev)
	if err != nil {
		return err
	}
	if err := c.opts.Journal.RecordAside(prev.path, name, c.opts.Durable); err != nil {
		return err
	}
	if err := prev.home.RenameNew(prev.name, name); err != nil {
		return err
	}
	prev.aside, prev.name = true, name
	if c.opts.Durable {
		return prev.home.Sync()
	}
	return nil
}

// asideName returns a name that neither the destination nor the source has. The source may have it,
// because it may be a copy of an unfinished one.
func (c *Catalog) asideName(prev *own) (string, error) {
	finder := fsys.NewFinder(c.source.root, 1)
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
func (c *Catalog) moveBack(prev *own) error {
	if prev == nil || !prev.aside {
		return nil
	}
	if err := prev.home.RenameNew(prev.name, path.Base(prev.path)); err != nil {
		return err
	}
	prev.aside, prev.name = false, path.Base(prev.path)
	if c.opts.Durable {
		if err := prev.home.Sync(); err != nil {
			return err
		}
	}
	return c.opts.Journal.ForgetAside(prev.path)
}

// HasAside reports whether a manifest is aside. Then the journal must stay, because it
// shows which lines of that manifest are still right.
func (c *Catalog) HasAside() bool {
	return slices.ContainsFunc(append(slices.Clip(c.lists), c.others...), func(l *list) bool { return l.prev != nil && l.prev.aside })
}

// MoveBack renames the manifests at root that an unfinished run has moved aside back to their
// names, if no file that they list was replaced since. An existing name stays unchanged.
func MoveBack(root *fsys.Dir, asides map[string]string, j Journal) error {
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

// findOthers opens the own manifests in the root of the destination that are not this run's. It
// leaves out one that is equal to a file of the source, because it describes the source.
func (c *Catalog) findOthers() error {
	if c.root == nil {
		return nil
	}
	return c.eachOther(func(name string, a hash.Algorithm) error {
		o, err := c.findOther(name, a)
		if o == nil || err != nil {
			return err
		}
		if equal, err := c.equalsSource(o); equal || err != nil {
			o.close()
			return err
		}
		c.others = append(c.others, &list{algorithm: a, path: name, prev: o})
		return nil
	})
}

// judgeOthers finds out which of the other own manifests that are aside will change. Manifests of this
// run that list one of them need to know that, because its name leads to no file now.
func (c *Catalog) judgeOthers() error {
	if len(c.opts.Asides) > 0 && c.opts.File == "" {
		if err := c.finding.do(c.findOthers); err != nil {
			return err
		}
	}
	finder := fsys.NewFinder(c.root, 64)
	defer finder.Close()
	for _, l := range c.others {
		if l.prev.aside {
			n, err := c.composeOther(finder, l)(io.Discard)
			if err != nil {
				return fmt.Errorf("%s: %w", quoteName(l.path), err)
			}
			l.changes = n.Dropped > 0
		}
	}
	return nil
}

// writeOthers gives the other own manifests that are aside their names again, without the lines of
// files that this run or an unfinished one has replaced.
func (c *Catalog) writeOthers() error {
	for _, l := range c.others {
		if l.prev.aside {
			if err := c.withoutReplaced(l); err != nil {
				return fmt.Errorf("%s: %w", quoteName(l.path), err)
			}
		}
	}
	return nil
}

// withoutReplaced writes a manifest without the lines of files that were replaced. A manifest that would not
// change only gets its name again.
func (c *Catalog) withoutReplaced(l *list) error {
	finder := fsys.NewFinder(c.root, 64)
	defer finder.Close()
	compose := c.composeOther(finder, l)
	n, err := compose(io.Discard)
	if err != nil {
		return err
	}
	if n.Dropped == 0 {
		return c.moveBack(l.prev)
	}
	r := replacement{home: l.prev.home, name: l.path, like: l.prev, durable: c.opts.Durable, compose: compose}
	if _, _, err := r.write(); err != nil {
		return err
	}
	if c.opts.Durable {
		if err := l.prev.home.Sync(); err != nil {
			return err
		}
	}
	return c.removeAside(l.prev)
}

// composeOther returns the composer of an own manifest that is not this run's.
func (c *Catalog) composeOther(finder *fsys.Finder, l *list) composer {
	return c.composeKept(l, func(file string, digest []byte) ([]byte, error) {
		replaced, err := c.changes.replaced.Has(file) || c.hasFallen(file), error(nil)
		if !replaced && l.prev.killed {
			replaced, err = c.wasReplaced(finder, l, file, digest)
		}
		if replaced {
			return nil, err
		}
		return digest, err
	})
}

// hasFallen reports whether a path is below a directory that DropBelow names.
func (c *Catalog) hasFallen(file string) bool {
	return slices.ContainsFunc(c.fallen, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// wasReplaced reports whether an unfinished run may have changed a file that the manifest l lists, and
// the file does not have that digest now.
func (c *Catalog) wasReplaced(finder *fsys.Finder, l *list, file string, digest []byte) (bool, error) {
	have, err := finder.Lstat(file)
	if err != nil {
		return false, nil //nolint:nilerr // the line stays, and says that the file is missing
	}
	if have.Kind != fsys.Regular {
		return true, nil
	}
	if c.interrupted != nil {
		if _, touched := c.interrupted.Touched(file, have); !touched {
			return false, nil
		}
	}
	now, err := digestOf(finder, file, l.algorithm)
	return !bytes.Equal(now, digest), err
}

// composeKept returns the composer of a manifest that has only lines of the previous one.
func (c *Catalog) composeKept(l *list, keep func(string, []byte) ([]byte, error)) composer {
	return func(w io.Writer) (manifest.Counts, error) {
		b := manifest.NewBuilder([]hash.Algorithm{l.algorithm}, nil, 0)
		defer b.Close() //nolint:errcheck // it has no records
		return b.Write(w, manifest.Document{Previous: []io.ReadSeeker{l.prev.lines()}, Keep: keep})
	}
}

// removeAside removes a manifest that is aside, because its lines are in another file now.
func (c *Catalog) removeAside(o *own) error {
	before, err := o.home.Stat()
	if err != nil {
		return err
	}
	o.close()
	if err := o.home.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.settleHome(o.home, before); err != nil {
		return err
	}
	return c.opts.Journal.ForgetAside(o.path)
}

// removeLines removes the line of the single file that the run replaces from all own manifests in
// the root of the destination that are not this run's. Several runs can do so at the same time, so
// they take turns, and no manifest is aside.
func (c *Catalog) removeLines() error {
	if _, err := c.root.Lstat(c.opts.File); err != nil { // nothing is replaced
		if fsys.NoSuchFile(err) {
			err = nil
		}
		return err
	}
	if err := c.list(); err != nil {
		return err
	}
	lists := func(l *list) bool { return l.prev.index.MayList(c.opts.File) }
	if err := c.findOthers(); err != nil || !slices.ContainsFunc(c.others, lists) {
		c.closeOthers()
		return err
	}
	c.closeOthers()
	unlock, err := lock(context.Background(), c.root)
	if err != nil {
		return err
	}
	defer unlock()
	defer c.closeOthers()
	if err := c.findOthers(); err != nil {
		return err
	}
	for _, l := range c.others {
		if !lists(l) {
			continue
		}
		keep := func(file string, digest []byte) ([]byte, error) {
			if file == c.opts.File {
				return nil, nil
			}
			return digest, nil
		}
		r := replacement{home: l.prev.home, name: l.path, replaces: l.prev, like: l.prev, durable: c.opts.Durable, compose: c.composeKept(l, keep)}
		n, _, err := r.write()
		if err == nil && n.Lines == 0 {
			err = c.removeSame(l.prev.home, l.path, l.prev)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(l.path), err)
		}
	}
	return nil
}

func (c *Catalog) closeOthers() {
	for _, l := range c.others {
		l.prev.close()
	}
	c.others = nil
}
