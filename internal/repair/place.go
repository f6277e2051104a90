package repair

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// spot is the place of a file in the directory to repair.
type spot struct {
	dir  *fsys.Dir // the directory of the file; nil in a dry run if it does not exist
	name string
	temp string   // the temporary name of a new file for this place
	path []string // the names of the directories above
}

func (s spot) close() {
	if s.dir != nil {
		s.dir.Close()
	}
}

// tempID is in the names of all temporaries of repairs.
const tempID = "7265706169720000"

// tempName returns the temporary name for a file. It depends only on the name, so that the next repair finds
// the temporary of a killed one. Hostile names cannot have the same one.
func tempName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s%s-%x.tmp", fsys.Reserved, tempID, sum[:16])
}

// elements splits a path of a manifest. It refuses paths that could lead out of a directory.
func elements(path string) ([]string, error) {
	names := strings.Split(path, "/")
	if !filepath.IsLocal(filepath.FromSlash(path)) || slices.Contains(names, "..") || slices.Contains(names, "") || slices.Contains(names, ".") {
		return nil, fsys.ErrOutside
	}
	return names, nil
}

// isManifest reports whether the names are those of a manifest in the root, or of a file of a history.
func isManifest(names []string) bool {
	_, _, known := manifest.Recognize(names[len(names)-1])
	return known && len(names) == 1 || slices.Contains(names[:len(names)-1], mhl.Folder)
}

// directories are those of the directory to repair in which a run works.
type directories struct {
	mu   sync.Mutex
	seen map[fsys.ID]fsys.Info // directories as they were before the run changed them
	made map[string]bool       // paths of those that this run has made
}

// enter opens the directory of a path of a manifest, and creates it except in a dry run. It follows no symbolic
// link. The caller closes the spot.
func (d *directories) enter(r *run, path string) (spot, error) {
	names, err := elements(path)
	if err != nil {
		return spot{}, err
	}
	last := len(names) - 1
	s := spot{name: names[last], temp: tempName(names[last]), path: names[:last]}
	if s.dir, err = r.root.OpenDir("."); err != nil {
		return spot{}, err
	}
	for i, name := range s.path {
		next, err := d.open(r, s.dir, name, strings.Join(names[:i+1], "/"))
		s.dir.Close()
		if s.dir = next; err != nil || next == nil {
			return s, err
		}
	}
	_, err = d.before(s.dir)
	if err != nil {
		s.close()
	}
	return s, err
}

