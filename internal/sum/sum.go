// Package sum hashes trees and writes the lines of their manifest.
//
//	arguments, walk ──jobs──▶ workers: read and hash ──results──▶ one sorter ──▶ lines
package sum

import (
	"cmp"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Options say which files to hash, and how to write the lines.
type Options struct {
	Paths  []string         // directories and files as the user gave them, "-" for Stdin; at least one
	Hashes []hash.Algorithm // algorithms of the lines: at least one; several need Tag
	Tag    bool             // lines of BSD's style, with the algorithm
	Zero   bool             // lines end in NUL, names are not escaped

	FS *fsys.FS // nil for the system's files

	Stdin    io.Reader
	Out      io.Writer // gets the lines if Manifest is ""
	OutFile  *os.File  // the file that Out finally writes to, perhaps nil; it is never listed
	Manifest string    // the file to write, as the user gave it; see catalog.File

	// MediaList makes Run write a media hash list into the only directory, and lines only
	// to Manifest.
	MediaList *MediaList

	// Listed gets the content of the lines instead of Out, in any order, from one
	// goroutine. It may be nil. It is for runs without Manifest.
	Listed func(manifest.Entry)

	// MHL requests a generation, and lines only to Manifest; nil for lines only.
	MHL *MHL

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool

	Cache          pipe.CacheMode
	Workers        int   // files in progress at the same time; 0 for a number that suits the machine
	BytesPerSecond int64 // limit of all workers together; 0 for none

	// Report receives events as they happen, from one goroutine at a time. It may be nil.
	Report func(Event)
}

// Event is a failure (Err is a *failure.FileError) or a warning.
type Event struct {
	Warning  bool
	Mismatch bool   // true if the history lists another digest
	Path     string // path in the form of a line
	Err      error
}

// Counts has the counts of a run, with the names of the JSON output.
type Counts struct {
	Files    int64 `json:"files"`              // Files that were hashed.
	LeftOut  int64 `json:"left_out"`           // Entries that filters left out. A directory that was not searched counts once.
	Errors   int64 `json:"errors"`             // The length of failures.
	Warnings int64 `json:"warnings"`           // The length of warnings.
	Cached   int64 `json:"read_through_cache"` // With --cache drop or direct, files that were perhaps read from memory all the same.
}

// Summary has the results of a run.
type Summary struct {
	Counts
	Bytes    int64
	Elapsed  time.Duration
	Manifest string // path as the user gave it; "" if none was written
	Lines    int
	Dropped  int    // lines of the previous manifest for files that are gone
	SHA256   string // digest of the manifest, hexadecimal; "" if there is none

	List *record.Written // the media hash list; nil if none was written

	// With Options.MHL.
	Generations []mhl.Written // written generations; their paths begin with the directory as the user gave it
	Mismatches  int64         // files with another content than their history lists
	Missing     int64         // files and directories that a history lists and that do not exist
	Renamed     int           // files and directories that have a new path
	Ignored     int64         // files that ignore patterns leave out
}

// Run hashes the files that o selects and reports through o.Report and c. The error is a
// *failure.RefusedError if nothing was done. It is the cause of ctx's end if the run was
// stopped. Otherwise it is the error of writing the lines; a manifest is written completely
// or not at all. All other failures are in the summary. When Run returns, all its
// goroutines have ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	r := &run{opts: o, counters: c, workers: jobs.Workers(o.Workers, 1, 1), summary: &Summary{}}
	r.pipe = jobs.NewPipe(r.workers, o.BytesPerSecond, &c.Bytes)
	r.hashes = o.computed()
	// Two, because the scan must not evict directories that the workers use.
	for i := range r.handles {
		r.handles[i] = fsys.NewHandles(jobs.Directories(len(r.handles)))
	}
	args, err := r.arguments()
	if err != nil {
		return nil, err
	}
	if err := r.refuseInBag(args); err != nil {
		return nil, err
	}
	err = r.openHistory(args)
	if r.history != nil {
		defer r.history.close() //nolint:errcheck // temporaries that are not needed any more
	}
	if err != nil {
		return nil, err
	}
	r.builder = manifest.NewBuilder(r.hashes, extsort.TempFile, 0)
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
		err = r.write(ctx)
	}
	c.Phase.Store(int32(counters.End(err != nil)))
	r.summary.Elapsed = time.Since(begun)
	return r.summary, err
}

// writesLines reports whether Run writes lines: to the manifest, or because it writes
// nothing else.
func (o *Options) writesLines() bool {
	return o.Manifest != "" || o.MHL == nil && o.MediaList == nil
}

