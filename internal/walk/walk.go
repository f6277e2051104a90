// Package walk visits a directory tree with several goroutines.
//
// Directories are reached by descriptor, one name at a time. Each listing is
// sorted so that a walk with one goroutine meets full paths in byte order; with
// several, directories that are listed at the same time interleave. The walk
// goes depth first and waits for its visitor, so that what it holds in memory
// are the listings on the way down to where it is, whatever the size of the
// tree.
package walk

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Visitor is told what a walk meets. All methods are called concurrently.
type Visitor interface {
	// Enter is called for each directory before its entries, the root included.
	// If it returns false, the directory is left without being listed.
	Enter(d *Dir) bool
	// Entry is called for everything in d but directories, in order within one
	// listing as far as one goroutine works on it. To work on the entry after
	// returning, hold d. Blocking is the way to slow the walk down.
	Entry(d *Dir, name string, kind fsys.Kind)
	// Leave is called once for each directory entered, when nothing in it or
	// below it is held any more: subdirectories before their parent.
	Leave(d *Dir)
	// Failed is called when the entry name of d cannot be examined or, with the
	// name "", when d cannot be listed.
	Failed(d *Dir, name string, err error)
}

// Options choose what a walk visits.
type Options struct {
	Workers       int // goroutines; at least 1
	Filter        *filter.List
	Only          *filter.Only
	OneFileSystem bool // enter no directory of another device
	// AnyOrder visits entries as the system lists them, while it does, so that only
	// the names of subdirectories are held in memory.
	AnyOrder bool
	// SkipReserved, if set, is called for each name that Sealift made for itself
	// (fsys.Reserved), which is then not visited.
	SkipReserved func(d *Dir, name string)
}

// errNotDirectory is about a path of --files-from that leads through a file.
var errNotDirectory = errors.New("it is not a directory, and something below it is asked for")

// batchSize is how many entries a goroutine takes at once: enough to make the
// lock cheap, few enough to share a directory.
const batchSize = 64

// Walk visits the tree below root, which it holds until everything was visited.
// It returns when the last call of Entry has returned; directories that the
// visitor still holds are left later. When ctx ends, it stops early.
func Walk(ctx context.Context, root *Dir, o Options) {
	w := &walker{ctx: ctx, opts: o, device: root.Info.ID.Dev}
	w.wake.L = &w.mu
	root.verdict = o.Filter.Root()
	if o.Only != nil {
		root.only = o.Only.Root()
	}
	if root.visitor.Enter(root) {
		w.list(root)
	}
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		w.wake.Broadcast()
		w.mu.Unlock()
	})
	var group sync.WaitGroup
	for range max(o.Workers, 1) {
		group.Go(w.run)
	}
	group.Wait()
	stop()
	for _, c := range w.stack { // what a cancelled walk has not visited
		c.dir.Done()
	}
	root.Done()
}

type walker struct {
	ctx    context.Context
	opts   Options
	device uint64 // of the root

	mu     sync.Mutex
	wake   sync.Cond
	stack  []*cursor // the top is worked on first: depth first
	active int       // goroutines that may still push
}

// cursor is the rest of one directory's listing. It holds its directory.
type cursor struct {
	dir     *Dir
	listing *fsys.Listing
	next    int
}

func (w *walker) run() {
	for {
		c, from, to := w.take()
		if c == nil {
			return
		}
		if c.listing.Kind(from) == fsys.Directory {
			w.descend(c.dir, c.listing.Name(from))
		} else {
			for i := from; i < to && w.ctx.Err() == nil; i++ {
				c.dir.visitor.Entry(c.dir, c.listing.Name(i), c.listing.Kind(i))
			}
		}
		c.dir.Done()
		w.mu.Lock()
		w.active--
		w.wake.Broadcast()
		w.mu.Unlock()
	}
}

// take returns the next entries to visit, [from, to): one directory, or some
// other entries. Their directory is held for the caller. nil is the end.
func (w *walker) take() (c *cursor, from, to int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.ctx.Err() == nil {
		if len(w.stack) == 0 {
			if w.active == 0 {
				return nil, 0, 0
			}
			w.wake.Wait()
			continue
		}
		c := w.stack[len(w.stack)-1]
		from, to = c.next, c.next
		for to < c.listing.Len() && to-from < batchSize && c.listing.Kind(to) != fsys.Directory {
			to++
		}
		if to == from && to < c.listing.Len() {
			to++ // a directory
		}
		c.next = to
		c.dir.Hold()
		w.active++
		if to == c.listing.Len() {
			w.stack = w.stack[:len(w.stack)-1]
			c.dir.Done() // its listing is exhausted; the batch holds it on
		}
		return c, from, to
	}
	return nil, 0, 0
}