// open opens the subdirectory name of dir. It creates the subdirectory, except in a dry run, in which the result is
// nil then. A new one has its metadata before any file is in it. So after a kill it is complete, or empty and
// recognized as unfinished.
func (d *directories) open(r *run, dir *fsys.Dir, name, path string) (*fsys.Dir, error) {
	sub, err := dir.OpenDir(name)
	absent := errors.Is(err, fs.ErrNotExist)
	if r.opts.DryRun {
		if absent {
			return nil, nil //nolint:nilnil // there is none
		}
		return sub, err
	}
	if absent {
		if _, err = d.before(dir); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if absent {
		switch err = dir.MkdirUnfinished(name); {
		case err == nil:
			d.made[path] = true
			err = dir.Sync()
		case errors.Is(err, fs.ErrExist): // another worker was first
			absent, err = false, nil
		}
		if err != nil {
			return nil, err
		}
		sub, err = dir.OpenDir(name)
	}
	if err != nil {
		return nil, err
	}
	info, err := sub.Stat()
	if err == nil && (absent || info.IsUnfinished()) {
		err = r.furnish(sub, info, path)
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// furnish gives a new directory the metadata of the first other directory that has it.
func (r *run) furnish(dir *fsys.Dir, now fsys.Info, path string) error {
	v := metadata.Values{Info: now}
	v.Info.Mode = 0o777 &^ fsys.Umask()
	for _, other := range r.others {
		if r.readDirectory(other, path, &v) {
			break
		}
	}
	store, err := r.systems.Find(dir, now)
	if err != nil {
		return err
	}
	_, err = store.Apply(&dir.Object, &v, now, true, true)
	return err
}

// before returns the description of a directory before the run has changed it.
func (d *directories) before(dir *fsys.Dir) (fsys.Info, error) {
	now, err := dir.Stat()
	if err != nil {
		return now, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.seen[now.ID]; ok {
		return known, nil
	}
	d.seen[now.ID] = now
	return now, nil
}

// settle syncs a directory in which names have changed, and gives it the times that it had before.
func (d *directories) settle(dir *fsys.Dir) error {
	before, err := d.before(dir)
	if err != nil {
		return err
	}
	if err := fsys.IgnoreRefusal(dir.SetTimes(before.Atime, before.Mtime, before.Btime)); err != nil {
		return err
	}
	return dir.Sync()
}

// removeEmpty removes the directories that this run has made in vain.
func (r *run) removeEmpty() error {
	var failed error
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(r.dirs.made))) {
		look := fsys.NewFinder(r.root, 1)
		parent, name, err := look.Parent(path)
		if err == nil && parent.RemoveDir(name) == nil {
			err = r.dirs.settle(parent)
		}
		look.Close()
		failed = errors.Join(failed, err)
	}
	return failed
}

// readDirectory reads the metadata of a directory of another tree. It returns false if there is none.
func (r *run) readDirectory(other *fsys.Dir, path string, v *metadata.Values) bool {
	look := fsys.NewFinder(other, 1)
	defer look.Close()
	parent, name, err := look.Parent(path)
	if err != nil {
		return false
	}
	dir, err := parent.OpenDir(name)
	if err != nil {
		return false
	}
	defer dir.Close()
	read := metadata.Values{}
	if read.Info, err = dir.Stat(); err != nil || r.reader.Read(&dir.Object, path, &read) != nil {
		return false
	}
	*v = read
	return true
}

// place gives a replacement its name, and links the other names of its group to it, if their lines allow that. All
// links have temporary names before the first name is replaced. So after a kill the next run finds the
// rest of the links.
func (w *worker) place(n *replacement, g *group) {
	mates := []*File{}
	spots := []spot{}
	defer func() {
		for _, s := range spots {
			s.close()
		}
	}()
	for _, f := range g.files {
		if f == n.of || f.Verdict == verify.Missing || f.Result == Repaired || f.Result == Failed || f.Err != nil ||
			w.refuse(f) != nil || !f.matches(w.algorithms, n.digests, n.size) {
			continue
		}
		if s, err := w.link(n, f); err == nil { // otherwise it is repaired separately
			mates, spots = append(mates, f), append(spots, s)
		}
	}
	kept, err := w.replace(n.of, n, n.spot, true)
	if err != nil {
		n.of.fail(err)
		for _, s := range append(spots, n.spot) {
			w.removeTemp(s)
		}
		return
	}
	n.of.Result, n.of.Size, n.of.Kept = Repaired, n.size, kept
	for i, f := range mates {
		if _, err := w.replace(f, n, spots[i], false); err != nil {
			f.fail(err)
			w.removeTemp(spots[i])
			continue
		}
		f.Result, f.Size, f.Linked, f.From, f.Reasons, f.Err = Repaired, n.size, n.of.Path, n.of.From, nil, nil
	}
}

func (w *worker) removeTemp(s spot) {
	if !w.opts.DryRun {
		_ = s.dir.Remove(s.temp) // the next repair removes it
	}
}

// link links a replacement to the temporary name of another name of the damaged file.
func (w *worker) link(n *replacement, f *File) (spot, error) {
	s, err := w.dirs.enter(w.run, f.Path)
	if err != nil || w.opts.DryRun {
		return s, err
	}
	if err = w.unchanged(f, s); err == nil {
		err = n.spot.dir.Link(n.spot.temp, s.dir, s.temp)
	}
	if errors.Is(err, fs.ErrExist) { // a killed repair has left it
		have, lookErr := s.dir.Lstat(s.temp)
		switch {
		case lookErr == nil && have.ID == n.id:
			err = nil
		case lookErr == nil:
			if err = s.dir.Remove(s.temp); err == nil {
				err = n.spot.dir.Link(n.spot.temp, s.dir, s.temp)
			}
		}
	}
	if err == nil {
		err = s.dir.Sync()
	}
	if err != nil {
		s.close()
	}
	return s, err
}

// replace renames the temporary at a spot to the name of f. keep keeps the damaged file, whose new path is
// returned, unless it is discarded. The name has its old or its new content at any time, where the file
// system has hard links.
func (w *worker) replace(f *File, n *replacement, s spot, keep bool) (kept string, err error) {
	if w.opts.DryRun {
		return "", nil
	}
	if err := w.unchanged(f, s); err != nil {
		return "", err
	}
	if have, err := s.dir.Lstat(s.temp); err != nil || have.ID != n.id {
		return "", errors.Join(errOtherNow, err)
	}
	rename := s.dir.Rename
	if f.Verdict == verify.Missing {
		rename = s.dir.RenameNew
	} else if keep && !w.opts.Discard {
		if kept, err = w.keep(f, s); err != nil {
			return "", fmt.Errorf("the damaged file cannot be kept: %w", err)
		}
	}
	if err := rename(s.temp, s.name); err != nil {
		return "", err
	}
	return kept, w.dirs.settle(s.dir)
}

// keep gives the damaged file a second name, and returns its path. If the file system has no hard links, keep
// renames the file. The name is free then until the new file gets it, and the next repair finds it missing.
func (w *worker) keep(f *File, s spot) (string, error) {
	if w.backup != nil {
		return w.keepInBackup(f, s)
	}
	dir, err := w.run.root.OpenDir(".")
	for _, name := range append(slices.Clone(s.path), "") {
		if err != nil {
			return "", err
		}
		archive := archiveIn(dir)
		if archive != "" {
			dir.Close()
			return "", fmt.Errorf("it is in a %s, which a kept file would break; use --discard or --backup-dir", archive)
		}
		if name == "" {
			break
		}
		next, openErr := dir.OpenDir(name)
		dir.Close()
		dir, err = next, openErr
	}
	dir.Close()
	bad, err := readback.BadName(s.name, func(bad string) error { return linkOnce(s.dir, s.name, f.Info.ID, s.dir, bad) })
	if err != nil && fsys.LinkRefused(err) {
		bad, err = readback.BadName(s.name, func(bad string) error { return s.dir.RenameNew(s.name, bad) })
	}
	if err == nil {
		err = s.dir.Sync()
	}
	return strings.Join(append(slices.Clone(s.path), bad), "/"), err
}

// linkOnce links a name of a file. It is no error if the new name is one of that file already, because a killed
// repair has linked it.
func linkOnce(dir *fsys.Dir, name string, id fsys.ID, to *fsys.Dir, newName string) error {
	err := dir.Link(name, to, newName)
	if errors.Is(err, fs.ErrExist) {
		if have, lookErr := to.Lstat(newName); lookErr == nil && have.ID == id {
			return nil
		}
	}
	return err
}

// keepInBackup links the damaged file into the backup directory, under its path.
func (w *worker) keepInBackup(f *File, s spot) (string, error) {
	dir, err := w.backup.OpenDir(".")
	if err != nil {
		return "", err
	}
	for _, name := range s.path {
		made := dir.Mkdir(name)
		if made == nil {
			made = dir.Sync()
		}
		next, err := dir.OpenDir(name)
		dir.Close()
		if err != nil {
			return "", errors.Join(err, made)
		}
		dir = next
	}
	defer dir.Close()
	name := s.name
	err = linkOnce(s.dir, s.name, f.Info.ID, dir, name)
	for i := 1; errors.Is(err, fs.ErrExist); i++ {
		name = fmt.Sprintf("%s.~%d~", s.name, i)
		err = linkOnce(s.dir, s.name, f.Info.ID, dir, name)
	}
	if err == nil {
		err = dir.Sync()
	}
	path := append([]string{filepath.ToSlash(w.opts.Backup)}, s.path...)
	return strings.Join(append(path, name), "/"), err
}
