package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// choose applies rules 2 and 3 to the manifest of one hash of a tree. It sets the name, and opens
// the manifest of an earlier run.
func (c *Catalog) choose(l *list) error {
	candidates := l.algorithm.FileNames()
	if c.opts.Usual != "" {
		candidates = []string{c.opts.Usual}
	}
	var first error
	for _, file := range candidates {
		l.path = file
		err := c.isFree(l)
		if ignoreNotOwn(err) != nil {
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
	return c.refuse(l.path, first)
}

// isFree opens the manifest of an earlier run at the path of l. The error is a *notOwnError if the
// source or the destination has something else that takes the name.
func (c *Catalog) isFree(l *list) error {
	if c.opts.File == "" {
		o, err := find(c.source.root, c.nearSource, l.path, l.algorithm)
		if other, ok := errors.AsType[*notOwnError](err); ok {
			err = &notOwnError{"in the source, " + other.why}
		}
		if err != nil {
			return err
		}
		o.closeHome(c.source.root)
		if o.isEmpty() {
			return &notOwnError{"in the source, it is empty"}
		}
	}
	if c.root == nil {
		return nil
	}
	var err error
	if l.prev, err = c.findOwn(l.path, l.algorithm); err != nil {
		return err
	}
	if l.prev.isEmpty() && c.opts.Usual == "" {
		return &notOwnError{"it is empty"}
	}
	return c.findAside(l)
}

// findAside finds the manifest that an unfinished run has moved aside.
func (c *Catalog) findAside(l *list) error {
	name, isAside := c.opts.Asides[l.path]
	if !isAside {
		return nil
	}
	aside, err := openAside(c.root, l.path, name, l.algorithm)
	switch {
	case err != nil:
		return ignoreNotOwn(err) // it is not the manifest that the journal names
	case aside == nil:
	case l.prev == nil:
		l.prev = c.hold(aside)
	default: // the run was killed after it had written the new one
		c.hold(aside).close()
		c.leftover = append(c.leftover, aside)
	}
	return nil
}

// findOwn is find at the destination. The catalog closes the directory.
func (c *Catalog) findOwn(file string, a hash.Algorithm) (*own, error) {
	o, err := find(c.root, c.near, file, a)
	return c.hold(o), err
}

// hold lets the catalog close the directory of a manifest at the destination.
func (c *Catalog) hold(o *own) *own {
	if o != nil && o.home != c.root {
		c.homes = append(c.homes, o.home)
	}
	return o
}

// find opens the manifest of hash a at a path below root, or returns nil if there is none. The
// error is a *notOwnError if something else has the name, or takes it. near are the neighbours of
// root.
func find(root *fsys.Dir, near neighbours, file string, a hash.Algorithm) (*own, error) {
	home, err := openHome(root, file, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		if fsys.IsSymlinkRefusal(err) {
			err = &notOwnError{"its directory is reached through something that is not a directory"}
		}
		return nil, err
	}
	name := path.Base(file)
	if home != root {
		near, err = neighboursOf(home, name)
	}
	var o *own
	if err == nil {
		o, err = openOwn(home, name, a)
	}
	if err == nil {
		if o != nil && !slices.Contains(near, name) { // the directory lists the name in another case
			near = slices.DeleteFunc(slices.Clone(near), func(entry string) bool { return strings.EqualFold(entry, name) })
		}
		err = near.refuseCrowd(name, true)
	}
	if err != nil || o == nil {
		o.close()
		if home != root {
			home.Close()
		}
		return nil, err
	}
	o.path = file
	return o, nil
}

// openAside opens the manifest of a path that an unfinished run has renamed to name.
func openAside(root *fsys.Dir, file, name string, a hash.Algorithm) (*own, error) {
	home, err := openHome(root, file, false)
	if errors.Is(err, fs.ErrNotExist) || err != nil && fsys.IsSymlinkRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := openOwn(home, name, a)
	if o == nil {
		if home != root {
			home.Close()
		}
		return nil, err
	}
	o.path, o.aside, o.killed = file, true, true
	return o, nil
}

// neighbours are the entries of a directory that concern the names of manifests. They have one of
// the names, also in another case, or one of the names and then a dot.
type neighbours []string

// neighboursOf lists a directory once. A directory that only its owner may list has none, because
// files can be opened by their names there.
func neighboursOf(dir *fsys.Dir, names ...string) (found neighbours, err error) {
	err = dir.Each(func(entry []byte, _ uint64, _ fsys.Kind) bool {
		for _, name := range names {
			if isStem(string(entry), name) {
				found = append(found, string(entry))
				break
			}
		}
		return true
	})
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return found, err
}

// have reports whether an entry has the name, in any case.
func (n neighbours) have(name string) bool {
	return slices.ContainsFunc(n, func(entry string) bool { return strings.EqualFold(entry, name) })
}

// isStem reports whether an entry has the name, in any case, perhaps with a dot and more after it.
func isStem(entry, name string) bool {
	return len(entry) >= len(name) && (len(entry) == len(name) || entry[len(name)] == '.') && strings.EqualFold(entry[:len(name)], name)
}

// refuseCrowd returns a *notOwnError if an entry takes the name of a manifest: one whose name begins
// with it and a dot, such as a signature. If folds is true, upper and lower case are equal, and an
// entry whose name differs only in case is one, too.
func (n neighbours) refuseCrowd(name string, folds bool) error {
	for _, entry := range n {
		if entry != name && isStem(entry, name) && (folds || strings.HasPrefix(entry, name)) {
			return &notOwnError{"there is also " + quoteName(entry)}
		}
	}
	return nil
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

// IsManifest reports whether a path is that of a manifest of this run. No run copies an entry
// of the source with that path, because that is the source's own manifest.
func (c *Catalog) IsManifest(file string) bool { return c.opts.File == "" && c.isPlace(file) }

// isPlace reports whether a path is that of a manifest of this run. Some directories list it in
// another case. If it were another file, the name would be taken.
func (c *Catalog) isPlace(file string) bool {
	return c.opts.Outside == "" && c.opts.Bag == nil && slices.ContainsFunc(c.lists, func(l *list) bool { return strings.EqualFold(l.path, file) })
}

// Guards reports whether the destination has, at the path of an entry of the source, an own manifest
// that is not one of this run and differs from the entry. The run does not replace that manifest.
func (c *Catalog) Guards(file string) bool { return slices.Contains(c.guarded, file) }

// Special returns the paths of regular files in the source for which IsManifest or Guards returns
// true.
func (c *Catalog) Special() (files []string) {
	for _, l := range c.lists {
		if c.IsManifest(l.path) && c.source.has(l.path) {
			files = append(files, l.path)
		}
	}
	for _, file := range c.guarded {
		if c.source.has(file) {
			files = append(files, file)
		}
	}
	return files
}

// has reports whether the source has a regular file at a path.
func (s *Source) has(file string) bool {
	finder := fsys.NewFinder(s.root, 1)
	defer finder.Close()
	info, err := finder.Lstat(file)
	return err == nil && info.Kind == fsys.Regular
}

// list finds the neighbours of all names that manifests can have in the roots of source and
// destination.
func (c *Catalog) list() (err error) {
	var names []string
	for _, a := range hash.Algorithms() {
		names = append(names, a.FileNames()...)
	}
	if c.opts.Usual != "" && !strings.Contains(c.opts.Usual, "/") {
		names = append(names, c.opts.Usual)
	}
	if c.opts.File == "" {
		if c.nearSource, err = neighboursOf(c.source.root, names...); err != nil {
			return err
		}
	}
	if c.root != nil {
		c.near, err = neighboursOf(c.root, names...)
	}
	return err
}

// findGuarded finds the paths for Guards. They are all in the root.
func (c *Catalog) findGuarded() error {
	return c.eachOther(func(name string, a hash.Algorithm) error {
		if !c.nearSource.have(name) {
			return nil
		}
		o, err := c.findOther(name, a)
		if o == nil || err != nil {
			return err
		}
		defer o.close()
		equal, err := c.equalsSource(o)
		if !equal && err == nil {
			c.guarded = append(c.guarded, name)
		}
		return err
	})
}

// eachOther calls yield for the names in the root of the destination that manifests of earlier
// runs can have and those of this run do not have.
func (c *Catalog) eachOther(yield func(name string, a hash.Algorithm) error) error {
	for _, a := range hash.Algorithms() {
		for _, name := range a.FileNames() {
			if c.isPlace(name) {
				continue
			}
			if err := yield(name, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// findOther opens an own manifest in the root of the destination, also one that is aside. It
// returns nil if there is none.
func (c *Catalog) findOther(file string, a hash.Algorithm) (*own, error) {
	var o *own
	var err error
	if c.near.have(file) {
		o, err = c.findOwn(file, a)
	}
	if o.isEmpty() {
		o.close()
		return nil, nil
	}
	name, isAside := c.opts.Asides[file]
	if err != nil || !isAside {
		return o, ignoreNotOwn(err)
	}
	aside, err := openAside(c.root, file, name, a)
	switch {
	case err != nil || aside == nil:
		return o, ignoreNotOwn(err)
	case o != nil: // the run was killed after it had written the new one
		aside.close()
		c.leftover = append(c.leftover, aside)
		return o, nil
	}
	if _, gone := c.root.Lstat(file); !errors.Is(gone, fs.ErrNotExist) { // its name is taken
		aside.close()
		return nil, nil
	}
	return aside, nil
}

// equalsSource reports whether the source has a file of the same name and content as a manifest in
// the root of the destination.
func (c *Catalog) equalsSource(o *own) (bool, error) {
	if !c.nearSource.have(o.path) || !c.source.has(o.path) {
		return false, nil
	}
	f, info, err := c.source.root.OpenRegular(o.path)
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
