package catalog

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Open decides which names the manifests of a run have at the destination root, and opens
// the manifests of earlier runs. It writes nothing. The error is a *failure.RefusedError if
// the rules do not allow a manifest there. In a dry run without that directory, root is
// nil; then the error and the methods about names are of use.
func Open(root *fsys.Dir, source *Source, o Options) (_ *Catalog, err error) {
	c := &Catalog{opts: o, root: root, source: source}
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
	for slot, a := range o.Hashes[:len(o.Hashes)-o.Unlined] {
		c.lists = append(c.lists, &list{algorithm: a, slot: slot})
	}
	if o.Bag == nil && !c.single() {
		if err := c.list(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(c.lists) == 0:
	case o.Bag != nil:
		err = c.openBag()
	case o.Outside != "":
		err = c.openOutside()
	case c.single():
		err = c.openSingle()
	default:
		for _, l := range c.lists {
			if err = c.choose(l); err != nil {
				break
			}
		}
	}
	if err == nil && o.File == "" && o.Bag == nil && root != nil {
		err = c.findGuarded()
	}
	if err == nil && o.History != nil {
		err = c.refuseHidden()
	}
	if err != nil {
		return nil, err
	}
	if len(o.Hashes) > 0 {
		c.builder = manifest.NewBuilder(o.Hashes, o.Spill, memory)
	}
	return c, nil
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
	name := filepath.Base(c.opts.Outside)
	near, err := neighboursOf(dir, name)
	if err == nil {
		err = near.refuseCrowd(name, false)
	}
	if err == nil {
		l.prev, err = openOwn(dir, name, l.algorithm)
	}
	return c.refuse("", err)
}
