// Package compare compares directory trees entry by entry, and writes nothing.
//
//	merge of the listings ──jobs──▶ workers: one name in all trees ──jobs──▶ one reporter, in path order
//
// The first tree, A, is what the others are compared with. All trees are listed and read
// at the same time. Trees are hostile: every entry is reached through the descriptor of
// its directory, no link is followed, and only regular files are opened.
package compare

import (
	"context"
	"iter"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// MaxTrees is the number of letters for trees.
const MaxTrees = 26

// Letter returns the name of a tree in texts: A for tree 0.
func Letter(tree int) string { return string(rune('A' + tree)) }

// Options say which trees to compare, and how.
type Options struct {
	Trees []string // paths as the user gave them: two to MaxTrees

	Quick    bool // compare size and modification time, and read no content
	Metadata bool // compare mode, owner, modification time, extended attributes and ACLs as well
	OneWay   bool // entries that A lacks are not differences
	Verbose  bool // report equal entries, and every entry of a directory that is in one tree only

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool         // do not enter other file systems

	Cache          pipe.CacheMode // CacheKeep allows reading from memory
	Workers        int            // entries in progress at the same time; 0 for a number that suits the machine
	BytesPerSecond int64          // limit of the bytes read from each tree; 0 for none

	FS *fsys.FS // nil for the system's files

	// Report receives events as they happen, in path order and from one goroutine. It may
	// be nil.
	Report func(Event)

	// Each receives every entry that is not a directory, in path order, from the goroutine
	// that calls Report. It may be nil.
	Each func(*Entry)
}

// Entry is one name in all trees.
type Entry struct {
	Path   string // path in the form of Event.Path
	Kind   fsys.Kind
	Size   int64     // size in the first tree that has the entry
	Mtime  fsys.Time // modification time in that tree
	Events []Event   // differences between the trees; none for equal entries
}

// Verdict is the result for one entry.
type Verdict uint8

// The verdicts.
const (
	Equal           Verdict = iota // The entry is equal; only Options.Verbose reports it.
	Differs                        // The content, the link target, the size or the device number differs.
	OnlyIn                         // Trees have the entry, and another tree lacks it.
	TypeDiffers                    // A file in one tree is a directory in another.
	MetadataDiffers                // The content is equal, and the metadata differs.
	Unreadable                     // The entry could not be compared; Err says why.
	Incomplete                     // Path is the marker or the journal of an unfinished copy; Err says what to do.
)

// Event is one report.
type Event struct {
	Verdict Verdict
	Path    string        // raw bytes of the path, relative to the trees; "" for the root; a directory ends in a slash
	Trees   []int         // the trees that have the entry, for OnlyIn; otherwise the one that the event concerns
	Reason  string        // names and texts in it are quoted
	Whole   bool          // true if the entry is a directory, and the event includes everything in it
	Files   int64         // number of regular files in the directory, if Whole
	Bytes   int64         // size of these files; otherwise the size of a regular file of OnlyIn
	Stage   failure.Stage // the failed operation of Unreadable
	Err     error
}

// Only counts the entries that some trees have and others lack.
type Only struct {
	Trees  []int // the trees that have these entries
	Files  int64 // number of regular files
	Bytes  int64 // size of these files
	Others int64 // number of directories, links and special files
}

// Counts has the counts of a run, with the names of the JSON output.
type Counts struct {
	Files       int64 `json:"files"`       // Regular files of A that were compared with at least one other tree.
	Directories int64 `json:"directories"` // Directories of A that were compared; the roots do not count.
	Others      int64 `json:"others"`      // Symbolic links and special files of A that were compared.
	// Entries whose content, link target or device number differs, once for each tree that differs from A.
	Differ          int64 `json:"differ"`
	TypeDiffers     int64 `json:"type_differs"`     // Entries of different types, counted in the same way.
	MetadataDiffers int64 `json:"metadata_differs"` // Entries of which only the metadata differs, counted in the same way.
	Unreadable      int64 `json:"unreadable"`       // Entries that could not be compared.
	Incomplete      int64 `json:"incomplete"`       // Markers and journals of unfinished copies in the roots of the trees.
	LeftOut         int64 `json:"left_out"`         // Entries of A that filters left out; a directory counts once.
	Own             int64 `json:"own"`              // Manifests and journals of Sealift that A lacks; they are not compared.
	// Files of which it is not certain that all trees were read from a device, although --cache asked for
	// that.
	Cached int64 `json:"compared_through_cache"`
}

// Summary has the results of a comparison. Entries that exist in only some trees do not
// count as compared.
type Summary struct {
	Counts
	Only    []Only
	Bytes   int64 // compared bytes of A; 0 with Options.Quick
	Elapsed time.Duration
}

// Differences is the number of entries that are not equal.
func (s *Summary) Differences() int64 {
	n := s.Differ + s.TypeDiffers + s.MetadataDiffers
	for _, o := range s.Only {
		n += o.Files + o.Others
	}
	return n
}

// run is one execution of Run.
type run struct {
	opts     *Options
	counters *counters.Set
	workers  int
	trees    []*tree
	pipe     *pipe.Pipe    // counts and limits the bytes of A; each worker has buffers of its own
	large    chan struct{} // a place for each long file that is read at the same time
	summary  *Summary
}

// Run compares the trees of o and reports through o.Report and c. The error is a
// *failure.RefusedError if nothing was compared, and the cause of ctx's end if the run was
// stopped; then the summary is not nil. When Run returns, all its goroutines have ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	r := &run{opts: o, counters: c, workers: jobs.Workers(o.Workers, 1, len(o.Trees)), summary: &Summary{}}
	r.pipe = jobs.NewPipe(r.workers, o.BytesPerSecond, &c.Bytes)
	limit, least := fsys.OpenLimit(), 16+8*len(o.Trees)
	if limit < least {
		return nil, failure.Refuse("comparing %d trees needs %d open files, and the limit is %d; raise it with ulimit -n %[2]d", len(o.Trees), least, limit)
	}
	defer r.closeTrees()
	if err := r.openTrees(); err != nil {
		return nil, err
	}
	if err := r.refuseEmpty(ctx); err != nil {
		return nil, err
	}
	r.large = make(chan struct{}, r.longAtOnce())
	c.Phase.Store(int32(counters.PhaseComparing))
	for i, t := range r.trees {
		signs, _ := incomplete.Find(t.root) // the walk reports a root that cannot be listed
		for _, s := range signs {
			r.summary.Incomplete++
			r.report(Event{Verdict: Incomplete, Path: s.Name, Trees: []int{i}, Err: s.Err})
		}
	}
	r.compare(ctx)
	c.Phase.Store(int32(counters.End(ctx.Err() != nil)))
	r.summary.Elapsed = time.Since(begun)
	return r.summary, context.Cause(ctx)
}

