// Package walk visits a directory tree with several goroutines.
//
// Directories are reached by descriptor, one name at a time. Each listing is
// sorted, so a walk with one goroutine meets full paths in byte order. With several
// goroutines, directories that are listed at the same time interleave. The walk goes depth
// first and waits for its visitor. So it keeps only the listings on the way down to its
// position in memory, whatever the size of the tree.
package walk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
)

// Visitor receives the directories and entries of a walk. Its methods are called concurrently.
type Visitor interface {
	// Enter is called for each directory, including the root, before its entries. If it
	// returns false, the walk leaves the directory without listing it.
	Enter(d *Dir) bool
	// Entry is called for each entry of d that is not a directory. One goroutine passes its
	// entries of one directory in order. To work on the entry after returning, hold d. If
	// Entry blocks, the walk waits.
	Entry(d *Dir, name string, kind fsys.Kind)
	// Leave is called once for each directory that was entered, when nothing in it or below it
	// is held any more. So subdirectories come before their parent.
	Leave(d *Dir)
	// Failed is called when the entry name of d cannot be read or, with the name "", when d
	// cannot be listed.
	Failed(d *Dir, name string, err error)
}

// Options choose what a walk visits.
type Options struct {
	Workers       int // goroutines; at least 1
	Filter        *filter.List
	Only          *filter.Only
	OneFileSystem bool // list no directory on another device
	// Found, if set, is called instead of the visitor's Entry, for a walk that only counts
	// or measures. Each entry is read with lstat while its directory is listed, so that only
	// the names of subdirectories are held in memory. place says where the system lists it.
	// Found is called from several goroutines, also for one large directory. A directory
	// that lstat can read but that cannot be opened is entered, and then Failed; with
	// OneFileSystem, those of other devices are not opened.
	Found func(d *Dir, name string, place Place, info fsys.Info)
	// LeftOut, if set, counts the entries that Filter leaves out. A directory that is not searched
	// counts once.
	LeftOut *atomic.Int64
	// SkipReserved, if set, is called for each entry for which incomplete.IsReserved returns true.
	// The walk does not visit that entry.
	SkipReserved func(d *Dir, name string)
}

// errNotDirectory is the error of a path of --files-from that leads through a file.
var errNotDirectory = errors.New("it is not a directory, and something below it is asked for")

// batchSize is the number of entries that a goroutine takes at a time. With fewer, the lock
// would cost time; with more, goroutines could not share a directory.
const batchSize = 64

// shareSize is the number of entries after which survey checks whether other goroutines are
// idle, and the number that it then leaves to them.
const shareSize = 512

// Walk visits the tree below root. It holds root until all entries were visited. It returns
// when the last call of Entry has returned; directories that the visitor still holds are left
// later. When ctx ends, Walk stops early.
func Walk(ctx context.Context, root *Dir, o Options) {
	w := &walker{ctx: ctx, opts: o, device: root.Info.ID.Dev}
	w.mu.wake.L = &w.mu
	root.verdict = o.Filter.Root()
	root.selectOnly(o.Only.Root())
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		w.mu.wake.Broadcast()
		w.mu.Unlock()
	})
	var group sync.WaitGroup
	w.mu.active = 1
	group.Go(func() {
		if root.visitor.Enter(root) {
			w.list(root)
		}
		w.finish()
		w.run()
	})
	for range max(o.Workers, 1) - 1 {
		group.Go(w.run)
	}
	group.Wait()
	stop()
	for _, c := range w.mu.stack { // release the rest of a cancelled walk
		c.dir.Done()
	}
	root.Done()
}

type walker struct {
	ctx    context.Context
	opts   Options
	device uint64 // device of the root

	idle atomic.Int64 // goroutines that wait for entries
	mu   struct {
		sync.Mutex
		wake   sync.Cond
		stack  []*cursor // stack of listings; the top one is worked on first: depth first
		active int       // goroutines that may still push
	}
}

// cursor is the rest of one directory's listing, or of a part of it. It holds its
// directory.
type cursor struct {
	dir     *Dir
	listing *fsys.Listing
	places  []Place // places of the entries; nil without Options.Found
	next    int
}

func (c *cursor) place(i int) Place {
	if c.places == nil {
		return Place{}
	}
	return c.places[i]
}

func (w *walker) run() {
	for {
		c, from, to := w.take()
		if c == nil {
			return
		}
		if c.listing.Kind(from) == fsys.Directory {
			w.descend(c.dir, c.listing.Name(from), c.place(from))
		} else {
			w.visit(c, from, to)
		}
		c.dir.Done()
		w.finish()
	}
}

// finish ends the work on the entries that take returned.
func (w *walker) finish() {
	w.mu.Lock()
	if w.mu.active--; w.mu.active == 0 && len(w.mu.stack) == 0 {
		w.mu.wake.Broadcast() // this is the end of the walk
	}
	w.mu.Unlock()
}

