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
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// Lines is the record.Recorder of line manifests. There are three kinds: Tree, Single and Outside.
type Lines struct {
	record.NoRecorder
	Hashes   []hash.Algorithm // each gets a manifest; they are the first ones of record.Destination.Hashes
	Manifest string           // the value of --manifest; "" for the default names
}

// Unlisted implements record.Recorder. No line manifest lists an ASC MHL history, because its chain
// changes with each copy.
func (l Lines) Unlisted(name string, parent record.Opener) bool {
	return name == mhl.Folder && mhl.HoldsHistory(parent)
}

// Open implements record.Recorder. It decides which names the manifests have at the destination,
// and opens those of earlier runs.
func (l Lines) Open(d *record.Destination) (record.Book, error) {
	m := &manifests{Destination: d, changes: changes{hashes: d.Hashes, lines: make([]lookup.Set, len(d.Hashes))}}
	m.others.manifests = m
	for slot, a := range l.Hashes {
		m.lists = append(m.lists, &list{algorithm: a, slot: slot})
	}
	book, err := m.open()
	if err != nil {
		m.Close()
		return nil, err
	}
	if m.Outside == "" {
		for _, l := range m.lists {
			d.Names = append(d.Names, l.path)
		}
	}
	return book, nil
}

func (m *manifests) open() (record.Book, error) {
	if m.Outside == "" && m.Usual == "" && m.File != "" {
		s := &Single{manifests: m}
		return s, s.open()
	}
	if err := m.findNeighbours(); err != nil {
		return nil, err
	}
	var book record.Book = &Tree{m}
	var err error
	if m.Outside == "" {
		err = m.chooseNames()
	} else if len(m.lists) > 0 {
		outside := &Outside{m}
		book, err = outside, outside.open()
	}
	if err == nil && m.File == "" && m.Root != nil {
		err = m.findGuarded()
	}
	return book, err
}

// manifests are the line manifests of one destination. It has what Tree, Single and Outside share.
type manifests struct {
	*record.Destination
	record.NoBook
	lists        []*list    // one for each hash
	near         neighbours // in the root of the destination
	nearSource   neighbours // in that of the source; nil for a single file
	beside       neighbours // in the root of the destination: possible manifests beside one file, sorted
	guarded      []string   // own manifests of other runs, with the paths of other files of the source
	ofSource     []string   // own manifests of other runs, equal to these files of the source, which they describe
	homes        []*fsys.Dir
	leftover     []*existing // aside, and replaced by a killed run; finish removes them
	others       others
	changes      changes
	aside        onceError // moving the previous manifests aside
	readError    error     // the first error of reading a file that an earlier line lists
	lostPrefixes []string  // directories whose earlier lines are dropped, see record.Outcome.Below
}

// onceError does something once, and keeps its error.
type onceError struct {
	once sync.Once
	err  error
}

func (o *onceError) do(f func() error) error {
	o.once.Do(func() { o.err = f() })
	return o.err
}

// list is the manifest of one hash.
type list struct {
	algorithm hash.Algorithm
	slot      int    // of the hash among those of the run
	path      string // of the manifest, relative to the destination
	prev      *existing
	given     []byte // the digest of a single file in the existing manifest beside it, of any form
	changes   bool   // its content is going to change, see others.change

	// The manifest that exists with the same content, see manifests.compare; digest is "" if there is none.
	counts manifest.Counts
	digest string
}

// lists reports whether the existing manifest lists a path.
func (l *list) lists(file string) bool { return l.prev != nil && l.prev.index.MayList(file) }

// Claim implements record.Book. No run copies the source's own manifest to the path of a
// manifest of this run, or to that of another manifest that the run keeps.
func (m *manifests) Claim(file string) record.Claim {
	switch {
	case m.File != "":
	case m.isManifest(file):
		return record.Claim{Own: true}
	case slices.Contains(m.guarded, file):
		return record.Claim{Guarded: errGuarded}
	}
	return record.Claim{}
}

// errGuarded is the conflict of an entry that differs from a manifest which Sealift wrote.
var errGuarded = &record.Conflict{Why: "it is a manifest that Sealift wrote at the destination, and not one of this copy", Next: "move it away to copy the file of the source"}

// isManifest reports whether a path is that of a manifest of this run. Some directories list it in
// another case. If it were another file, the name would be taken.
func (m *manifests) isManifest(file string) bool {
	return m.Outside == "" && slices.ContainsFunc(m.lists, func(l *list) bool { return strings.EqualFold(l.path, file) })
}

// isKnown reports whether the previous manifest exists and the run knows which of its lines an
// unfinished run has made out of date.
func (l *list) isKnown(d *record.Destination) bool {
	return l.prev != nil && (!l.prev.killed || d.Interrupted != nil)
}

