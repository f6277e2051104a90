package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Written describes one manifest of the run.
type Written struct {
	Path      string // as a user would write it
	Algorithm string
	Lines     int
	Dropped   int    // lines of an earlier run for files that are gone or were replaced
	SHA256    string // of the manifest, hexadecimal

	// Generation: it is one of an ASC MHL history, and Lines is the number of its files.
	Generation bool
}

// Write writes the manifests, when all files are at the destination and durable. A manifest
// that would not change stays. After an error, the previous manifests have their names or
// are aside; the next run finds them.
func (c *Catalog) Write() (written []Written, err error) {
	if c.opts.Bag != nil {
		return c.writeBag()
	}
	if c.err != nil {
		return nil, c.err
	}
	level := c.level
	if c.joined, err = c.isSource(); err != nil {
		return nil, err
	}
	if c.joined {
		level = c.top
	}
	for _, l := range c.lists {
		if stays, err := c.stays(l); err != nil {
			return written, err
		} else if stays {
			continue
		}
		w, err := c.write(l, level)
		if err != nil {
			if c.opts.Outside != "" {
				err = fmt.Errorf("%s: %w", quoteName(c.opts.Outside), err)
			}
			return written, err
		}
		if w.Lines > 0 || w.Dropped > 0 {
			written = append(written, w)
		}
	}
	if err := c.removeOld(level); err != nil {
		return written, err
	}
	return written, c.unsure
}

