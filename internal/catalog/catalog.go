package catalog

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Options describe the manifests of a run at one destination.
type Options struct {
	FS     *fsys.FS // opens Outside; nil for the system's files
	Hashes []hash.Algorithm
	File   string // the name at the destination of the single file that is copied; "" for a tree
	Usual  string // the path of --manifest, relative to the destination; "" for the default
	// Outside is the path of --manifest if that is outside the destination. Then no
	// manifest is written inside.
	Outside   string
	Shown     string // the destination as the user would write it
	Durable   bool   // manifests are synced
	KeepTimes bool   // directories below the destination keep their times
	Memory    int    // bytes of memory for the lines of the run; 0 for the default
	Bag       *BagOptions
	History   *History   // nil without histories
	MediaList *MediaList // nil without a media hash list
	Unlined   int        // how many of the hashes, the last ones, have no line manifest
	ReadsBack bool       // the run calls Lines, for all files that it lists
	Spill     func() (extsort.Spill, error)

	// Asides are the manifests that an unfinished run has renamed, by their paths; nil for none.
	Asides  map[string]string
	Journal Journal // nil in a dry run
}

// Journal records which manifests are renamed during a run.
type Journal interface {
	// RecordAside records, before the renaming, that the manifest of a path is named name.
	RecordAside(file, name string, durable bool) error
	// ForgetAside removes that record.
	ForgetAside(file string) error
}

// Catalog has the manifests of one destination. Several goroutines may call Kept, Accepts,
// BeforeChange and the methods about names; one goroutine at a time calls the other methods.
type Catalog struct {
	opts       Options
	root       *fsys.Dir
	source     *Source
	lists      []*list    // one for each hash
	near       neighbours // in the root of the destination
	nearSource neighbours // in that of the source; nil for a single file
	guarded    []string   // see Guards
	homes      []*fsys.Dir
	leftover   []*own // aside, and replaced by a killed run; Write removes them
	builder    *manifest.Builder
	recorder   Recorder // of a part; nil for a catalog that writes manifests
	changed    bool     // the builder has records
	drops      bool     // some of them are of Drop
	history    *history // nil without histories
	err        error    // the first error of the builder

	aside       onceError // moving the previous manifests aside
	finding     onceError // of others
	others      []*list   // own manifests in the root that are not this run's
	interrupted Interrupted

	digests  hash.Digests // of the single file, once they are known
	dropped  bool         // the single file at the destination has other content
	unsure   error        // the first error of reading a file that an earlier line lists
	noDigest string       // a file of a bag's payload whose digests the run does not know
	fallen   []string     // directories whose earlier lines are dropped: see DropBelow
	changes  changes
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
	prev      *own   // of an earlier run
	given     []byte // the digest of a single file in the existing manifest beside it, of any form
	sealed    *own   // the manifest of a complete bag
	changes   bool   // of an other manifest: it loses lines; see judgeOthers
}

// Interrupted reports which files unfinished runs may have changed at the destination.
type Interrupted interface {
	// Touched reports whether an unfinished run may have changed the file that have
	// describes. It also returns the digests that the file should then have; nil if they
	// are not known.
	Touched(path string, have fsys.Info) (digests hash.Digests, touched bool)
}

// leastMemory is the memory for the lines of a run with any number of destinations, in
// bytes.
const leastMemory = 2 << 20

// Resume sets the journals of unfinished runs: nil if there are none. The caller calls it
// after Open.
func (c *Catalog) Resume(i Interrupted) { c.interrupted = i }

// isKnown reports whether the previous manifest of a list exists and the run knows which of its
// lines an unfinished run has made out of date.
func (c *Catalog) isKnown(l *list) bool {
	return l.prev != nil && (!l.prev.killed || c.interrupted != nil)
}

// Kept returns the digests of a file in the manifests of earlier runs, nil for each hash
// without one. complete is true if each hash of the run has one. Then a file that the
// overwrite policy skips need not be read. line is for Outcome.Line.
func (c *Catalog) Kept(file string) (digests hash.Digests, line Line, complete bool) {
	if c.marksLines() && !c.IsManifest(file) {
		return c.keptInOne(file)
	}
	digests, complete = c.keptDigests(file)
	return digests, 0, complete
}

