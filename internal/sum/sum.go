// Package sum hashes trees and writes the lines of their manifest.
//
//	arguments, walk ──jobs──▶ workers: read and hash ──results──▶ one sorter ──▶ lines
package sum

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Options say what to hash, and how to write it.
type Options struct {
	Paths  []string         // directories and files as the user named them, "-" for Stdin; at least one
	Hashes []hash.Algorithm // of lines: at least one; several need Tag
	Tag    bool             // lines of BSD's style, with the algorithm
	Zero   bool             // lines end in NUL, names are not escaped

	FS *fsys.FS // nil for the system's own; tests give others

	Stdin    io.Reader
	Out      io.Writer // gets the lines if Manifest is ""
	OutFile  *os.File  // what Out writes to in the end, perhaps nil: never listed
	Manifest string    // the file to write, as the user named it; see catalog.File

	// MediaList makes Run write a media hash list into the only directory, and lines only
	// to Manifest.
	MediaList *MediaList

	// Listed gets what the lines would say instead of Out, in any order, from one goroutine.
	// It may be nil, and is for runs without Manifest.
	Listed func(manifest.Entry)

	// MHL asks for a generation, and lines only to Manifest; nil for lines alone.
	MHL *MHL

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool

	Cache          pipe.CacheMode
	Workers        int   // files under way at once; 0 for a number that suits the machine
	BytesPerSecond int64 // for all workers together; 0 for no limit

	// Report receives what is worth telling while it happens, from one goroutine
	// at a time. May be nil.
	Report func(Event)
}

// Event is a failure (Err is a *failure.FileError) or a warning.
type Event struct {
	Warning  bool
	Mismatch bool   // the history lists something else
	Path     string // as it would be listed
	Err      error
}

// Summary is the account of a run.
type Summary struct {
	Files    int64 // hashed
	Bytes    int64
	Errors   int64
	Warnings int64
	Cached   int64 // of Files, those that were to be read from the device and perhaps were not
	Elapsed  time.Duration
	Manifest string // as the user named it; "" if none was written
	Lines    int
	Dropped  int    // lines of the previous manifest for files that are gone
	SHA256   string // of the manifest itself, hexadecimal; "" if there is none

	List *catalog.Written // the media hash list; nil if none was written

	// With Options.MHL.
	Generations []mhl.Written // their paths begin as the user named the directory
	Mismatches  int64         // files with another content than their history lists
	Missing     int64         // files and directories that a history lists and that do not exist
	Renamed     int           // files and directories that have a new path
	Ignored     int64         // files that ignore patterns leave out
}

// Run hashes as o says and reports through o.Report and c. The error is a
// *failure.RefusedError if nothing was done, the cause of ctx's end if the run
// was stopped, or that of writing the lines, which for a manifest are all or
// none; the summary tells of everything
// else that went wrong. When Run returns, all its goroutines have ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	r := &run{opts: o, counters: c, workers: o.Workers, summary: &Summary{}}
	if r.workers == 0 {
		r.workers = pipe.DefaultWorkers()
	}
	r.workers = min(r.workers, max(fsys.OpenLimit()/16, 1)) // each has a file open and directories on the way
	r.pipe = &pipe.Pipe{
		Pool:      pipe.NewPool(pipe.DefaultBlockSize, int64(r.workers)*(pipe.DefaultQueueSize+2)*pipe.DefaultBlockSize),
		QueueSize: pipe.DefaultQueueSize,
		Bytes:     &c.Bytes,
	}
	if o.BytesPerSecond > 0 {
		r.pipe.Limiter = pipe.NewLimiter(o.BytesPerSecond, pipe.DefaultBlockSize)
	}
	r.hashes = o.computed()
	r.sets.New = func() any { return hash.NewSet(r.hashes) }
	// Two, because the scan must not evict what the work has open.
	for i := range r.handles {
		r.handles[i] = fsys.NewHandles(min(max(fsys.OpenLimit()/8, 4), 256))
	}
	args, err := r.arguments()
	if err != nil {
		return nil, err
	}
	err = r.openHistory(args)
	if r.history != nil {
		defer r.history.close() //nolint:errcheck // temporaries that are not needed any more
	}
	if err != nil {
		return nil, err
	}
	r.builder = manifest.NewBuilder(r.hashes, newSpill, 0)
	defer r.builder.Close() //nolint:errcheck // a temporary that is not needed any more
	r.builder.Named = !isTree(args)
	if o.Tag {
		r.format = manifest.BSD
	} else if o.writesLines() {
		r.format = manifest.FormatOf(o.Hashes[0])
	}
	if r.out, err = r.openOutput(ctx, args); err != nil {
		return nil, err
	}
	defer r.out.close()
	c.Phase.Store(int32(counters.PhaseHashing))
	r.hash(ctx, args)
	switch err = context.Cause(ctx); {
	case err != nil:
	case r.failed != nil:
		err = r.failed
	default:
		err = r.write()
	}
	c.Phase.Store(int32(counters.End(err != nil)))
	r.summary.Elapsed = time.Since(begun)
	return r.summary, err
}