// descend opens the subdirectory name of parent and pushes its listing.
func (w *walker) descend(parent *Dir, name string) {
	verdict := filter.Included
	if w.opts.Filter != nil {
		verdict = w.opts.Filter.Match(parent.Join(name), true, parent.verdict)
	}
	if verdict == filter.Excluded {
		return
	}
	d, err := w.open(parent, name)
	if err != nil {
		parent.visitor.Failed(parent, name, err)
		return
	}
	d.verdict = verdict
	if d.visitor.Enter(d) && (!w.opts.OneFileSystem || d.Info.ID.Dev == w.device) {
		w.list(d)
	}
	d.handle.Release()
	d.Done()
}

// open opens the subdirectory name of parent, in use and held by the caller.
func (w *walker) open(parent *Dir, name string) (*Dir, error) {
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
	parent.Hold()
	d := &Dir{Parent: parent, Name: name, Info: info, visitor: parent.visitor}
	if parent.only != nil && !parent.only.All() {
		d.only = parent.only.Child(name)
	}
	d.handle = parent.handle.Child(name, dir, info.ID)
	d.pending.Store(1)
	return d, nil
}

// list reads the names in d that are wanted and pushes them.
func (w *walker) list(d *Dir) {
	read := w.read
	if w.opts.AnyOrder && (d.only == nil || d.only.All()) {
		read = w.stream
	}
	listing, err := read(d)
	if err != nil {
		d.visitor.Failed(d, "", err)
		return
	}
	if listing.Len() == 0 {
		return
	}
	d.Hold()
	w.mu.Lock()
	w.stack = append(w.stack, &cursor{dir: d, listing: listing})
	w.wake.Broadcast()
	w.mu.Unlock()
}

func (w *walker) read(d *Dir) (*fsys.Listing, error) {
	dir, err := d.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer d.handle.Release()
	var listing *fsys.Listing
	if d.only != nil && !d.only.All() {
		listing = fsys.NewListing(d.only.Names())
	} else if listing, err = dir.List(); err != nil {
		return nil, err
	}
	listing.Retain(func(name string, kind fsys.Kind) (fsys.Kind, bool) { return w.wanted(d, dir, name, kind) })
	listing.SortForManifest()
	return listing, nil
}

// stream visits the entries of d while it lists them, and returns its
// subdirectories.
func (w *walker) stream(d *Dir) (*fsys.Listing, error) {
	dir, err := d.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer d.handle.Release()
	var below []string
	err = dir.Each(func(listed []byte, _ uint64, kind fsys.Kind) bool {
		name := string(listed)
		kind, ok := w.wanted(d, dir, name, kind)
		switch {
		case !ok:
		case kind == fsys.Directory:
			below = append(below, name)
		default:
			d.visitor.Entry(d, name, kind)
		}
		return w.ctx.Err() == nil
	})
	if err != nil {
		return nil, err
	}
	listing := fsys.NewListing(below)
	for i := range below {
		listing.SetKind(i, fsys.Directory)
	}
	return listing, nil
}

// wanted reports whether the entry name of d, which is open as dir, is to be visited,
// and what it is.
func (w *walker) wanted(d *Dir, dir *fsys.Dir, name string, kind fsys.Kind) (fsys.Kind, bool) {
	if w.opts.SkipReserved != nil && strings.HasPrefix(name, fsys.Reserved) {
		w.opts.SkipReserved(d, name)
		return kind, false
	}
	if kind == fsys.Unknown {
		info, err := dir.Lstat(name)
		if err != nil {
			d.visitor.Failed(d, name, err)
			return kind, false
		}
		kind = info.Kind
	}
	if d.only != nil && !d.only.All() && !d.only.Child(name).All() && kind != fsys.Directory {
		d.visitor.Failed(d, name, errNotDirectory)
		return kind, false
	}
	return kind, kind == fsys.Directory || w.opts.Filter == nil ||
		w.opts.Filter.Match(d.Join(name), false, d.verdict) != filter.Excluded
}