// isSource reports whether the manifests at the level top, which were copied from the
// source, are exactly what the run would write. Then they are the run's manifests.
func (c *Catalog) isSource() (bool, error) {
	if !c.joined {
		return false, nil
	}
	for _, claim := range c.claims {
		if claim.level != c.top {
			continue
		}
		l := c.lists[claim.slot]
		if !c.arrived[claim.path] && !(l.copied && l.prev != nil && l.prev.path == claim.path) {
			return false, nil
		}
		home, err := openHome(c.root, claim.path, false)
		if err != nil {
			return false, err
		}
		if home != c.root {
			defer home.Close()
		}
		f, info, err := home.OpenRegular(path.Base(claim.path))
		if err != nil {
			return false, err
		}
		defer f.Close()
		compose := func(w io.Writer) (manifest.Counts, error) { return c.compose(l, c.top, w) }
		if n, digest, err := equals(f, info.Size, compose); digest == "" || n.Lines == 0 || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compose writes the lines of one manifest at a level: those of this run, and those of
// earlier ones by rule 5.
func (c *Catalog) compose(l *list, level int, w io.Writer) (manifest.Counts, error) {
	finder := fsys.NewFinder(c.root, 64)
	defer finder.Close()
	doc := manifest.Document{
		Hashes: []hash.Algorithm{l.algorithm},
		Omit:   func(file string) bool { return c.isManifest(file, level) },
	}
	if l.prev != nil && c.opts.Outside == "" {
		doc.Previous = []io.ReadSeeker{l.prev.lines()}
		if c.marksLines() {
			doc.Index = l.prev.index
		}
		doc.Keep = func(file string, digest []byte) ([]byte, error) { return c.keep(l, finder, file, digest) }
	}
	return c.builder.Write(w, doc)
}

// isManifest reports whether a path is that of a manifest of this run, at a level or at its
// own level. No manifest lists these.
func (c *Catalog) isManifest(file string, level int) bool {
	if c.opts.Outside != "" {
		return false
	}
	return slices.ContainsFunc(c.lists, func(l *list) bool { return file == l.path || file == c.fileAt(l, level) })
}

// keep applies rule 5 to the line of a path that the run did not touch.
func (c *Catalog) keep(l *list, finder *fsys.Finder, file string, digest []byte) ([]byte, error) {
	for _, other := range c.lists {
		// No manifest can list itself, and the path of one that is aside has no file.
		if other.prev != nil && file == other.prev.path && (other == l || c.movable(other)) {
			return nil, nil
		}
	}
	if slices.ContainsFunc(c.fallen, func(dir string) bool { return strings.HasPrefix(file, dir) }) {
		return nil, nil
	}
	have, err := finder.Lstat(file)
	switch {
	case fsys.NoSuchFile(err) || errors.As(err, new(*fsys.KindError)) || err != nil && fsys.IsSymlinkRefusal(err):
		return nil, nil
	case err != nil: // the file may exist
		if !errors.Is(err, fs.ErrPermission) && c.unsure == nil {
			c.unsure = fmt.Errorf("%s is listed, and cannot be examined: %w", quoteName(file), err)
		}
		return digest, nil
	case have.Kind != fsys.Regular:
		return nil, nil
	case !l.prev.killed || c.interrupted == nil:
		return digest, nil
	}
	digests, touched := c.interrupted.Touched(file, have)
	switch {
	case !touched:
		return digest, nil
	case digests != nil:
		return digests[l.slot], nil
	}
	// An unfinished run may have replaced it with content that its journal does not list.
	now, err := digestOf(finder, file, l.algorithm)
	if err != nil || !bytes.Equal(now, digest) {
		return nil, nil //nolint:nilerr // without a line, nothing is claimed
	}
	return digest, nil
}

// digestOf reads a file.
func digestOf(finder *fsys.Finder, file string, a hash.Algorithm) ([]byte, error) {
	dir, name, err := finder.Parent(file)
	if err != nil {
		return nil, err
	}
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return digestOfOpen(f, info.Size, a)
}

// digestOfOpen reads an open file of size bytes.
func digestOfOpen(f *fsys.File, size int64, a hash.Algorithm) ([]byte, error) {
	set := hash.NewSet([]hash.Algorithm{a})
	n, err := io.CopyBuffer(set, f.Reader(size), make([]byte, 128<<10))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return set.Digests()[0], err
}

// write writes the manifest under its name at a level.
func (c *Catalog) write(l *list, level int) (Written, error) {
	file := c.opts.Outside
	if file == "" {
		file = c.fileAt(l, level)
	}
	w := Written{Path: c.shown(file), Algorithm: string(l.algorithm)}
	if err := c.stillIndexed(l); err != nil {
		return w, err
	}
	compose := func(w io.Writer) (manifest.Counts, error) { return c.compose(l, level, w) }
	home, name, err := c.place(file, false)
	if errors.Is(err, fs.ErrNotExist) { // create no directory without a manifest
		n, err := compose(io.Discard)
		if err != nil || n.Lines == 0 {
			w.Dropped = n.Dropped
			return w, err
		}
		home, name, err = c.place(file, true)
		if err != nil {
			return w, err
		}
	} else if err != nil {
		return w, err
	}
	if home != c.root {
		defer home.Close()
	}
	n, digest, err := c.equalsPresent(l, file, home, name, compose)
	if err != nil {
		return w, err
	}
	if digest != "" && n.Lines > 0 {
		w.count(n, digest)
		return w, nil
	}
	before, err := home.Stat()
	if err != nil {
		return w, err
	}
	r := replacement{home: home, name: name, durable: c.opts.Durable, compose: compose}
	if !l.copied { // a copy of the source's manifest is not replaced
		r.like = l.prev
	}
	if l.prev != nil && !l.prev.aside && (l.prev.path == file || c.opts.Outside != "") {
		r.replaces = l.prev
	}
	n, digest, err = r.write()
	w.count(n, digest)
	switch {
	case errors.Is(err, errCreated):
		return w, fmt.Errorf("another process has created %s meanwhile", quoteName(w.Path))
	case err != nil:
		return w, err
	case n.Lines > 0:
		return w, c.settleHome(home, before)
	case r.replaces != nil && c.opts.Outside == "": // an outside manifest may belong to other copies, too
		return w, c.removeSame(home, name, l.prev)
	}
	return w, nil
}

// equalsPresent compares the manifest with the file that has its name already: the previous one, or
// the source's. If they are equal, it returns the digest as equals does, otherwise "".
func (c *Catalog) equalsPresent(l *list, file string, home *fsys.Dir, name string, compose composer) (n manifest.Counts, digest string, err error) {
	present, info, err := home.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return n, "", nil
	}
	if err != nil {
		return n, "", err
	}
	defer present.Close()
	n, digest, err = c.unchanged(l, file, present, info)
	if digest == "" && err == nil {
		n, digest, err = equals(present, info.Size, compose)
	}
	return n, digest, err
}

func (w *Written) count(n manifest.Counts, digest string) {
	w.Lines, w.Dropped, w.SHA256 = n.Lines, n.Dropped, digest
}

// fileAt returns the path of the manifest at a level.
func (c *Catalog) fileAt(l *list, level int) string {
	if level == c.level {
		return l.path
	}
	return c.names.at(level, l.algorithm)
}

// place opens the directory of a manifest, and creates it if create is true.
func (c *Catalog) place(file string, create bool) (*fsys.Dir, string, error) {
	if c.opts.Outside == "" {
		home, err := openHome(c.root, file, create)
		return home, path.Base(file), err
	}
	if create {
		if _, err := fsys.MakeDirs(filepath.Dir(file)); err != nil {
			return nil, "", err
		}
	}
	home, err := c.opts.FS.OpenTrustedRoot(filepath.Dir(file))
	return home, filepath.Base(file), err
}

func (c *Catalog) removeSame(home *fsys.Dir, name string, prev *own) error {
	if err := stillSame(home, name, prev); err != nil {
		return err
	}
	prev.close()
	return home.Remove(name)
}

// settleHome restores the times of a directory of the copy, and makes its names durable.
func (c *Catalog) settleHome(home *fsys.Dir, before fsys.Info) error {
	if home != c.root && c.opts.Outside == "" && c.opts.KeepTimes {
		if err := fsys.IgnoreRefusal(home.SetTimes(before.Atime, before.Mtime, before.Btime)); err != nil {
			return err
		}
	}
	if c.opts.Durable {
		return home.Sync()
	}
	return nil
}

// removeOld removes the previous manifests whose lines are now in those at level.
func (c *Catalog) removeOld(level int) error {
	old := c.leftover
	var failed error
	for _, l := range c.lists {
		left, err := c.isLeft(l, level)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", quoteName(l.prev.name), err))
		}
		if left {
			old = append(old, l.prev)
		}
		l.prev.close()
	}
	if failed != nil {
		return failed
	}
	for _, o := range old {
		before, err := o.home.Stat()
		if err == nil {
			err = o.home.Remove(o.name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = c.settleHome(o.home, before)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(o.name), err)
		}
	}
	return nil
}

// isLeft reports whether the previous manifest of a list still exists, although its lines are now in
// the manifest at level.
func (c *Catalog) isLeft(l *list, level int) (bool, error) {
	switch {
	case !c.movable(l):
		return false, nil
	case l.prev.aside:
		return true, nil
	case l.prev.path == c.fileAt(l, level):
		return false, nil
	}
	return l.prev.isInPlace()
}

// shown returns a manifest's path as the user would write it.
func (c *Catalog) shown(file string) string {
	if c.opts.Outside != "" {
		return c.opts.Outside
	}
	return filepath.Join(c.opts.Shown, filepath.FromSlash(file))
}