// writesLines reports whether lines are written: to the manifest, or because nothing else is.
func (o *Options) writesLines() bool {
	return o.Manifest != "" || o.MHL == nil && o.MediaList == nil
}

// computed are the hashes of the lines, if there are any, and of the generation or media
// hash list.
func (o *Options) computed() (hashes []hash.Algorithm) {
	add := func(more []hash.Algorithm) {
		for _, a := range more {
			if !slices.Contains(hashes, a) {
				hashes = append(hashes, a)
			}
		}
	}
	if o.writesLines() {
		add(o.Hashes)
	}
	if o.MHL != nil {
		add(o.MHL.Hashes)
	}
	if o.MediaList != nil {
		add(o.MediaList.Hashes)
	}
	return hashes
}

// write writes the lines, and then a generation or a media hash list.
func (r *run) write() error {
	if r.opts.writesLines() {
		if err := r.out.write(r); err != nil {
			return err
		}
	}
	switch {
	case r.history != nil:
		return r.history.write(r)
	case r.out.list != nil:
		return r.out.list.write(r)
	}
	return nil
}

// run is one execution of Run.
type run struct {
	opts     *Options
	counters *counters.Set
	workers  int
	pipe     *pipe.Pipe
	hashes   []hash.Algorithm // that are computed
	sets     sync.Pool        // of *hash.Set
	history  *history         // nil without Options.MHL
	out      *output
	handles  [2]*fsys.Handles // of all trees: for the work, and for the scan
	jobs     chan job
	results  chan result
	reserved sync.Once

	// The collector's own.
	builder *manifest.Builder
	format  manifest.Sums
	summary *Summary
	renamed map[string]bool // earlier paths of files that have a new one
	failed  error           // of the builder: no lines are written then
}

// argument is a path that the user gave.
type argument struct {
	given  string
	prefix string // before the names in a directory
	isDir  bool
	err    error // of looking at it
}

// isTree reports whether names are relative to the only argument, a directory.
func isTree(args []argument) bool { return len(args) == 1 && args[0].isDir }

// job is a file for a worker.
type job struct {
	name string    // as it will be listed
	dir  *walk.Dir // held; nil for a file that the user named
	base string    // in dir
	path string    // without dir; "-" for standard input
}

// result is what became of a job, or something else to tell.
type result struct {
	name    string
	digests hash.Digests // nil if it failed
	bytes   int64
	cached  bool      // it was to be read from the device and perhaps was not
	mtime   fsys.Time // zero for a stream
	event   *Event

	directory bool // it is no file: it has digests of zeros, and is only listed
}

