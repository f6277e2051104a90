// Package usage measures the disk usage of trees.
//
// The numbers and their order are those of GNU du: the entries of a directory as the
// system lists them, and the directory after them. A file with several names counts where
// du would meet it first.
//
// Goroutines meet entries in another order. So usage records the place of each listed
// directory and of the names of files with several names, and sorts them when a path is
// complete. If only the paths themselves are listed, it records no places, and memory does
// not grow with the tree. Exceptions are entries that must not count twice: files with
// several names and, for several paths, directories.
//
// There is one difference if the user gives several paths. GNU du then remembers all entries,
// and this package only directories, files with several names, and files that the user
// named. So a file with one name that is mounted on another file counts twice. If a mount
// makes one path contain a directory twice, either place of the directory may count.
package usage

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Options select the paths to measure and the entries to list.
type Options struct {
	Paths         []string // paths that the user named
	FollowPaths   bool     // follow symbolic links in Paths
	FollowAll     bool     // follow all symbolic links; one goroutine reads the entries then
	MaxDepth      int      // depth of the listed entries below each path; 0: only the paths, -1: everything
	Files         bool     // list files too, not only directories
	Apparent      bool     // sizes instead of allocated blocks
	Inodes        bool     // numbers of entries instead of bytes
	CountLinks    bool     // count each name of a file with several
	Separate      bool     // do not add subdirectories to the directories above them
	Threshold     int64    // least size of listed entries; if negative, their greatest size is -Threshold; not for Paths
	Time          Time     // the time of the entries; NoTime: none
	OneFileSystem bool     // count nothing on other devices than the path's
	Filter        *filter.List
	Workers       int // goroutines; 0: DefaultWorkers
	Top           int // list each path and this number of largest entries below it within MaxDepth, files too; 0: off

	FS *fsys.FS // nil for the real file system; tests inject others

	Emit   func(Entry)                  // called for one entry at a time, in the order of printing
	Report func(path string, err error) // gets each entry that could not be read; called concurrently
}

// DefaultWorkers is the number of goroutines that read entries, if there are enough
// descriptors. Most of them wait for the device, if there is one.
const DefaultWorkers = 32

// Time selects a time of each entry.
type Time uint8

// The times.
const (
	NoTime Time = iota
	Modified
	Accessed
	Changed
)

// Amount is the disk usage of an entry, with everything in it that counts.
type Amount struct {
	Size   uint64 // bytes, or with Options.Inodes entries; math.MaxUint64 for more than that
	Newest int64  // the latest of the times in Options.Time, in seconds since 1970
}

// plus adds as du does: the size stops at the largest number.
func (a Amount) plus(b Amount) Amount {
	size := a.Size + b.Size
	if size < a.Size {
		size = math.MaxUint64
	}
	return Amount{size, max(a.Newest, b.Newest)}
}

// Entry is a listed path with its disk usage.
type Entry struct {
	Path string // the user's path and what is below it
	Kind fsys.Kind
	Amount
	Depth int // depth below the path that the user named, which has 0
}

// Summary has the results of a run.
type Summary struct {
	Amount       // sum of all paths
	Errors int64 // number of calls of Report
	// LeftOut counts entries that filters leave out. A directory that is not searched counts once.
	LeftOut int64
}

// Run measures the paths one after another. The error is the cause of ctx's end; the
// unfinished path is not listed then.
func Run(ctx context.Context, o *Options) (*Summary, error) {
	r := &run{opts: o}
	r.links.mu.files = map[fsys.ID]*link{}
	if r.workers = o.Workers; r.workers == 0 {
		r.workers = DefaultWorkers
	}
	// Each worker has up to three directories open. The rest of the program needs about ten
	// descriptors.
	r.workers = min(r.workers, max(fsys.OpenLimit()/4-3, 1))
	if (len(o.Paths) > 1 || o.FollowAll) && !o.CountLinks {
		r.mu.dirs, r.files = map[fsys.ID]bool{}, map[fsys.ID]bool{}
	}
	paths := r.statPaths()
	for _, p := range paths {
		r.measure(ctx, p)
		if ctx.Err() != nil {
			break
		}
	}
	r.summary.Errors, r.summary.LeftOut = r.errors.Load(), r.leftOut.Load()
	return &r.summary, context.Cause(ctx)
}

type run struct {
	opts    *Options
	workers int
	summary Summary
	errors  atomic.Int64
	leftOut atomic.Int64

	links links
	files map[fsys.ID]bool // files that the user named as one of several paths; nil for a single path
	// Entries that several paths share count once.
	mu struct {
		sync.Mutex
		dirs map[fsys.ID]bool // directories that were counted; nil for a single path
	}

	byInode sync.Map // device → bool: du visits large directories there by inode
}

// path is a path that the user named.
type path struct {
	name string
	info fsys.Info
}

