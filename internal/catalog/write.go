package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

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
	if err := c.judgeOthers(); err != nil {
		return nil, err
	}
	for _, l := range c.lists {
		if stays, err := c.stays(l); err != nil {
			return written, err
		} else if stays {
			continue
		}
		w, err := c.write(l)
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
	if err := c.writeOthers(); err != nil {
		return written, err
	}
	if err := c.removeAsides(); err != nil {
		return written, err
	}
	return written, c.unsure
}

// compose writes the lines of one manifest: those of this run, and those of earlier ones by
// rule 5. No manifest lists one of this run.
func (c *Catalog) compose(l *list, w io.Writer) (manifest.Counts, error) {
	finder := fsys.NewFinder(c.root, 64)
	defer finder.Close()
	doc := manifest.Document{
		Hashes: []hash.Algorithm{l.algorithm},
		Omit:   c.isPlace,
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

// keep applies rule 5 to the line of a path that the run did not touch.
func (c *Catalog) keep(l *list, finder *fsys.Finder, file string, digest []byte) ([]byte, error) {
	if c.hasFallen(file) {
		return nil, nil
	}
	if i := slices.IndexFunc(c.others, func(o *list) bool { return o.path == file && o.prev.aside }); i >= 0 {
		if c.others[i].changes {
			return nil, nil
		}
		return digest, nil
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
	case !l.prev.killed:
		return digest, nil
	}
	if c.interrupted != nil {
		switch digests, touched := c.interrupted.Touched(file, have); {
		case !touched:
			return digest, nil
		case digests != nil:
			return digests[l.slot], nil
		}
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

// write writes the manifest under its name.
func (c *Catalog) write(l *list) (Written, error) {
	file := cmp.Or(c.opts.Outside, l.path)
	w := Written{Path: c.shown(file), Algorithm: string(l.algorithm)}
	if err := c.stillIndexed(l); err != nil {
		return w, err
	}
	compose := func(w io.Writer) (manifest.Counts, error) { return c.compose(l, w) }
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
	if err := c.beforeManifest(l); err != nil {
		return w, err
	}
	r := replacement{home: home, name: name, like: l.prev, durable: c.opts.Durable, compose: compose}
	if l.prev != nil && !l.prev.aside {
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

// equalsPresent compares the manifest with the file that has its name already. If they are equal, it returns the digest as equals does, otherwise "".
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

// beforeManifest is BeforeChange for a manifest of this run, which another manifest may list.
func (c *Catalog) beforeManifest(l *list) error {
	if c.opts.Outside != "" || c.opts.File != "" {
		return nil
	}
	if err := c.finding.do(c.findOthers); err != nil {
		return err
	}
	c.changes.replaced.Add(l.path)
	for _, other := range c.others {
		if other.prev.index.MayList(l.path) {
			if err := c.moveAside(other.prev); err != nil {
				return err
			}
		}
	}
	return nil
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

// removeAsides removes the previous manifests that are aside, because their lines are in the new
// ones, and the records of all.
func (c *Catalog) removeAsides() error {
	old := c.leftover
	for _, l := range c.lists {
		if l.prev != nil && l.prev.aside {
			old = append(old, l.prev)
		}
		l.prev.close()
	}
	for _, o := range old {
		if err := c.removeAside(o); err != nil {
			return fmt.Errorf("%s: %w", quoteName(o.name), err)
		}
	}
	for file := range c.opts.Asides { // a killed run may have removed the manifest and not the record
		if err := c.opts.Journal.ForgetAside(file); err != nil {
			return err
		}
	}
	return nil
}

// shown returns a manifest's path as the user would write it.
func (c *Catalog) shown(file string) string {
	if c.opts.Outside != "" {
		return c.opts.Outside
	}
	return filepath.Join(c.opts.Shown, filepath.FromSlash(file))
}
