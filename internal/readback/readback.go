// Package readback reads trees back from their devices and compares each file with the
// digests that manifests are going to list for it.
//
//	lines of all trees ──jobs──▶ workers of device 1: its trees, one after the other
//	   (merged by path)  └─────▶ workers of device 2 ...
//
// A job is one path on one device. Each device has its own workers, so trees on different
// devices are read at the same time. One goroutine judges a path after its last job. A file that
// differs from its line is renamed only if this run wrote it, or if the source still matches
// the line. Otherwise the file may be the last good copy. Run returns the paths that no manifest may
// list.
package readback

import (
	"bytes"
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// Options say which trees to read and how.
type Options struct {
	Trees    []Tree
	Source   *Source // source to read again; nil if that is not possible
	Hashes   []hash.Algorithm
	Workers  int        // number of workers for each device
	Pipe     *pipe.Pipe // resources for reading; its counter of bytes is not used
	Counters *counters.Set
	Sampler  *timing.Sampler // sampler of the waiting; may be nil

	// Report receives each finding, from one goroutine. For a file of a tree that cannot be
	// read, it returns whether the whole tree is gone. Then Run reads no more of that tree.
	Report func(Finding) (gone bool)
}

// Tree is a destination.
type Tree struct {
	Root     *fsys.Dir
	Device   uint64
	Place    timing.Place
	Counters *counters.Work // the tree's part of Options.Counters.ReadBack

	// Lines yields the paths in ascending order, each with the digests of its lines. They are
	// valid until the next path.
	Lines iter.Seq2[string, hash.Digests]

	// SourceChanged reports whether the source's file has changed since it was copied to
	// the file there, in dir. Only a run with a Source needs it.
	SourceChanged func(dir *fsys.Dir, there, source fsys.Info) bool

	// Written reports whether this run wrote the file path. If it is nil, the run wrote all
	// files.
	Written func(path string) bool

	// MayMove, if set, is called before the bad file path is renamed. An error prevents the
	// renaming.
	MayMove func(path string) error
}

// Source is the tree that was copied.
type Source struct {
	Root   *fsys.Dir
	Device uint64
	File   string // the name of a single file in Root, "" for a tree
	// Full: each file is read again. Otherwise only those are that decide whether a bad file
	// of a tree is renamed.
	Full bool
}

// Finding is a file that Run cannot confirm as good.
type Finding struct {
	Tree int // index of Options.Trees; TheSource for the source
	Path string
	Kind Kind
	Err  error
}

// TheSource is Finding.Tree for a file of the source.
const TheSource = -1

// Kind is the kind of a finding.
type Kind uint8

// The kinds of findings.
const (
	Unreadable Kind = iota
	Differs         // The file of a tree has another digest, or the source now has another one.
	Changed         // The source's file has changed since it was copied.
)

// Result is the outcome for one tree.
type Result struct {
	Good   int64    // files that have their digests
	Cached int64    // number of good files that perhaps were read from memory
	Bad    []string // paths that no manifest may list
	Gone   bool     // true if Report has returned true

	Elapsed time.Duration // time in which at least one file of the tree was being read
}

func (t *Result) count(n int64, cached bool) {
	t.Good += n
	if cached {
		t.Cached += n
	}
}

// Run reads everything and returns a result for each tree. It ends early with ctx; all
// its goroutines have ended when it returns.
func Run(ctx context.Context, o *Options) []Result {
	places := len(o.Trees) + 1
	r := &run{Options: o, ctx: ctx, source: len(o.Trees), results: make([]Result, len(o.Trees)), gone: make([]atomic.Bool, places), clocks: make([]clock, places)}
	groups := r.groups()
	// Each worker may have directories of each tree of its device open. The judge opens all trees.
	limit := jobs.Directories((o.Workers*len(groups) + 1) * places)
	judge := &judge{r.newWorker(limit)}
	defer judge.close()
	jobs.Run(ctx, &jobs.Options[job]{
		Devices: len(groups), Workers: o.Workers, Counters: o.Counters,
		Path: func(j job) string { return j.path },
		Produce: func(send func(device int, j job)) {
			for e := range r.entries(len(groups)) {
				if ctx.Err() != nil {
					return
				}
				for device, places := range groups {
					send(device, job{e, places})
				}
			}
		},
		Work: func(_ int, list iter.Seq[job]) {
			w := r.newWorker(limit)
			defer w.close()
			for j := range list {
				w.do(j)
			}
		},
		Collect: judge.collect,
	})
	for i := range r.results {
		r.results[i].Elapsed = r.clocks[i].elapsed()
	}
	return r.results
}

// run is one execution of Run.
type run struct {
	*Options
	ctx     context.Context //nolint:containedctx // a run lives as long as Run
	source  int             // index of the source after those of the trees
	linked  linkedDigests
	results []Result      // only the judge uses them
	gone    []atomic.Bool // places of which nothing is read any more
	clocks  []clock       // one for each place
}

// groups returns the indexes of the trees, and of a source that is read completely, by device.
func (r *run) groups() [][]int {
	n := len(r.Trees)
	if r.Source != nil && r.Source.Full {
		n++
	}
	return jobs.ByDevice(n, func(i int) uint64 {
		if i == r.source {
			return r.Source.Device
		}
		return r.Trees[i].Device
	})
}

// job is an entry to read on one device.
type job struct {
	*entry
	places []int // indexes of files
}

// entry is a path to read in all trees that list it, and in the source.
type entry struct {
	path  string
	files []file // one file for each tree, and that of the source
	left  int    // number of jobs that are not finished; only the judge uses it
}

// file is an entry's file in one place.
type file struct {
	listed hash.Digests // nil if the tree does not list the path
	content
}

// entries merges the lines of all trees. Each entry gets so many jobs.
func (r *run) entries(jobs int) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		type head struct {
			path    string
			digests hash.Digests
			ok      bool
			next    func() (string, hash.Digests, bool)
		}
		heads := make([]head, len(r.Trees))
		for i, t := range r.Trees {
			next, stop := iter.Pull2(t.Lines)
			defer stop()
			heads[i].next = next
			heads[i].path, heads[i].digests, heads[i].ok = next()
		}
		for {
			least := -1
			for i, h := range heads {
				if h.ok && (least < 0 || h.path < heads[least].path) {
					least = i
				}
			}
			if least < 0 {
				return
			}
			e := &entry{path: heads[least].path, files: make([]file, len(heads)+1), left: jobs}
			for i := range heads {
				if h := &heads[i]; h.ok && h.path == e.path {
					for _, digest := range h.digests {
						e.files[i].listed = append(e.files[i].listed, bytes.Clone(digest))
					}
					h.path, h.digests, h.ok = h.next()
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}