// statPaths reads the status of each path, and reports paths that do not exist.
func (r *run) statPaths() (paths []path) {
	for _, name := range r.opts.Paths {
		name = trim(name)
		info, err := r.stat(name)
		if err != nil {
			r.fail(name, err)
			continue
		}
		paths = append(paths, path{name, info})
		if info.Kind != fsys.Directory && r.files != nil {
			r.files[info.ID] = true
		}
	}
	return paths
}

// stat reads the status of a path that the user named.
func (r *run) stat(name string) (fsys.Info, error) {
	if r.opts.FollowPaths || r.opts.FollowAll {
		return r.opts.FS.StatPath(name)
	}
	return r.opts.FS.Lstat(name)
}

// trim reduces several slashes at the end to one, as du does.
func trim(name string) string {
	if len(name) == 2 {
		return name // "//" is another root on some systems
	}
	for strings.HasSuffix(name, "//") {
		name = name[:len(name)-1]
	}
	return name
}

// measure walks one path and emits its entries.
func (r *run) measure(ctx context.Context, p path) {
	if p.info.Kind != fsys.Directory {
		if r.countsOnce(p.info) && !r.links.first(p.info.ID) {
			return
		}
		a := r.amount(p.info)
		r.summary.Amount = r.summary.plus(a)
		r.emit(Entry{Path: p.name, Kind: p.info.Kind, Amount: a})
		return
	}
	t := newTree(r, p)
	open, info, err := r.openRoot(p.name)
	if err != nil {
		if !r.once(p.info.ID) {
			return
		}
		r.fail(p.name, err)
		t.unread(p.info)
	} else if r.opts.FollowAll {
		t.follow(ctx, open, info)
	} else {
		handles := fsys.NewHandles(min(max(fsys.OpenLimit()/4, 4), 512))
		walk.Walk(ctx, walk.NewRoot(handles.Root(open), info, t), walk.Options{
			Workers: r.workers, Filter: r.opts.Filter, OneFileSystem: r.opts.OneFileSystem, Found: t.Found,
			LeftOut: &r.leftOut,
		})
	}
	if ctx.Err() == nil && t.root != nil {
		t.emit()
	}
}

// openRoot opens a path that is a directory. It checks the path again, because
// opening would have followed a link that replaced it.
func (r *run) openRoot(name string) (*fsys.Dir, fsys.Info, error) {
	dir, err := r.opts.FS.OpenRoot(name)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	info, err := dir.Stat()
	if err == nil {
		var now fsys.Info
		if now, err = r.stat(name); err == nil && now.ID != info.ID {
			err = fsys.ErrMoved
		}
	}
	if err != nil {
		dir.Close()
	}
	return dir, info, err
}

// Passes reports whether the threshold lets an entry of that size through.
func (o *Options) Passes(size uint64) bool {
	if o.Threshold < 0 {
		return size <= -uint64(o.Threshold)
	}
	return size >= uint64(o.Threshold)
}

func (r *run) emit(e Entry) {
	if e.Depth == 0 || r.opts.Passes(e.Size) {
		r.opts.Emit(e)
	}
}

func (r *run) fail(path string, err error) {
	r.errors.Add(1)
	r.opts.Report(path, err)
}

// amount returns what an object counts without the entries in it. Its size is one entry, the
// allocated bytes or, with Options.Apparent, its length.
func (r *run) amount(info fsys.Info) Amount {
	a := Amount{Size: uint64(max(info.Blocks, 0)) * 512}
	switch {
	case r.opts.Inodes:
		a.Size = 1
	case r.opts.Apparent:
		a.Size = uint64(max(info.Size, 0))
	}
	switch r.opts.Time {
	case Modified:
		a.Newest = info.Mtime.Sec
	case Accessed:
		a.Newest = info.Atime.Sec
	case Changed:
		a.Newest = info.Ctime.Sec
	}
	return a
}

// sum is the Amount of a directory. Several goroutines add to it.
type sum struct {
	size   atomic.Uint64
	newest atomic.Int64
}

func (s *sum) set(a Amount) {
	s.size.Store(a.Size)
	s.newest.Store(a.Newest)
}

func (s *sum) amount() Amount { return Amount{s.size.Load(), s.newest.Load()} }

// add adds as Amount.plus does.
func (s *sum) add(a Amount) {
	if s.size.Add(a.Size) < a.Size {
		s.size.Store(math.MaxUint64)
	}
	for {
		newest := s.newest.Load()
		if a.Newest <= newest || s.newest.CompareAndSwap(newest, a.Newest) {
			return
		}
	}
}

// once reports whether no other path has counted the directory, and marks it as counted.
func (r *run) once(id fsys.ID) bool {
	if r.mu.dirs == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	met := r.mu.dirs[id]
	r.mu.dirs[id] = true
	return !met
}

// countsOnce reports whether the run may meet the file under another name, and has to count it
// once.
func (r *run) countsOnce(info fsys.Info) bool {
	return !r.opts.CountLinks && (info.Nlink > 1 || r.opts.FollowAll || r.files[info.ID])
}