func (r *run) report(e Event) {
	if r.opts.Report != nil {
		r.opts.Report(e)
	}
}

// longAtOnce is how many long files are read at the same time. It is one on a spinning
// disk, because moving the head between files costs more than reading them together gains.
func (r *run) longAtOnce() int {
	for _, t := range r.trees {
		if t.root.Rotational() {
			return 1
		}
	}
	return r.workers
}

// compare compares all entries and reports them in the order of the merge.
func (r *run) compare(ctx context.Context) {
	m := &merge{run: r, ctx: ctx}
	stopped := false // a result is missing, so the counts of its directories would be wrong
	order := jobs.NewOrder(jobs.MemoryOfResults(), sizeOf, func(j *job) {
		if stopped = stopped || !j.done; !stopped {
			r.account(j)
		}
	})
	jobs.Run(ctx, &jobs.Options[*job]{
		Devices: 1, Workers: r.workers, Counters: r.counters, Ahead: r.scan,
		Path: func(j *job) string {
			if !j.isFileOfA() {
				return ""
			}
			return j.dir.join(j.name)
		},
		Produce: func(send func(int, *job)) {
			m.send = func(j *job) { order.Wait(j.number); send(0, j) }
			m.roots()
		},
		Work: func(_ int, list iter.Seq[*job]) {
			w := newWorker(r)
			for j := range list {
				w.do(ctx, j)
			}
		},
		Collect: func(j *job, done bool) {
			j.done = done
			j.dir.done()
			if done && j.isFileOfA() {
				r.counters.Files.Add(1)
			}
			order.Done(j.number, j)
		},
	})
	r.summary.LeftOut += m.leftOut
	r.summary.Own += m.own
}

// sizeOf returns the memory of a job that waits for its report, in bytes.
func sizeOf(j *job) int { return 300 + len(j.name) + 200*len(j.events) }