// arguments looks at what the user named. What is not there is reported like
// any other file that cannot be hashed.
func (r *run) arguments() ([]argument, error) {
	var args []argument
	for _, given := range r.opts.Paths {
		a := argument{given: given}
		if given != "-" {
			info, err := os.Stat(given)
			a.isDir, a.err = err == nil && info.IsDir(), fsys.BareError(err)
		}
		if a.isDir && len(r.opts.Paths) > 1 {
			a.prefix = strings.TrimRight(filepath.ToSlash(given), "/") + "/"
		}
		args = append(args, a)
	}
	if r.opts.Only != nil && !isTree(args) {
		return nil, failure.Refuse("--files-from needs one directory that its paths are in")
	}
	return args, nil
}

// hash hands everything to the workers and takes their results.
func (r *run) hash(ctx context.Context, args []argument) {
	// Each may be of another path, whose directory stays open for it.
	r.jobs = make(chan job, min(64, fsys.OpenLimit()/16))
	r.results = make(chan result, 64)
	stop := r.counters.CountAhead(ctx, func(ctx context.Context) bool { return r.scan(ctx, args) })
	var workers, collector sync.WaitGroup
	collector.Go(r.collect)
	for range r.workers {
		workers.Go(func() {
			shown := r.counters.NewWorker()
			for j := range r.jobs {
				if ctx.Err() == nil {
					shown.Begin(j.name)
					r.do(ctx, j)
					shown.End()
				}
				if j.dir != nil {
					j.dir.Done()
				}
			}
		})
	}
	for _, a := range args {
		if ctx.Err() != nil {
			break
		}
		if a.err != nil {
			r.fail(a.given, failure.StageOpen, a.err)
			continue
		}
		if !a.isDir {
			r.jobs <- job{name: filepath.ToSlash(a.given), path: a.given}
			continue
		}
		v := &visitor{run: r, ctx: ctx, given: a.given, prefix: a.prefix}
		if err := r.walk(ctx, r.handles[0], a, v, walk.Options{Workers: min(r.workers, 4), SkipReserved: v.skipReserved}); err != nil {
			v.fail("", err)
		}
	}
	close(r.jobs)
	workers.Wait()
	close(r.results)
	collector.Wait()
	stop()
}

// collect runs until results is closed. It alone uses the builder and the
// summary, and calls Options.Report.
func (r *run) collect() {
	for got := range r.results {
		if e := got.event; e != nil {
			if e.Warning {
				r.summary.Warnings++
			} else {
				r.summary.Errors++
			}
			if r.opts.Report != nil {
				r.opts.Report(*e)
			}
		}
		if got.digests == nil {
			continue
		}
		if !got.directory {
			r.summary.Files++
		}
		r.summary.Bytes += got.bytes
		if got.cached {
			r.summary.Cached++
		}
		entry := manifest.Entry{Path: got.name, Digests: got.digests, Size: got.bytes, Mtime: got.mtime.Sec}
		if r.opts.Listed != nil {
			r.opts.Listed(entry)
			continue
		}
		err := r.builder.Put(entry)
		r.failed = cmp.Or(r.failed, err)
	}
}

func (r *run) fail(name string, stage failure.Stage, err error) {
	r.results <- result{event: &Event{Path: name, Err: &failure.FileError{Path: name, Stage: stage, Err: err}}}
}

// walk visits a directory. The options say how, those of the run say what.
func (r *run) walk(ctx context.Context, handles *fsys.Handles, a argument, v walk.Visitor, o walk.Options) error {
	root, err := r.opts.FS.OpenRoot(a.given)
	if err != nil {
		return err
	}
	info, err := root.Stat()
	if err != nil {
		root.Close()
		return err
	}
	o.Filter, o.Only, o.OneFileSystem = r.opts.Filter, r.opts.Only, r.opts.OneFileSystem
	walk.Walk(ctx, walk.NewRoot(handles.Root(root), info, v), o)
	return nil
}