// visit visits the entries [from, to), none of which is a directory.
func (w *walker) visit(c *cursor, from, to int) {
	if w.opts.Found == nil {
		for i := from; i < to && w.ctx.Err() == nil; i++ {
			c.dir.visitor.Entry(c.dir, c.listing.Name(i), c.listing.Kind(i))
		}
		return
	}
	dir, err := c.dir.handle.Acquire()
	if err != nil {
		for i := from; i < to; i++ {
			c.dir.visitor.Failed(c.dir, c.listing.Name(i), err)
		}
		return
	}
	defer c.dir.handle.Release()
	for i := from; i < to && w.ctx.Err() == nil; i++ {
		w.inspect(c.dir, dir, c.listing.Name(i), c.place(i))
	}
}

// inspect reads the entry name of d, which is open as dir, and passes it to Found. An entry
// that has become a directory since it was listed is pushed as one.
func (w *walker) inspect(d *Dir, dir *fsys.Dir, name string, place Place) {
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		d.visitor.Failed(d, name, err)
	case info.Kind == fsys.Directory:
		w.push(part{[]string{name}, []Place{place}}.directories(d))
	default:
		w.opts.Found(d, name, place, info)
	}
}

// take returns the next entries to visit, [from, to): one directory, or several other entries.
// It holds their directory for the caller. c is nil at the end of the walk.
func (w *walker) take() (c *cursor, from, to int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.ctx.Err() == nil {
		if len(w.mu.stack) == 0 {
			if w.mu.active == 0 {
				return nil, 0, 0
			}
			w.idle.Add(1)
			w.mu.wake.Wait()
			w.idle.Add(-1)
			continue
		}
		c := w.mu.stack[len(w.mu.stack)-1]
		from, to = c.next, c.next
		for to < c.listing.Len() && to-from < batchSize && c.listing.Kind(to) != fsys.Directory {
			to++
		}
		if to == from && to < c.listing.Len() {
			to++ // the batch is one directory
		}
		c.next = to
		c.dir.Hold()
		w.mu.active++
		if to == c.listing.Len() {
			w.mu.stack = w.mu.stack[:len(w.mu.stack)-1]
			c.dir.Done() // its listing is exhausted; the batch still holds it
		}
		if len(w.mu.stack) > 0 {
			w.mu.wake.Signal() // each goroutine that wakes wakes the next
		}
		return c, from, to
	}
	return nil, 0, 0
}

// descend opens the subdirectory name of parent and pushes its listing.
func (w *walker) descend(parent *Dir, name string, place Place) {
	verdict, ok := w.filter(parent, name, true)
	if !ok {
		return
	}
	d, err := w.open(parent, name)
	if err != nil && w.opts.Found != nil {
		d, err = w.unopened(parent, name, place, err)
	}
	if d == nil {
		if err != nil {
			w.opts.Filter.Unsearched(parent.Join(name))
			parent.visitor.Failed(parent, name, err)
		}
		return
	}
	d.verdict, d.Place = verdict, place
	enter := d.visitor.Enter(d) && (!w.opts.OneFileSystem || d.Info.ID.Dev == w.device)
	if enter && err == nil {
		w.list(d)
	} else {
		w.opts.Filter.Unsearched(d.Path())
		if enter {
			d.visitor.Failed(d, "", err)
		}
	}
	if err == nil {
		d.handle.Release()
	}
	d.Done()
}

// open is openChild, except that it does not open a directory of another device with
// OneFileSystem.
func (w *walker) open(parent *Dir, name string) (*Dir, error) {
	if w.opts.Found != nil && w.opts.OneFileSystem { // opening an automount point can mount a file system, and wait
		up, err := parent.handle.Acquire()
		if err != nil {
			return nil, err
		}
		info, err := up.Lstat(name)
		parent.handle.Release()
		if err == nil && info.ID.Dev != w.device {
			return nil, fsys.ErrMoved // Failed is not called for it, because it is entered
		}
	}
	return openChild(parent, name)
}

// openChild opens the subdirectory name of parent. The result is in use, and the caller holds
// it.
func openChild(parent *Dir, name string) (*Dir, error) {
	up, err := parent.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer parent.handle.Release()
	dir, err := up.OpenDir(name)
	if err != nil {
		return nil, err
	}
	info, err := dir.Stat()
	if err != nil {
		dir.Close()
		return nil, err
	}
	return newDir(parent, name, info, parent.handle.Child(name, dir, info.ID)), nil
}

// unopened handles a subdirectory that could not be opened because of cause. If lstat finds
// that the entry is not a directory, unopened passes it to Found and returns nil.
func (w *walker) unopened(parent *Dir, name string, place Place, cause error) (*Dir, error) {
	up, err := parent.handle.Acquire()
	if err != nil {
		return nil, cause
	}
	defer parent.handle.Release()
	info, err := up.Lstat(name)
	switch {
	case err != nil:
		return nil, cause
	case info.Kind == fsys.Directory:
		return newDir(parent, name, info, parent.handle.Unopened(name, info.ID)), cause
	}
	if _, ok := w.wanted(parent, up, name, info.Kind); ok {
		w.opts.Found(parent, name, place, info)
	}
	return nil, nil
}

