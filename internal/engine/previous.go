package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// manifestFile is one manifest of one destination: one that this run writes, or
// one of another kind that must lose the lines of files that this run replaces.
type manifestFile struct {
	algorithm hash.Algorithm
	slot      int    // which of the run's digests it takes; -1: it only loses lines
	rel       string // its path in the destination's tree; "" if it is outside
	dir       string // where it is, if that is outside the tree
	name      string
	saved     string // its name while it is in the journal

	prev     *fsys.File // the manifest of an earlier run, nil if there is none
	prevDir  *fsys.Dir  // where it has its name; nil once it is in the journal
	home     *fsys.Dir  // its directory, if that is not the destination's root
	prevName string
	prevSize int64
	prevTime fsys.Time // when it was written: older files are what it lists
	// foreign: the previous manifest is also a file of the source, byte for byte.
	// It may never have been ours, so its lines for other paths are not taken over.
	foreign bool
	inForce bool // it stood under its name when this run began
	index   *manifest.Index

	builder *manifest.Builder
	changed bool  // lines were put or dropped
	err     error // the first error; it is not written then
}

// openManifests finds out where the manifests of this run go, and finds those of
// earlier runs, including what an interrupted run has left in the journal.
func (t *target) openManifests(r *run) error {
	own := map[string]bool{}
	for slot, a := range r.opts.Hashes {
		m := &manifestFile{algorithm: a, slot: slot}
		t.manifests = append(t.manifests, m)
		if r.opts.Manifest != "" {
			m.place(t, r.opts.Manifest)
		} else {
			m.rel = fileManifestName(t.name, a)
		}
		if m.rel != "" {
			m.name = path.Base(m.rel)
		}
		if kind := r.kindInSource(m.rel); r.opts.Manifest != "" && m.rel != "" && t.name == "" && kind != fsys.Unknown && kind != fsys.Regular {
			return failure.Refuse("--manifest %s: the source has a %s of that name", quoteName(r.opts.Manifest), kind)
		}
		if t.name == "" && r.opts.Manifest == "" {
			kind := r.kindInSource(m.rel)
			if kind != fsys.Unknown {
				// The name belongs to something of the source: ours had another, or the same.
				if err := m.openPrevious(t, alternativeName(a)); err != nil {
					return err
				}
				own[alternativeName(a)] = true
			}
			if kind != fsys.Unknown && kind != fsys.Regular {
				m.rename(alternativeName(a))
				if k := r.kindInSource(m.rel); k != fsys.Unknown && k != fsys.Regular {
					return failure.Refuse("the source has things of both names that the manifest could have; name another with --manifest")
				}
			}
		}
		own[m.rel] = true
		if m.prev == nil {
			if err := m.openPrevious(t, m.rel); err != nil {
				return err
			}
			if err := m.checkForeign(r); err != nil {
				return err
			}
			if m.prev != nil && !m.foreign && m.index.Len() == 0 && m.index.Malformed() > 0 {
				return failure.Refuse("%s is there and no %s manifest; name another with --manifest", quoteName(m.shown(t)), a)
			}
		}
	}
	for _, a := range hash.Algorithms() {
		names := []string{fileManifestName("", a), alternativeName(a)}
		if t.name != "" { // those of the directory may list the file, too
			names = append(names, fileManifestName(t.name, a))
		}
		for _, name := range names {
			if own[name] || len(name) > maxName || t.name == "" && r.kindInSource(name) != fsys.Unknown {
				continue
			}
			if err := t.addOther(a, name, own); err != nil {
				return err
			}
		}
	}
	if err := t.addSaved(own); err != nil {
		return err
	}
	memory := max(manifest.DefaultMemory/len(r.route.targets)/max(len(r.opts.Hashes), 1), leastMemory)
	for _, m := range t.manifests {
		m.builder = manifest.NewBuilder(m.algorithm.Size(), t.newSpill, memory)
		m.inForce = m.prev != nil && m.prevDir != nil
		if m.prev != nil && !m.inForce {
			if err := m.distrust(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// leastMemory is what each manifest may hold before it spills, however many
// there are that share manifest.DefaultMemory.
const leastMemory = 2 << 20 // bytes

// addOther takes the manifest rel of an earlier run in, if there is one, for it
// to lose the lines of what this run replaces.
func (t *target) addOther(a hash.Algorithm, rel string, known map[string]bool) error {
	known[rel] = true
	m := &manifestFile{algorithm: a, slot: -1, rel: rel, name: path.Base(rel)}
	if err := m.openPrevious(t, rel); err != nil {
		return err
	}
	if m.prev != nil {
		t.manifests = append(t.manifests, m)
	}
	return nil
}

// addSaved takes in the manifests that an interrupted run has left in the
// journal and that are not known yet.
func (t *target) addSaved(known map[string]bool) error {
	listing, err := t.journal.dir.List()
	if err != nil {
		return err
	}
	for i := range listing.Len() {
		a, rel, ok := savedAs(listing.Name(i))
		if ok && !known[rel] {
			if err := t.addOther(a, rel, known); err != nil {
				return err
			}
		}
	}
	return nil
}

// savedName is the name in the journal of the manifest rel.
func savedName(a hash.Algorithm, rel string) string {
	return "was." + string(a) + "." + url.PathEscape(rel)
}

// savedAs undoes savedName.
func savedAs(name string) (a hash.Algorithm, rel string, ok bool) {
	rest, ok := strings.CutPrefix(name, "was.")
	algorithm, escaped, cut := strings.Cut(rest, ".")
	rel, err := url.PathUnescape(escaped)
	return hash.Algorithm(algorithm), rel, ok && cut && err == nil && slices.Contains(hash.Algorithms(), hash.Algorithm(algorithm))
}

// alternativeName is a tree's manifest's name where the source has something of
// the usual one that is not this manifest.
func alternativeName(a hash.Algorithm) string {
	return "sealift." + manifest.Extension(string(a))
}

func (m *manifestFile) rename(name string) { m.rel, m.name = name, name }

// place resolves the value of --manifest: a path in the destination, or one
// that is the user's own.
func (m *manifestFile) place(t *target, file string) {
	m.dir, m.name = filepath.Dir(file), filepath.Base(file)
	rel := filepath.Clean(file)
	if filepath.IsAbs(file) {
		anchor, rest, err := anchorOf(file)
		if err == nil {
			rel, err = filepath.Rel(t.dir, filepath.Join(anchor, rest))
		}
		if err != nil {
			return
		}
	} else {
		m.dir = filepath.Join(t.dir, m.dir)
	}
	if rel = filepath.ToSlash(rel); rel != ".." && !strings.HasPrefix(rel, "../") {
		m.rel = rel
	}
}

// shown is the manifest's path as a user would write it.
func (m *manifestFile) shown(t *target) string {
	if m.rel != "" {
		return filepath.Join(t.shown, filepath.FromSlash(m.rel))
	}
	return filepath.Join(m.dir, m.name)
}

// openHome opens the directory that the manifest's name rel is in, or, without
// one, the manifest's directory outside the tree. In the tree it goes name by
// name and follows no link: what a copy has put there must not lead the
// manifest out of it. The caller closes it unless it is the root.
func (m *manifestFile) openHome(t *target, rel string, create bool) (*fsys.Dir, error) {
	if rel == "" {
		if create {
			if err := makeDirs(m.dir); err != nil {
				return nil, errors.New(reason(err))
			}
		}
		return t.fs.OpenRoot(m.dir)
	}
	d := t.root
	if path.Dir(rel) == "." {
		return d, nil
	}
	for part := range strings.SplitSeq(path.Dir(rel), "/") {
		made := create && d.Mkdir(part) == nil
		next, err := d.OpenDir(part)
		if d != t.root {
			d.Close()
		}
		if err == nil && made {
			err = ignoreRefusal(next.Chmod(0o777 &^ fsys.Umask()))
		}
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// openPrevious looks for an earlier manifest by the name rel in the tree, or in
// its directory outside, else in the journal.
func (m *manifestFile) openPrevious(t *target, rel string) error {
	if err := m.tryPrevious(t, rel); err != nil {
		return fmt.Errorf("previous manifest %s: %w", quoteName(m.shown(t)), err)
	}
	return nil
}

func (m *manifestFile) tryPrevious(t *target, rel string) error {
	home, err := m.openHome(t, rel, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	name := m.name
	if rel != "" {
		name = path.Base(rel)
	}
	var f *fsys.File
	var info fsys.Info
	if home != nil {
		if home != t.root {
			m.home = home
		}
		f, info, err = home.OpenRegular(name)
	}
	m.prevDir, m.prevName = home, name
	if m.saved = savedName(m.algorithm, rel); len(m.saved) > maxName {
		m.saved = savedName(m.algorithm, "") // nobody will find it there, but it is out of force
	}
	if errors.Is(err, fs.ErrNotExist) && rel != "" {
		m.prevDir = nil
		f, info, err = t.journal.dir.OpenRegular(m.saved)
	}
	var other *fsys.KindError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &other):
		if m.slot >= 0 && rel == m.rel && m.prevDir == nil && rel != "" {
			return failure.Refuse("%s: what the journal holds of it is no regular file", quoteName(m.shown(t)))
		}
		if m.slot >= 0 && rel == m.rel {
			return failure.Refuse("%s is not a regular file, so no manifest can be written there; name another with --manifest", quoteName(m.shown(t)))
		}
		return nil
	case err != nil:
		return err
	}
	m.prev, m.prevSize, m.prevTime = f, info.Size, info.Mtime
	m.index, err = manifest.BuildIndex(fsys.ReaderAt{File: f}, info.Size, m.algorithm.Size(), manifest.Tags(string(m.algorithm))...)
	return err
}

// checkForeign finds out whether the previous manifest is, byte for byte, a file
// of the source.
func (m *manifestFile) checkForeign(r *run) error {
	if m.prev == nil || m.rel != m.name || r.kindInSource(m.rel) != fsys.Regular {
		return nil
	}
	f, info, err := r.source.Open(m.rel)
	if err != nil {
		return nil //nolint:nilerr // copying it will report that
	}
	defer f.Close()
	c := &comparer{want: bufio.NewReader(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, info.Size))}
	_, err = io.Copy(c, io.NewSectionReader(fsys.ReaderAt{File: m.prev}, 0, m.prevSize))
	if err != nil && !errors.Is(err, errDiffers) {
		return err
	}
	m.foreign = err == nil && info.Size == m.prevSize
	return nil
}

// vouched returns the digests that the previous manifests give for the file at
// path, if the destination's file have has not changed since they were written.
// A manifest from the future proves nothing.
func (t *target) vouched(path string, have fsys.Info, hashes int) (hash.Digests, bool) {
	if !t.ctimeHolds || hashes == 0 {
		return nil, false
	}
	digests := make(hash.Digests, hashes)
	for _, m := range t.manifests {
		if m.slot < 0 {
			continue
		}
		if m.index == nil || m.foreign || have.Ctime.Compare(m.prevTime) >= 0 || m.prevTime.Sec > time.Now().Unix() {
			return nil, false
		}
		digest, ok, err := m.index.Lookup(path)
		if !ok || err != nil { // unreadable: then it vouches for nothing, and Previous will report it
			return nil, false
		}
		digests[m.slot] = digest
	}
	return digests, true
}

// clearWay is called before something gets a name at the destination. It puts
// the previous manifests out of force if one may list the name.
func (t *target) clearWay(r *run, act action, name string) error {
	for _, m := range t.manifests {
		if act != actCreate || m.index != nil && m.index.MayList(name) {
			return t.retireManifests(r)
		}
	}
	return nil
}

// retireManifests puts the previous manifests out of force before a file that
// they list changes: no stale manifest ever stands beside new files.
func (t *target) retireManifests(r *run) error {
	t.retire.Do(func() {
		for _, m := range t.manifests {
			// One outside the tree does not stand beside anything.
			if m.prev == nil || m.prevDir == nil || m.foreign || m.rel == "" {
				continue
			}
			err := m.prevDir.MoveTo(m.prevName, t.journal.dir, m.saved)
			if err == nil && r.opts.Sync != SyncNone {
				err = m.prevDir.Sync()
			}
			if err != nil {
				t.retireErr = err
				return
			}
			m.prevDir = nil
		}
	})
	return t.retireErr
}

// distrust drops the lines of a manifest that an interrupted run has left in
// the journal, except of files that have not changed since it was written: that
// run replaced files, and nobody knows which.
func (m *manifestFile) distrust(t *target) error {
	look := newFinder(t.root)
	defer look.Close()
	lines := manifest.NewReader(io.NewSectionReader(fsys.ReaderAt{File: m.prev}, 0, m.prevSize))
	for {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.unchanged(t, look, l.Path) || !t.ctimeHolds { // without proof the line stays, marked
			continue
		}
		m.changed = true
		if err := m.builder.Drop(path.Clean(l.Path)); err != nil {
			return err
		}
	}
}

// unchanged reports whether the file at path is what the previous manifest
// lists, as far as a change time can prove it.
func (m *manifestFile) unchanged(t *target, look *fsys.Finder, path string) bool {
	if !t.ctimeHolds {
		return false
	}
	info, err := look.Lstat(path)
	return err == nil && info.Kind == fsys.Regular && info.Ctime.Compare(m.prevTime) < 0
}
