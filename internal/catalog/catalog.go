package catalog

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
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
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Options say what the manifests of a run at one destination are to be.
type Options struct {
	Hashes []hash.Algorithm
	File   string // the name at the destination of the single file that is copied; "" for a tree
	Usual  string // the path of --manifest, relative to the destination; "" for the default
	// Outside is the path of --manifest if that is outside the destination, which then
	// gets no manifest.
	Outside   string
	Shown     string // the destination as the user would write it
	Durable   bool   // what is written is synced
	KeepTimes bool   // directories below the destination keep their times
	Memory    int    // bytes that the lines of the run may use; 0 for the default
	Bag       *BagOptions
	History   *History // nil without histories
	Spill     func() (manifest.Spill, error)
}

// Catalog holds the manifests of one destination. Kept, Accepts and BeforeChange may be
// called from several goroutines; everything else from one at a time.
type Catalog struct {
	opts   Options
	root   *fsys.Dir
	source *Source
	names  names
	claims []claim // entries of the source that have names of manifests
	level  int     // of this run's manifests
	top    int     // the highest level that the source takes, -1 if none
	// joined: the manifests may be those of the source, at the level top; see isSource.
	joined   bool
	lists    []*list // one for each hash
	homes    []*fsys.Dir
	leftover []*own // moved aside by killed runs; Write removes them
	builder  *manifest.Builder
	recorder Recorder // of a part; nil for a catalog that writes manifests
	history  *history // nil without histories
	err      error    // the first of the builder

	aside    sync.Once // moving the previous manifests aside
	asideErr error
	// distrusted: a manifest was moved aside by a run that has left no journal.
	distrusted  bool
	interrupted Interrupted

	digests  hash.Digests    // of the single file, once they are known
	dropped  bool            // the single file is not what was read
	unsure   error           // the first error of reading a file that an earlier line lists
	exists   bool            // the single file, when the run began
	arrived  map[string]bool // paths of claims: the run has copied these files, or found them equal
	noDigest string          // a file of a bag's payload of which the run knows no digests
	fallen   []string        // directories of which earlier lines are dropped: see DropBelow
	changes  changes
}

// list is the manifest of one hash.
type list struct {
	algorithm hash.Algorithm
	slot      int    // of the hash among those of the run
	path      string // of the manifest, relative to the destination, at the run's level
	prev      *own   // of an earlier run
	given     []byte // the digest of the single file in a publisher's manifest, which stays
	copied    bool   // prev is byte for byte a file of the source

	sealed      *fsys.File // the manifest of a complete bag
	sealedLines *manifest.Index
}

// Interrupted knows what unfinished runs may have changed at the destination.
type Interrupted interface {
	// Touched reports whether an unfinished run may have changed the file, which have
	// describes, and the digests that it should have then; nil if they are not known.
	Touched(path string, have fsys.Info) (digests hash.Digests, touched bool)
}

// leastMemory is what the lines of a run may use however many destinations there are, in bytes.
const leastMemory = 2 << 20

// Open decides which names the manifests of a run have at the destination root, and
// opens those of earlier runs. It writes nothing. The error is a
// *failure.RefusedError if the rules do not allow a manifest there.
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

// lineHashes returns those of the hashes that have line manifests, which are the first.
func (o *Options) lineHashes() []hash.Algorithm {
	if o.History == nil {
		return o.Hashes
	}
	return o.Hashes[:o.History.Lines]
}