func (c *Catalog) keptDigests(file string) (digests hash.Digests, complete bool) {
	if c.opts.Bag != nil {
		return c.keptInBag(file)
	}
	if c.history != nil {
		digests, _ = c.history.listed(file, len(c.opts.Hashes)) // Contradicts reports what cannot be read
		lines, _ := c.keptInLines(file)
		for slot, d := range lines {
			if digests[slot] == nil {
				digests[slot] = d
			}
		}
		return digests, isComplete(digests)
	}
	return c.keptInLines(file)
}

func isComplete(digests hash.Digests) bool {
	return !slices.ContainsFunc(digests, func(d []byte) bool { return d == nil })
}

// keptInLines is Kept for line manifests only.
func (c *Catalog) keptInLines(file string) (digests hash.Digests, complete bool) {
	if c.opts.Outside != "" || len(c.lists) == 0 {
		return nil, false
	}
	digests = make(hash.Digests, len(c.opts.Hashes))
	for _, l := range c.lists {
		if c.isKnown(l) && l.path != file { // no manifest can list itself
			digests[l.slot], _, _ = l.prev.index.Lookup(file) // Write reports a line that cannot be read
		}
	}
	complete = isComplete(digests)
	for _, l := range c.lists {
		if l.prev == nil && l.given != nil { // no run has read the file and found this digest
			digests[l.slot] = l.given
		}
	}
	return digests, complete
}

// Outcome is the result of one entry at the destination.
type Outcome struct {
	Path              string
	Digests           hash.Digests // known digests of the file that is there; nil if the run knows none
	Size, Mtime       int64        // of the file with the digests; in bytes, and in seconds since 1970
	Created, Replaced bool         // by this run
	Failed            bool         // the failure was reported
	Resumed           bool         // an interrupted run has copied it, or found it equal
	Line              Line         // the digests are those that Kept returned with this line; 0 if they are not
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
	if c.builder != nil && !c.stay(o) {
		c.changed = true
		c.Fail(c.builder.Put(manifest.Entry{Path: o.Path, Digests: o.Digests, Size: o.Size, Mtime: o.Mtime}))
	}
}

// Drop removes a path from the manifests, because the file there has other content than the
// run has read.
func (c *Catalog) Drop(file string) {
	if c.recorder != nil {
		c.Fail(c.recorder.Drop(file))
		return
	}
	c.dropped = c.single()
	if c.builder != nil {
		c.changed, c.drops = true, true
		c.Fail(c.builder.Drop(file))
	}
}

// DropBelow drops the earlier lines below a directory of the source, because its name at
// the destination now leads to another directory.
func (c *Catalog) DropBelow(dir string) {
	if c.recorder != nil {
		c.Fail(c.recorder.DropBelow(dir))
		return
	}
	c.fallen = append(c.fallen, dir+"/")
	c.changes.replaced.Add(dir)
}

// Fail records that no manifest can be written, and why. A nil error has no effect.
func (c *Catalog) Fail(err error) { c.err = cmp.Or(c.err, err) }

// Err returns the first error of Fail or of recording.
func (c *Catalog) Err() error { return c.err }

// Lines yields the files that the run is going to list, in the order of the manifests. The
// digests are those of all hashes, and are valid until the next file. If the temporary file
// cannot be read, no manifest will be written.
func (c *Catalog) Lines() iter.Seq2[string, hash.Digests] {
	return func(yield func(string, hash.Digests) bool) {
		if !c.Lists() {
			return
		}
		enough := errors.New("enough")
		add := func(file string, digests hash.Digests) error {
			if !yield(file, digests) {
				return enough
			}
			return nil
		}
		var err error
		if c.recorder != nil {
			err = c.recorder.Each(add)
		} else {
			err = c.builder.Each(func(e manifest.Entry) error { return add(e.Path, e.Digests) })
		}
		if err != nil && !errors.Is(err, enough) {
			c.Fail(err)
		}
	}
}

// Lists reports whether the run lists the files that it copies.
func (c *Catalog) Lists() bool {
	return (c.builder != nil || c.recorder != nil && len(c.opts.Hashes) > 0) && c.err == nil
}

// Close closes all files. Manifests that were not written stay as before, or aside.
func (c *Catalog) Close() {
	for _, l := range append(c.lists, c.others...) {
		l.prev.close()
		l.sealed.close()
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