// computed returns the hashes of the lines, if there are any, and of the generation or
// media hash list.
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
func (r *run) write(ctx context.Context) error {
	if r.opts.writesLines() {
		if err := r.out.write(ctx, r); err != nil {
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
	hashes   []hash.Algorithm // algorithms that are computed for each file
	history  *history         // histories of the tree; nil without Options.MHL
	out      *output
	handles  [2]*fsys.Handles // directories of all trees: for the workers, and for the scan
	reserved sync.Once

	// Only the collector uses these.
	builder *manifest.Builder
	format  manifest.Sums
	summary *Summary
	leftOut atomic.Int64
	renamed map[string]bool // earlier paths of files that have a new one
	failed  error           // error of the builder; then no lines are written
}

// argument is a path that the user gave.
type argument struct {
	given  string
	prefix string // text before the names in a directory
	isDir  bool
	err    error // error of stat
}

// isTree reports whether names are relative to the only argument, a directory.
func isTree(args []argument) bool { return len(args) == 1 && args[0].isDir }

// job is a file for a worker, or a result that needs none.
type job struct {
	name string    // name that a line lists
	dir  *walk.Dir // directory of the file, held; nil for a file that the user named
	base string    // name of the file in dir
	path string    // path of a file without dir; "-" for standard input

	digests hash.Digests // digests of the file; nil if it failed
	bytes   int64
	cached  bool      // true if perhaps memory and not the device was read
	mtime   fsys.Time // zero for a stream
	event   *Event    // event to report; may be nil
}

// isFile reports whether j is a file to hash.
func (j *job) isFile() bool { return j.dir != nil || j.path != "" }

func (j *job) fail(stage failure.Stage, err error) { j.event = failed(j.name, stage, err) }

func failed(name string, stage failure.Stage, err error) *Event {
	return &Event{Path: name, Err: &failure.FileError{Path: name, Stage: stage, Err: err}}
}

// arguments reads the status of the paths that the user gave. A missing path is reported
// like any other file that cannot be hashed.
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

// hash hashes all files and collects their results.
func (r *run) hash(ctx context.Context, args []argument) {
	jobs.Run(ctx, &jobs.Options[*job]{
		Devices: 1, Workers: r.workers, Counters: r.counters,
		Path:  func(j *job) string { return j.name },
		Ahead: func(ctx context.Context) bool { return r.scan(ctx, args) },
		Produce: func(send func(int, *job)) {
			for _, a := range args {
				if ctx.Err() != nil {
					return
				}
				r.find(ctx, a, func(j *job) { send(0, j) })
			}
		},
		Work: func(_ int, list iter.Seq[*job]) {
			w := &worker{run: r, set: hash.NewSet(r.hashes)}
			for j := range list {
				w.do(ctx, j)
			}
		},
		Collect: r.collect,
	})
	r.summary.LeftOut = r.leftOut.Load()
}

// find makes jobs of the files of an argument.
func (r *run) find(ctx context.Context, a argument, send func(*job)) {
	switch {
	case a.err != nil:
		send(&job{event: failed(a.given, failure.StageOpen, a.err)})
	case !a.isDir:
		send(&job{name: filepath.ToSlash(a.given), path: a.given})
	default:
		v := &visitor{run: r, send: send, given: a.given, prefix: a.prefix}
		if err := r.walk(ctx, r.handles[0], a, v, walk.Options{Workers: min(r.workers, 4), LeftOut: &r.leftOut, SkipReserved: v.skipReserved}); err != nil {
			v.fail("", err)
		}
	}
}

// collect counts and reports the result of a job. No other goroutine uses the builder and the
// summary, or calls Options.Report.
func (r *run) collect(j *job, done bool) {
	if j.dir != nil {
		j.dir.Done()
	}
	if !done {
		return
	}
	if j.event != nil {
		r.report(*j.event)
	}
	if j.isFile() {
		r.counters.Files.Add(1)
	}
	if j.digests == nil {
		return
	}
	if j.isFile() {
		r.summary.Files++
	}
	r.summary.Bytes += j.bytes
	if j.cached {
		r.summary.Cached++
	}
	entry := manifest.Entry{Path: j.name, Digests: j.digests, Size: j.bytes, Mtime: j.mtime.Sec}
	if r.opts.Listed != nil {
		r.opts.Listed(entry)
		return
	}
	err := r.builder.Put(entry)
	r.failed = cmp.Or(r.failed, err)
}

// report counts an event and passes it to Options.Report. The caller counts mismatches, because those
// with a missing file have another counter.
func (r *run) report(e Event) {
	switch {
	case e.Warning:
		r.summary.Warnings++
	case !e.Mismatch:
		r.summary.Errors++
	}
	if r.opts.Report != nil {
		r.opts.Report(e)
	}
}

// walk visits a directory. The walk options are completed with those of the run.
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