// openTree applies rules 2 and 3.
func (c *Catalog) openTree() (err error) {
	if c.opts.File == "" {
		if c.claims, err = c.source.claims(c.names); err != nil {
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

// present finds the levels after first at which the destination has a manifest of
// Sealift's form, also one that was moved aside.
func (c *Catalog) present(first int) (map[int]bool, error) {
	type candidate struct {
		slotAt
		place
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

// findPrevious opens the manifest of an earlier run whose lines the run's own takes
// over: the first in order. Later ones that were moved aside are left from killed runs.
func (c *Catalog) findPrevious(l *list, order []place) error {
	for i, p := range order {
		if l.prev != nil && !p.aside {
			continue
		}
		o, err := c.find(p, l.algorithm)
		if i > 0 { // only what has the name of the run's own manifest has to be one
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
	dir, err := c.root.FS().OpenRoot(filepath.Dir(c.opts.Outside))
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

// find opens the manifest of hash a at a place of the destination: nil if there is
// none. The error is a *notOwnError if something else has the name.
func (c *Catalog) find(p place, a hash.Algorithm) (*own, error) {
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

// refuse turns a *notOwnError about the manifest at a path into a refusal of the run.
func (c *Catalog) refuse(file string, err error) error {
	var other *notOwnError
	if !errors.As(err, &other) {
		return err
	}
	hint := "name another one with --manifest"
	if c.opts.Usual != "" || c.opts.Outside != "" {
		hint = "choose another name"
	}
	return failure.Refuse("no manifest can be written to %s: %s; %s", quoteName(c.shown(file)), other.why, hint)
}

func ignoreNotOwn(err error) error {
	if other := (*notOwnError)(nil); errors.As(err, &other) {
		return nil
	}
	return err
}

// claimed reports whether the source has an entry of the manifest's name at a path.
func (c *Catalog) claimed(file string) bool {
	for _, claim := range c.claims {
		if strings.EqualFold(claim.path, file) {
			return true
		}
	}
	return false
}

// Resume says what unfinished runs have left: nil if there is no journal of one. It is
// called after Open.
func (c *Catalog) Resume(i Interrupted) {
	c.interrupted = i
	for _, l := range c.lists {
		c.distrusted = c.distrusted || l.prev != nil && l.prev.killed && i == nil
	}
}

// Kept returns the digests that the manifests of earlier runs give for a file, nil for
// each hash of which none does. complete: there is one for each hash of the run, so that a
// file that the overwrite policy skips need not be read.
func (c *Catalog) Kept(file string) (digests hash.Digests, complete bool) {
	if c.opts.Bag != nil {
		return c.keptInBag(file)
	}
	if c.history != nil {
		digests = c.history.listed(file, len(c.opts.Hashes))
		lines, _ := c.keptInLines(file)
		for slot, d := range lines {
			if digests[slot] == nil {
				digests[slot] = d
			}
		}
		return digests, !slices.ContainsFunc(digests, func(d []byte) bool { return d == nil })
	}
	return c.keptInLines(file)
}

// keptInLines is Kept for line manifests alone.
func (c *Catalog) keptInLines(file string) (digests hash.Digests, complete bool) {
	if c.distrusted || c.opts.Outside != "" || len(c.lists) == 0 {
		return nil, false
	}
	digests, complete = make(hash.Digests, len(c.lists)), true
	for _, l := range c.lists {
		if l.prev != nil && l.prev.path != file { // none can list itself
			digests[l.slot], _, _ = l.prev.index.Lookup(file) // Write reports what cannot be read
		}
		complete = complete && digests[l.slot] != nil
		if l.given != nil { // nothing has read what is here and found it to be that
			digests[l.slot] = l.given
		}
	}
	return digests, complete
}

// Settled reports whether the manifests in place, none of which was moved aside, list
// the file.
func (c *Catalog) Settled(file string) bool {
	for _, l := range c.lists {
		if l.prev == nil || l.prev.killed || !l.prev.index.MayList(file) {
			return false
		}
	}
	return len(c.lists) > 0
}

// EachPrevious calls yield for the previous manifests, in the order of the hashes.
func (c *Catalog) EachPrevious(yield func(io.Reader) error) error {
	for _, l := range c.lists {
		if l.prev != nil {
			if err := yield(l.prev.lines()); err != nil {
				return err
			}
		}
	}
	return nil
}

// BeforeChange is called before a file gets a name at the destination. If a manifest
// in place lists the name, all of them are moved aside first.
func (c *Catalog) BeforeChange(file string) error {
	for _, l := range c.lists {
		if l.prev != nil && l.prev.index.MayList(file) {
			return c.MoveAside()
		}
	}
	return nil
}

// movable reports whether the previous manifest has the name of the run's own, or one
// that the source uses. One that has another name stays: it is not this run's.
func (c *Catalog) movable(l *list) bool {
	return l.prev != nil && c.opts.Outside == "" && !l.copied && (l.prev.path == l.path || c.claimed(l.prev.path))
}

// MoveAside renames the previous manifests, so that none of them has its name while
// files that it lists are being replaced. One that another process has changed since
// Open is left alone, and Write reports it.
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
	if prev.aside || !prev.isInPlace() {
		return nil
	}
	name := wasName(prev.name)
	if err := prev.home.Rename(prev.name, name); err != nil {
		return err
	}
	prev.aside, prev.name = true, name
	if c.opts.Durable {
		return prev.home.Sync()
	}
	return nil
}

// Unsettled reports whether a manifest is aside: the journal is needed then, to know
// which of its lines are still right.
func (c *Catalog) Unsettled() bool {
	for _, l := range c.lists {
		if l.prev != nil && l.prev.aside {
			return true
		}
	}
	return false
}

// Start is called when nothing refuses the run any more and the source is open. It finds
// out which of the previous manifests are files of the source as well: these stay where
// they are. It moves manifests aside whose names the source uses for something other
// than a file.
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

// collides reports whether an entry of the source would get the name of a previous manifest,
// also if only because the destination folds names.
func (c *Catalog) collides(prev *own, file string) bool {
	if prev.path == file || !strings.EqualFold(prev.path, file) {
		return prev.path == file
	}
	finder := fsys.NewFinder(c.root, 1)
	defer finder.Close()
	info, err := finder.Lstat(file)
	return err == nil && info.ID == prev.info.ID
}

// Late reports whether an entry of the source has the name of a manifest, so that it is
// copied after all others.
func (c *Catalog) Late(file string) bool {
	for _, claim := range c.claims {
		if claim.path == file && claim.kind == fsys.Regular {
			return true
		}
	}
	return false
}

// MakeWay moves those of the previous manifests aside that have the names of files of the
// source and are not equal to them. It is called before the first entry of which Late
// reports true is copied.
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

// equalsSource reports whether a previous manifest is byte for byte an entry of the
// source. It is not if one of them cannot be read, which copying and Write report.
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

// lines reads the manifest.
func (o *own) lines() *io.SectionReader {
	return io.NewSectionReader(fsys.ReaderAt{File: o.file}, 0, o.info.Size)
}

// Outcome is what a run has done with one entry at the destination.
type Outcome struct {
	Path              string
	Digests           hash.Digests // known to be those of the file that is there; nil if the run knows none
	Size, Mtime       int64        // of the file with the digests; in bytes, and in seconds since 1970
	Created, Replaced bool         // by this run
	Failed            bool         // it was reported
	Resumed           bool         // an interrupted run has copied it, or found it equal
}

// Record records an outcome. By rule 5, an entry without digests keeps an earlier line
// unless the run has replaced it.
func (c *Catalog) Record(o Outcome) {
	if c.recorder != nil {
		c.Fail(c.recorder.Record(o))
		return
	}
	if o.Created || o.Replaced {
		c.changes.add(o)
	}
	if c.history != nil && (o.Created || o.Replaced || o.Resumed) {
		c.history.made.Add(o.Path)
	}
	if o.Failed && slices.ContainsFunc(c.claims, func(claim claim) bool { return claim.path == o.Path && claim.level == c.top }) {
		c.joined = false // the source's is not what this run would write
	}
	if o.Digests == nil {
		if c.opts.Bag != nil && !o.Failed && o.Path != "" { // a directory has no path here
			c.noDigest = o.Path
		}
		if o.Replaced {
			c.Drop(o.Path)
		}
		return
	}
	if c.single() {
		c.digests = o.Digests
	}
	if c.Late(o.Path) {
		c.arrived[o.Path] = true
	}
	if c.builder != nil {
		c.Fail(c.builder.Put(manifest.Entry{Path: o.Path, Digests: o.Digests, Size: o.Size, Mtime: o.Mtime}))
	}
}

// Drop takes a path out of the manifests: what is there is not what was read.
func (c *Catalog) Drop(file string) {
	if c.recorder != nil {
		c.Fail(c.recorder.Drop(file))
		return
	}
	delete(c.arrived, file)
	c.dropped = c.single()
	if c.builder != nil {
		c.Fail(c.builder.Drop(file))
	}
}

// DropBelow drops the earlier lines of what is below a directory of the source, whose
// name at the destination leads to another one.
func (c *Catalog) DropBelow(dir string) {
	if c.recorder != nil {
		c.Fail(c.recorder.DropBelow(dir))
		return
	}
	c.fallen = append(c.fallen, dir+"/")
}

// Fail says that no manifest can be written, and why. An error of nil says nothing.
func (c *Catalog) Fail(err error) { c.err = cmp.Or(c.err, err) }

// Err returns the first error that Fail was called with, or that recording had.
func (c *Catalog) Err() error { return c.err }

// Lines yields the files that the run is going to list, in the order of the manifests,
// with the digest of the first hash, which is valid until the next one. If the temporary
// file cannot be read, there will be no manifest.
func (c *Catalog) Lines() iter.Seq2[string, []byte] {
	if c.recorder != nil {
		return c.sequence(c.recorder.Each)
	}
	return c.sequence(func(yield func(string, hash.Digests) error) error {
		return c.builder.Each(func(e manifest.Entry) error { return yield(e.Path, e.Digests) })
	})
}

// sequence turns a function that calls yield for all lines into the sequence of Lines.
func (c *Catalog) sequence(each func(yield func(string, hash.Digests) error) error) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if !c.Lists() {
			return
		}
		enough := errors.New("enough")
		err := each(func(file string, digests hash.Digests) error {
			if !yield(file, digests[0]) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			c.Fail(err)
		}
	}
}

// Lists reports whether the run lists what it copies.
func (c *Catalog) Lists() bool {
	return (c.builder != nil || c.recorder != nil && len(c.opts.Hashes) > 0) && c.err == nil
}

// Close closes all files. Manifests that were not written are as before, or aside.
func (c *Catalog) Close() {
	for _, l := range c.lists {
		l.prev.close()
		if l.sealed != nil {
			l.sealed.Close()
			l.sealed = nil
		}
	}
	if c.history != nil {
		c.history.close()
	}
	if c.builder != nil {
		_ = c.builder.Close() // a temporary that is not needed any more
	}
	for _, home := range c.homes {
		home.Close()
	}
	c.homes = nil
}

func quoteName(s string) string { return quote.Name(s) }
