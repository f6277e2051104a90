package catalog

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file decides which names the manifests of a run have, and opens the manifests of
// earlier runs.

// Open decides which names the manifests of a run have at the destination root, and opens
// the manifests of earlier runs. It writes nothing. The error is a *failure.RefusedError if
// the rules do not allow a manifest there. In a dry run without that directory, root is
// nil; then only the error is of use.
func Open(root *fsys.Dir, source *Source, o Options) (_ *Catalog, err error) {
	c := &Catalog{
		opts: o, root: root, source: source, top: -1, arrived: map[string]bool{},
		names: names{hashes: o.lineHashes(), usual: o.Usual},
	}
	c.changes.lines = make([]lookup.Set, len(o.Hashes))
	memory := max(cmp.Or(o.Memory, manifest.DefaultMemory), leastMemory)
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if o.History != nil {
		if err := c.openHistory(); err != nil {
			return nil, err
		}
	}
	for slot, a := range c.names.hashes {
		c.lists = append(c.lists, &list{algorithm: a, slot: slot})
	}
	switch {
	case len(o.Hashes) == 0:
		return c, nil
	case len(c.lists) == 0:
	case o.Bag != nil:
		err = c.openBag()
	case o.Outside != "":
		err = c.openOutside()
	case c.single():
		err = c.openSingle()
	default:
		err = c.openTree()
	}
	if err == nil && o.History != nil {
		err = c.refuseHidden()
	}
	if err != nil {
		return nil, err
	}
	c.builder = manifest.NewBuilder(o.Hashes, o.Spill, memory)
	return c, nil
}

// lineHashes returns the hashes that have line manifests. They are the first ones.
func (o *Options) lineHashes() []hash.Algorithm {
	return o.Hashes[:len(o.Hashes)-o.Unlined]
}

// openTree applies rules 2 and 3.
func (c *Catalog) openTree() (err error) {
	if c.opts.File == "" {
		if c.claims, err = c.names.claims(c.source.root); err != nil {
			return err
		}
		for _, claim := range c.claims {
			if claim.level == 0 && strings.Count(claim.path, "/") < strings.Count(c.opts.Usual, "/") {
				why := "the source has a " + claim.kind.String() + " in place of its directory, " + quoteName(claim.path)
				return c.refuse(c.opts.Usual, &notOwnError{why})
			}
		}
		taken := taken(c.claims)
		c.top = highest(taken)
		present, err := c.present(firstFree(taken))
		if err != nil {
			return err
		}
		c.level = levelFor(taken, present)
	}
	for _, l := range c.lists {
		l.path = c.names.at(c.level, l.algorithm)
		if err := c.findPrevious(l, c.names.places(c.level, c.claims, l.slot)); err != nil {
			return c.refuse(l.path, err)
		}
	}
	c.joined = c.top >= 0
	for _, l := range c.lists {
		at := c.names.at(max(c.top, 0), l.algorithm)
		if !c.joined || c.claimed(at) {
			continue
		}
		o, err := c.find(place{at, false}, l.algorithm)
		if ignoreNotOwn(err) != nil {
			return err
		}
		c.joined = err == nil && (o == nil || l.prev != nil && l.prev.path == at)
		o.close()
	}
	return nil
}

// present finds the levels after first at which the destination has a manifest of Sealift's
// form, or one that was moved aside.
func (c *Catalog) present(first int) (map[int]bool, error) {
	type candidate struct {
		slotAt
		place
	}
	if c.root == nil {
		return nil, nil
	}
	var found []candidate
	err := c.root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		file, aside := strings.CutPrefix(string(name), wasPrefix)
		for _, m := range c.names.matches(file) {
			if m.level > first && file == c.names.at(m.level, c.names.hashes[m.slot]) {
				found = append(found, candidate{m, place{file, aside}})
			}
		}
		return true
	})
	present := map[int]bool{}
	for _, f := range found {
		o, findErr := c.find(f.place, c.names.hashes[f.slot])
		err = cmp.Or(err, ignoreNotOwn(findErr))
		if o != nil {
			present[f.level] = true
			o.close()
		}
	}
	return present, err
}

// findPrevious opens the manifest of an earlier run whose lines the new manifest keeps: the
// first one in order. Later ones that are aside are leftovers of killed runs.
func (c *Catalog) findPrevious(l *list, order []place) error {
	for i, p := range order {
		if l.prev != nil && !p.aside {
			continue
		}
		o, err := c.find(p, l.algorithm)
		if i > 0 { // only a file with the name of the run's own manifest must be one
			err = ignoreNotOwn(err)
		}
		switch {
		case err != nil:
			return err
		case o == nil:
		case l.prev == nil:
			l.prev = o
		default:
			o.close()
			c.leftover = append(c.leftover, o)
		}
	}
	return nil
}

// openOutside applies rule 6: only the place of the manifest matters.
func (c *Catalog) openOutside() error {
	l := c.lists[0]
	dir, err := c.opts.FS.OpenTrustedRoot(filepath.Dir(c.opts.Outside))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failure.Refuse("--manifest %s: %s", quoteName(c.opts.Outside), quote.Text(err.Error()))
	}
	c.homes = append(c.homes, dir)
	l.prev, err = openOwn(dir, filepath.Base(c.opts.Outside), l.algorithm)
	return c.refuse("", err)
}

// find opens the manifest of hash a at a place of the destination, or returns nil if there
// is none. The error is a *notOwnError if another kind of file has the name.
func (c *Catalog) find(p place, a hash.Algorithm) (*own, error) {
	if c.root == nil {
		return nil, nil
	}
	home, err := openHome(c.root, p.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		if fsys.IsSymlinkRefusal(err) {
			err = &notOwnError{"its directory is reached through something that is not a directory"}
		}
		return nil, err
	}
	if home != c.root {
		c.homes = append(c.homes, home)
	}
	name := path.Base(p.path)
	if p.aside {
		name = wasName(name)
	}
	o, err := openOwn(home, name, a)
	if o != nil {
		o.path, o.aside, o.killed = p.path, p.aside, p.aside
	}
	return o, err
}

// refuse turns a *notOwnError for the manifest at a path into a refusal of the run.
func (c *Catalog) refuse(file string, err error) error {
	other, ok := errors.AsType[*notOwnError](err)
	if !ok {
		return err
	}
	hint := "name another one with --manifest"
	if c.opts.Usual != "" || c.opts.Outside != "" {
		hint = "choose another name"
	}
	return failure.Refuse("no manifest can be written to %s: %s; %s", quoteName(c.shown(file)), other.why, hint)
}

func ignoreNotOwn(err error) error {
	if errors.As(err, new(*notOwnError)) {
		return nil
	}
	return err
}

// claimed reports whether the source has an entry with the manifest's name at a path.
func (c *Catalog) claimed(file string) bool {
	return slices.ContainsFunc(c.claims, func(claim claim) bool { return strings.EqualFold(claim.path, file) })
}