// newDir returns a subdirectory of parent. The caller holds it.
func newDir(parent *Dir, name string, info fsys.Info, h *fsys.Handle) *Dir {
	parent.Hold()
	d := &Dir{Parent: parent, Name: name, Info: info, visitor: parent.visitor, handle: h, verdict: everything}
	if parent.only != nil {
		d.selectOnly(parent.only.Child(name))
	}
	d.pending.Store(1)
	return d
}

// list reads the names in d, selects those that the filters want, and pushes them.
func (w *walker) list(d *Dir) {
	read := w.read
	if w.opts.Found != nil && d.only == nil {
		read = w.survey
	}
	c, err := read(d)
	if err != nil {
		w.opts.Filter.Unsearched(d.Path())
		d.visitor.Failed(d, "", err)
	}
	if c != nil {
		w.push(c)
	}
}

// push puts a cursor on the stack.
func (w *walker) push(c *cursor) {
	if c.listing.Len() == 0 {
		return
	}
	c.dir.Hold()
	w.mu.Lock()
	w.mu.stack = append(w.mu.stack, c)
	w.mu.wake.Signal()
	w.mu.Unlock()
}

func (w *walker) read(d *Dir) (*cursor, error) {
	dir, err := d.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer d.handle.Release()
	var listing *fsys.Listing
	if d.only != nil {
		listing = fsys.NewListing(d.only.Names())
	} else if listing, err = dir.List(); err != nil {
		return nil, err
	}
	listing.Retain(func(name string, kind fsys.Kind) (fsys.Kind, bool) { return w.wanted(d, dir, name, kind) })
	listing.SortForManifest()
	return &cursor{dir: d, listing: listing}, nil
}

// survey reads the entries of d while it lists them, and returns its subdirectories, also
// with an error. Of a large directory it leaves shares to idle goroutines.
func (w *walker) survey(d *Dir) (*cursor, error) {
	dir, err := d.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer d.handle.Release()
	var below, share part
	sharing := false
	err = dir.Each(func(listed []byte, ino uint64, kind fsys.Kind) bool {
		place := Place{d.Entries, ino}
		if d.Entries++; place.At%shareSize == 0 && place.At > 0 {
			w.push(share.cursor(d))
			share, sharing = part{}, w.idle.Load() > 0
		}
		name := string(listed)
		kind, ok := w.wanted(d, dir, name, kind)
		switch {
		case !ok:
		case kind == fsys.Directory:
			below.add(name, place)
		case sharing:
			share.add(name, place)
		default:
			w.inspect(d, dir, name, place)
		}
		return w.ctx.Err() == nil
	})
	w.push(share.cursor(d))
	return below.directories(d), err
}

// part is a part of a directory's names.
type part struct {
	names  []string
	places []Place
}

func (p *part) add(name string, place Place) {
	p.names, p.places = append(p.names, name), append(p.places, place)
}

func (p part) cursor(d *Dir) *cursor {
	return &cursor{dir: d, listing: fsys.NewListing(p.names), places: p.places}
}

// directories returns a cursor for names of subdirectories.
func (p part) directories(d *Dir) *cursor {
	c := p.cursor(d)
	for i := range p.names {
		c.listing.SetKind(i, fsys.Directory)
	}
	return c
}

// wanted reports whether the walk visits the entry name of d, which is open as dir, and
// returns its kind.
func (w *walker) wanted(d *Dir, dir *fsys.Dir, name string, kind fsys.Kind) (fsys.Kind, bool) {
	if kind == fsys.Unknown {
		info, err := dir.Lstat(name)
		if err != nil {
			d.visitor.Failed(d, name, err)
			return kind, false
		}
		kind = info.Kind
	}
	if w.opts.SkipReserved != nil && incomplete.IsReserved(name, d.Parent == nil, kind) {
		w.opts.SkipReserved(d, name)
		return kind, false
	}
	if d.only != nil && !d.only.Child(name).All() && kind != fsys.Directory {
		d.visitor.Failed(d, name, errNotDirectory)
		return kind, false
	}
	if kind == fsys.Directory { // descend filters it
		return kind, true
	}
	_, ok := w.filter(d, name, false)
	return kind, ok
}

// filter returns the verdict of the filters on the entry name of d, and whether the walk visits it.
// The walk calls it once for each entry.
func (w *walker) filter(d *Dir, name string, isDir bool) (v filter.Verdict, ok bool) {
	path := name
	if w.opts.Filter.NeedsPaths() {
		path = d.Join(name)
	}
	v = w.opts.Filter.Match(path, isDir, d.verdict)
	if w.opts.LeftOut != nil && v.LeftOut() {
		w.opts.LeftOut.Add(1)
	}
	return v, !v.LeftOut()
}