// Kept implements record.Book.
func (m *manifests) Kept(file string) record.Kept {
	if m.Outside != "" || len(m.lists) == 0 {
		return record.Kept{}
	}
	digests := make(hash.Digests, len(m.Hashes))
	for _, l := range m.lists {
		if l.isKnown(m.Destination) && l.path != file { // no manifest can list itself
			digests[l.slot], _, _ = l.prev.index.Lookup(file) // Finish reports a line that cannot be read
		}
	}
	return record.Kept{Digests: digests, Complete: record.IsComplete(digests)}
}

// Account implements record.Book. By rule 5, an entry without digests keeps an earlier line
// unless the run has replaced it.
func (m *manifests) Account(o record.Outcome) error {
	switch {
	case o.Below:
		m.lostPrefixes = append(m.lostPrefixes, o.Path+"/")
		m.changes.replaced.Add(o.Path)
	case o.Created || o.Replaced:
		m.changes.add(o)
	}
	return nil
}

// isLost reports whether earlier lines of a path are dropped, see lostPrefixes.
func (m *manifests) isLost(file string) bool {
	return slices.ContainsFunc(m.lostPrefixes, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// Finish implements record.Book. A manifest that would not change stays. After an error, the
// previous manifests have their names or are aside; the next run finds them.
func (m *manifests) Finish(end record.End) ([]record.Written, error) {
	return m.finish(end, func(*list) (bool, error) { return false, nil })
}

// finish is Finish, except for manifests for which stays returns true.
func (m *manifests) finish(end record.End, stays func(*list) (bool, error)) (written []record.Written, err error) {
	defer m.warnStale()
	if m.File != "" {
		removeLeftLock(m.Root)
	}
	if end.Err != nil {
		return nil, end.Err
	}
	var lists []*list
	for _, l := range m.lists {
		if stay, err := stays(l); err != nil {
			return nil, err
		} else if stay {
			continue
		}
		if err := m.compare(l); err != nil {
			return nil, m.aboutOutside(err)
		}
		lists = append(lists, l)
	}
	if m.File == "" {
		if err := m.others.judge(); err != nil {
			return nil, err
		}
		if err := m.others.writeBack(); err != nil {
			return nil, err
		}
	}
	for _, l := range lists {
		w, err := m.write(l)
		if err != nil {
			return written, m.aboutOutside(err)
		}
		if w.Lines > 0 || w.Dropped > 0 {
			written = append(written, w)
		}
	}
	if err := m.removeAsides(); err != nil {
		return written, err
	}
	return written, m.readError
}

// aboutOutside names the manifest outside the destination in an error.
func (m *manifests) aboutOutside(err error) error {
	if m.Outside != "" {
		err = fmt.Errorf("%s: %w", quoteName(m.Outside), err)
	}
	return err
}

// compose writes the lines of one manifest: those of this run, and those of earlier ones by
// rule 5. No manifest lists one of this run. By rule 6, one outside the destination keeps no lines.
func (m *manifests) compose(l *list, w io.Writer) (manifest.Counts, error) {
	finder := fsys.NewFinder(m.Root, 64)
	defer finder.Close()
	doc := manifest.Document{
		Hashes: []hash.Algorithm{l.algorithm},
		Omit:   m.isManifest,
	}
	if l.prev != nil && m.Outside == "" {
		doc.Previous = []io.ReadSeeker{l.prev.lines()}
		doc.Index = m.Files.Marked()
		doc.Keep = func(file string, digest []byte) ([]byte, error) { return m.keep(l, finder, file, digest) }
	}
	return m.Files.Write(w, doc)
}

// keep applies rule 5 to the line of a path that the run did not touch.
func (m *manifests) keep(l *list, finder *fsys.Finder, file string, digest []byte) ([]byte, error) {
	if m.isLost(file) || m.changes.replaced.Has(file) {
		return nil, nil
	}
	if m.others.isAside(file) { // and its name leads to no file now
		return digest, nil
	}
	info, err := finder.Lstat(file)
	switch {
	case fsys.NoSuchFile(err) || errors.As(err, new(*fsys.KindError)) || err != nil && fsys.IsSymlinkRefusal(err):
		return nil, nil
	case err != nil: // the file may exist
		if !errors.Is(err, fs.ErrPermission) && m.readError == nil {
			m.readError = fmt.Errorf("%s is listed, and cannot be examined: %w", quoteName(file), err)
		}
		return digest, nil
	case info.Kind != fsys.Regular:
		return nil, nil
	case !l.prev.killed:
		return digest, nil
	}
	if m.Interrupted != nil {
		switch digests, touched := m.Interrupted.Touched(file, info); {
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

// compare finds out whether the manifest exists with the content that it gets. If it is aside, it only
// needs its name again.
func (m *manifests) compare(l *list) error {
	if err := l.checkMarked(m); err != nil {
		return err
	}
	compose := func(w io.Writer) (manifest.Counts, error) { return m.compose(l, w) }
	var n manifest.Counts
	var digest string
	var err error
	if l.prev != nil && l.prev.aside {
		n, digest, err = equals(l.prev.file, l.prev.info.Size, compose)
	} else {
		n, digest, err = m.equalsPresent(l, compose)
	}
	if n.Lines > 0 {
		l.counts, l.digest = n, digest
	}
	return err
}

// write writes the manifest under its name.
func (m *manifests) write(l *list) (record.Written, error) {
	file := cmp.Or(m.Outside, l.path)
	w := record.Written{Path: m.shown(file), Algorithm: string(l.algorithm)}
	if l.digest != "" && !l.changes {
		w.Count(l.counts, l.digest)
		return w, created(w, m.moveBack(l.prev))
	}
	compose := func(w io.Writer) (manifest.Counts, error) { return m.compose(l, w) }
	home, name, err := m.openDirOf(file, false)
	if errors.Is(err, fs.ErrNotExist) { // create no directory without a manifest
		n, err := compose(io.Discard)
		if err != nil || n.Lines == 0 {
			w.Dropped = n.Dropped
			return w, err
		}
		home, name, err = m.openDirOf(file, true)
		if err != nil {
			return w, err
		}
	} else if err != nil {
		return w, err
	}
	if home != m.Root {
		defer home.Close()
	}
	before, err := home.Stat()
	if err != nil {
		return w, err
	}
	if m.File != "" && m.Outside == "" && l.prev != nil {
		if err := m.others.removeLines(l.path); err != nil {
			return w, err
		}
	}
	r := replacement{home: home, name: name, like: l.prev, durable: m.Durable, compose: compose}
	if l.prev != nil && !l.prev.aside {
		r.replaces = l.prev
	}
	n, digest, err := r.write()
	w.Count(n, digest)
	switch {
	case err != nil:
		return w, created(w, err)
	case n.Lines > 0:
		return w, m.settleHome(home, before)
	case r.replaces != nil && m.Outside == "": // an outside manifest may belong to other copies, too
		return w, removeSame(home, name, l.prev)
	}
	return w, nil
}

// created replaces the error of a name that exists now by one that names the manifest.
func created(w record.Written, err error) error {
	if errors.Is(err, errCreated) || errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("another process has created %s meanwhile", quoteName(w.Path))
	}
	return err
}

// equalsPresent compares the manifest with the file that has its name already. If they are equal, it returns the digest as equals does, otherwise "".
func (m *manifests) equalsPresent(l *list, compose composer) (n manifest.Counts, digest string, err error) {
	file := cmp.Or(m.Outside, l.path)
	home, name, err := m.openDirOf(file, false)
	if err == nil && home != m.Root {
		defer home.Close()
	}
	var present *fsys.File
	var info fsys.Info
	if err == nil {
		present, info, err = home.OpenRegular(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return n, "", nil
	}
	if err != nil {
		return n, "", err
	}
	defer present.Close()
	n, digest, err = l.unchanged(m, file, present, info)
	if digest == "" && err == nil {
		n, digest, err = equals(present, info.Size, compose)
	}
	return n, digest, err
}

// openDirOf opens the directory of a manifest, and creates it if create is true.
func (m *manifests) openDirOf(file string, create bool) (*fsys.Dir, string, error) {
	if m.Outside == "" {
		home, err := openHome(m.Root, file, create)
		return home, path.Base(file), err
	}
	if create {
		if _, err := fsys.MakeDirs(filepath.Dir(file)); err != nil {
			return nil, "", err
		}
	}
	home, err := m.FS.OpenTrustedRoot(filepath.Dir(file))
	return home, filepath.Base(file), err
}

// settleHome restores the times of a directory of the copy, and makes its names durable.
func (m *manifests) settleHome(home *fsys.Dir, before fsys.Info) error {
	if home != m.Root && m.Outside == "" && m.KeepTimes {
		if err := fsys.IgnoreRefusal(home.SetTimes(before.Atime, before.Mtime, before.Btime)); err != nil {
			return err
		}
	}
	if m.Durable {
		return home.Sync()
	}
	return nil
}

// shown returns a manifest's path as the user would write it.
func (m *manifests) shown(file string) string {
	if m.Outside != "" {
		return m.Outside
	}
	return filepath.Join(m.Shown, filepath.FromSlash(file))
}

// refuse turns a *takenError for the manifest at a path into a refusal of the run.
func (m *manifests) refuse(file string, err error) error {
	other, ok := errors.AsType[*takenError](err)
	if !ok {
		return err
	}
	hint := "name another one with --manifest"
	if m.Usual != "" || m.Outside != "" {
		hint = "choose another name"
	}
	return failure.Refuse("no manifest can be written to %s: %s; %s", quoteName(m.shown(file)), other.why, hint)
}

// Close implements record.Book. Manifests that were not written stay as before, or aside.
func (m *manifests) Close() {
	for _, l := range append(m.lists, m.others.found...) {
		l.prev.close()
	}
	for _, home := range m.homes {
		home.Close()
	}
	m.homes = nil
}

func quoteName(s string) string { return quote.Name(s) }
