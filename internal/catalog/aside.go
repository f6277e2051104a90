package catalog

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// This file moves previous manifests aside: those that list files which the run replaces
// (rule 8), and those whose names the source uses.

// BeforeChange is called before a file gets a name at the destination. If an existing
// manifest lists the name, BeforeChange first moves all manifests aside.
func (c *Catalog) BeforeChange(file string) error {
	for _, l := range c.lists {
		if l.prev != nil && l.prev.index.MayList(file) {
			return c.MoveAside()
		}
	}
	return nil
}

// movable reports whether the previous manifest has the name of the run's own manifest, or
// one that the source uses. A manifest with another name is not this run's and stays.
func (c *Catalog) movable(l *list) bool {
	return l.prev != nil && c.opts.Outside == "" && !l.copied && (l.prev.path == l.path || c.claimed(l.prev.path))
}

// MoveAside renames the previous manifests, so that none of them has its name while the run
// replaces files that it lists. A manifest that another process has changed since Open
// stays, and Write reports it.
func (c *Catalog) MoveAside() error {
	c.aside.Do(func() {
		for _, l := range c.lists {
			if c.movable(l) && c.asideErr == nil {
				c.asideErr = c.moveAside(l.prev)
			}
		}
	})
	return c.asideErr
}

func (c *Catalog) moveAside(prev *own) error {
	if prev.aside {
		return nil
	}
	if inPlace, err := prev.isInPlace(); err != nil || !inPlace {
		return err
	}
	name := wasName(prev.name)
	if c.sourceHas(path.Join(path.Dir(prev.path), name)) {
		return fmt.Errorf("%s is in the source, and this run needs the name to replace files; rename it", quoteName(name))
	}
	if err := prev.home.Rename(prev.name, name); err != nil {
		return err
	}
	prev.aside, prev.name = true, name
	if c.opts.Durable {
		return prev.home.Sync()
	}
	return nil
}

// sourceHas reports whether the source has an entry, which the run may copy to the same path.
func (c *Catalog) sourceHas(file string) bool {
	if c.source == nil {
		return false
	}
	finder := fsys.NewFinder(c.source.root, 1)
	defer finder.Close()
	_, err := finder.Lstat(file)
	return err == nil
}

// HasAside reports whether a manifest is aside. Then the journal must stay, because it
// shows which lines of that manifest are still right.
func (c *Catalog) HasAside() bool {
	return slices.ContainsFunc(c.lists, func(l *list) bool { return l.prev != nil && l.prev.aside })
}

// Start is called when all refusals are decided and the source is open. It finds the
// previous manifests that are also files of the source; these keep their names. It moves
// manifests aside if the source uses their names for an entry that is not a file.
func (c *Catalog) Start() error {
	for _, l := range c.lists {
		for _, claim := range c.claims {
			switch {
			case l.prev == nil || l.prev.aside || !c.collides(l.prev, claim.path):
			case claim.kind != fsys.Regular:
				if err := c.moveAside(l.prev); err != nil {
					return err
				}
			default:
				l.copied = l.copied || c.equalsSource(l.prev, claim.path)
			}
		}
	}
	return nil
}

// collides reports whether an entry of the source would get the name of a previous
// manifest. It is also true if the names are equal only because the destination folds them.
func (c *Catalog) collides(prev *own, file string) bool {
	if prev.path == file || !strings.EqualFold(prev.path, file) {
		return prev.path == file
	}
	finder := fsys.NewFinder(c.root, 1)
	defer finder.Close()
	info, err := finder.Lstat(file)
	return err == nil && info.ID == prev.info.ID
}

// Late reports whether an entry of the source has the name of a manifest. Such entries are
// copied after all others.
func (c *Catalog) Late(file string) bool {
	return slices.ContainsFunc(c.claims, func(claim claim) bool { return claim.path == file && claim.kind == fsys.Regular })
}

// MakeWay moves previous manifests aside that have the names of files of the source and are
// not equal to them. The caller calls it before it copies the first entry for which Late
// returns true.
func (c *Catalog) MakeWay() error {
	for _, l := range c.lists {
		for _, claim := range c.claims {
			if c.movable(l) && claim.kind == fsys.Regular && c.collides(l.prev, claim.path) {
				if err := c.moveAside(l.prev); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// equalsSource reports whether a previous manifest is byte for byte equal to an entry of
// the source. It returns false if one of them cannot be read, which copying and Write
// report.
func (c *Catalog) equalsSource(prev *own, file string) bool {
	finder := fsys.NewFinder(c.source.root, 1)
	defer finder.Close()
	dir, name, err := finder.Parent(file)
	if err != nil {
		return false
	}
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info.Size != prev.info.Size {
		return false
	}
	_, digest, err := equals(f, info.Size, func(w io.Writer) (manifest.Counts, error) {
		_, err := io.Copy(w, prev.lines())
		return manifest.Counts{}, err
	})
	return err == nil && digest != ""
}
