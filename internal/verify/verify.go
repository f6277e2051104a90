// Package verify checks directories against their manifests.
//
//	manifests ──lines──▶ workers: open, read, hash ──verdicts──▶ one reporter, in the manifests' order
//
// Each device has its own workers, so that directories on different devices are read at
// the same time.
//
// A manifest is hostile input. verify opens nothing outside the directory, opens only
// regular files, and waits for no other process.
package verify

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// Options say which trees to check, and how.
type Options struct {
	Paths    []string  // directories, and manifests whose directories are checked, as the user gave them; at least one
	Manifest string    // one manifest for all Paths, which are then directories; "-" for Stdin; "" to search in each
	Stdin    io.Reader // source of Manifest "-"

	Filter *filter.List // a choice of the lines to check; nil for every line
	Only   *filter.Only // a choice of the lines to check; nil for every line

	Cache         pipe.CacheMode
	ConvertPaths  bool // try names with "\" as names with "/" if they do not exist
	IgnoreMissing bool // do not report missing files
	Strict        bool // malformed lines are errors, not warnings
	Unlisted      bool // report files that no manifest lists

	Workers        int   // files of each device that are read at the same time; 0 for a number that suits the machine
	BytesPerSecond int64 // limit of all workers together; 0 for none

	FS *fsys.FS // nil for the system's files

	// Verbose reports files that match, too.
	Verbose bool

	// Begin, if not nil, is called with the open directory after its manifests were read to the end, and
	// before any other file is read. The run ends with an error of Begin.
	Begin func(root *fsys.Dir) error

	// Damaged, if not nil, is called after all files were read, and before anything is checked
	// that is not about one file. Report then gets no result about a file of the Damage. The run ends
	// with an error of Damaged. All hashes of a history are checked. There must be one directory in Paths.
	Damaged func(ctx context.Context, d *Damage) error

	// Report receives results as they happen, from one goroutine at a time: signs of unfinished
	// copies and notes about manifests first, then lines in the order of the manifests. It may be nil.
	Report func(Result)

	// Each receives every file that was checked, in any order, from the goroutine that
	// calls Report. It may be nil.
	Each func(*Checked)
}

// Checked is a file of the manifests, with all lines that list it.
type Checked struct {
	Dir   string // directory in the form of Result.Dir
	Path  string // path in the form of Result.Path, of the first line
	Size  int64  // size in bytes; -1 if the file was not read
	Mtime fsys.Time
	Lines []CheckedLine
}

// CheckedLine is the result of one line of a manifest.
type CheckedLine struct {
	Digests []hash.Expected // listed digests; none if the line lists only the size
	Verdict Verdict
}

// Verdict is the result for one line of a manifest.
type Verdict uint8

// The verdicts.
const (
	Match      Verdict = iota // The content is as listed; only Options.Verbose reports it.
	Mismatch                  // The content has another digest or size.
	Missing                   // The file does not exist.
	Unreadable                // The file cannot be opened or read, or is refused; Err says why.
	Unlisted                  // No manifest lists the file.
	Warning                   // The warning is not about a file: Err is the text, Path its subject, perhaps "".
	Failure                   // A part of the check failed that is not about one line: Err is the text.
	Incomplete                // Path is the marker or the journal of an unfinished copy; Err says what to do.
	Invalid                   // Path is the reason why the directory is not a valid bag; Err describes it.

	// A scrub has these in place of Mismatch.
	Rotted  // The content differs; size and mtime are those of the last good check.
	Changed // The content differs, and so do size or mtime.
	Differs // The content differs, and there was no good check.
)

// Result is one report.
type Result struct {
	Verdict   Verdict
	Dir       string         // path as the user gave it, or the directory of the manifest that the user gave
	Manifest  string         // path as a user would write it; "" for Unlisted
	Path      string         // path in the manifest, raw bytes; relative to Dir; "" for Dir
	Algorithm hash.Algorithm // algorithm of the line, or of its digest that does not match; "" if the size decides
	Err       error
}

// Counts has the counts of a run, with the names of the JSON output.
type Counts struct {
	Files   int64 `json:"files"`   // Files read to the end, each as often as it was read.
	Matches int64 `json:"matches"` // Lines of manifests that match their file.
	// Of matches, entries of media hash lists that list the size of the file and no digest: its content
	// was not read.
	SizeOnly   int64 `json:"size_only"`
	Mismatches int64 `json:"mismatches"` // Lines whose file has another digest or size, and what makes a bag invalid.
	Missing    int64 `json:"missing"`    // Lines whose file is not there.
	// Files and directories that could not be read, paths that were refused, and manifests without a valid
	// line.
	Errors   int64 `json:"errors"`
	Unlisted int64 `json:"unlisted"` // With --unlisted, files that no manifest lists: the length of unlisted.
	// Markers and journals of unfinished copies in the root of DIR. Each is one of the failures, and makes
	// the exit code 3.
	Incomplete int64 `json:"incomplete"`
	Malformed  int64 `json:"malformed"` // Lines of manifests that cannot be read.
	LeftOut    int64 `json:"left_out"`  // Lines of manifests that the filters leave out.
	Warnings   int64 `json:"warnings"`  // Warnings.
	// Of files, those that were perhaps read from memory and not from the device. --cache drop reads the
	// device where there is one.
	Cached int64 `json:"verified_through_cache"`
}

// Summary has the results of a check. Matches, Mismatches, Missing and Errors count lines
// of manifests; several may list one file.
type Summary struct {
	Counts
	Bytes     int64         // size of those files
	Elapsed   time.Duration // time since the manifests were read, which may come from another program
	Manifests []ManifestSummary
}

// ManifestSummary describes one manifest that was used.
type ManifestSummary struct {
	Path      string // path as a user would write it
	Dir       string
	Algorithm string // name of the algorithm; "" if each line names its own
	Lines     int64  // well-formed lines
}

// Run checks the trees that o selects and reports through o.Report and c. The error is a
// *failure.RefusedError if there is nothing to check, and the cause of ctx's end if the run
// was stopped; then the summary is not nil. When Run returns, all its goroutines have
// ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	r := &run{opts: o, counters: c, summary: &Summary{}}
	if o.Damaged != nil {
		r.damage = newDamage()
	}
	defer r.close()
	return r.execute(ctx, func() error {
		r.check(ctx)
		return nil
	})
}

// execute opens the trees, calls check to find a verdict for each line, and then finds what is
// not about a line.
func (r *run) execute(ctx context.Context, check func() error) (*Summary, error) {
	o, c := r.opts, r.counters
	if err := r.openTrees(ctx); ctx.Err() != nil {
		return r.summary, context.Cause(ctx)
	} else if err != nil {
		return nil, err
	}
	begun := time.Now()
	r.show()
	c.Phase.Store(int32(counters.PhaseVerifying))
	if err := check(); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if o.Damaged != nil && ctx.Err() == nil {
		if err := r.deliverDamage(ctx); err != nil && ctx.Err() == nil {
			return r.summary, err
		}
		r.readTagsAgain(r.trees[0])
	}
	if ctx.Err() == nil {
		r.checkManifests()
		for _, t := range r.trees {
			if t.bag != nil {
				r.checkBag(ctx, t)
			}
			r.findDirectories(t)
		}
	}
	if o.Unlisted && ctx.Err() == nil {
		for _, t := range r.trees {
			r.findUnlisted(ctx, t)
		}
	}
	c.Phase.Store(int32(counters.End(ctx.Err() != nil)))
	r.summary.Elapsed = time.Since(begun)
	return r.summary, context.Cause(ctx)
}

// show publishes the trees to the progress display, if there are several.
func (r *run) show() {
	if len(r.trees) < 2 {
		return
	}
	var list []*counters.Destination
	for _, t := range r.trees {
		t.progress.Name, t.progress.Device = t.given, t.info.ID.Dev
		list = append(list, &t.progress)
	}
	r.counters.SetDestinations(list)
}

// run is one execution of Run.
type run struct {
	opts     *Options
	counters *counters.Set
	named    treeManifest // the open manifest for all trees
	byLine   bool         // only check lines: a bag is not validated
	trees    []*tree
	summary  *Summary
	damage   *damage // nil unless Options.Damaged is set

	// Only check uses these.
	order        *jobs.Order[*part]
	pipe         *pipe.Pipe
	maxOpenPaths int // directories that a worker may keep open
}

func (r *run) close() {
	for _, t := range r.trees {
		t.close()
	}
	r.named.close()
	if r.damage != nil {
		r.damage.close()
	}
}

// check reads the trees of different devices at the same time, and collects the results.
func (r *run) check(ctx context.Context) {
	for _, t := range r.trees {
		for _, n := range t.notes {
			if r.damage == nil || n.verdict != Invalid { // a repair can remove the reason
				r.addTo(t, n.verdict, n.path, n.err)
			}
		}
	}
	r.number()
	devices := jobs.ByDevice(len(r.trees), func(i int) uint64 { return r.trees[i].info.ID.Dev })
	workers := jobs.Workers(r.opts.Workers, len(devices), 1)
	r.maxOpenPaths = jobs.Directories(workers * len(devices))
	r.pipe = jobs.NewPipe(workers*len(devices), r.opts.BytesPerSecond, &r.counters.Bytes)
	r.order = jobs.NewOrder(jobs.MemoryOfResults(), sizeOf, r.reportPart)
	jobs.Run(ctx, &jobs.Options[*job]{
		Devices: len(devices), Workers: workers, Counters: r.counters, Ahead: r.scan,
		Path: func(j *job) string { return j.path },
		Produce: func(send func(device int, j *job)) {
			var all sync.WaitGroup
			for device, trees := range devices {
				all.Go(func() {
					for _, i := range trees {
						r.readLines(ctx, r.trees[i], func(j *job) { r.order.Wait(j.parts[0].number); send(device, j) })
					}
				})
			}
			all.Wait()
		},
		Work: func(_ int, list iter.Seq[*job]) {
			w := &worker{run: r, sets: map[string]*hash.Set{}}
			defer w.close()
			for j := range list {
				w.do(ctx, j)
			}
		},
		Collect: r.collect,
	})
}

// collect counts a job, and reports the results that are next in order.
func (r *run) collect(j *job, done bool) {
	switch {
	case j.rest:
		r.skipRest(j.parts[0].from, j.parts[0].number-j.parts[0].from.first)
		return
	case done:
		r.collectFile(j)
	}
	for _, p := range j.parts {
		if done && r.account(p) && (r.damage == nil || !p.isDamage()) {
			r.order.Done(p.number, p)
		} else {
			r.order.Skip(p.number)
		}
	}
}

// collectFile counts the file of a job, and passes it on.
func (r *run) collectFile(j *job) {
	tree, lines := j.parts[0].from.tree, int64(len(j.parts))
	r.counters.Files.Add(lines)
	tree.progress.ReadBack.Files.Add(lines)
	if j.read {
		r.summary.Files++
		r.summary.Bytes += j.bytes
		if j.cached {
			r.summary.Cached++
		}
	}
	if tree.listed != nil && j.meant != "" {
		tree.listed.Add(path.Clean(j.meant))
	}
	if tree.bag != nil {
		tree.bag.note(j)
	}
	if r.damage != nil {
		r.damage.note(j, r.opts.ConvertPaths)
	}
	if r.opts.Each != nil {
		r.deliverFile(j)
	}
}

// deliverFile calls Options.Each.
func (r *run) deliverFile(j *job) {
	first := j.parts[0]
	c := &Checked{Dir: first.from.tree.given, Path: first.path, Size: -1, Mtime: j.mtime}
	if j.meant != "" {
		c.Path = path.Clean(j.meant)
	}
	if j.read {
		c.Size = j.size
	}
	for _, p := range j.parts {
		if p.verdict != Missing || !r.opts.IgnoreMissing {
			c.Lines = append(c.Lines, CheckedLine{p.digests, p.verdict})
		}
	}
	if len(c.Lines) > 0 {
		r.opts.Each(c)
	}
}

// reportPart reports the result of a part.
func (r *run) reportPart(p *part) {
	if r.opts.Report != nil {
		r.opts.Report(Result{
			Verdict: p.verdict, Dir: p.from.tree.given, Manifest: p.from.shown,
			Path: p.path, Algorithm: p.algorithm, Err: p.err,
		})
	}
}

// account counts a line and returns whether to report it.
func (r *run) account(p *part) bool {
	s := r.summary
	switch p.verdict {
	case Match:
		s.Matches++
		if len(p.digests) == 0 {
			s.SizeOnly++
		}
	case Mismatch, Invalid, Rotted, Changed, Differs:
		s.Mismatches++
	case Missing:
		if r.opts.IgnoreMissing {
			p.from.ignored++
			return false
		}
		s.Missing++
	case Unreadable, Failure:
		s.Errors++
	case Warning:
		s.Warnings++
	case Incomplete:
		s.Incomplete++
	case Unlisted:
		s.Unlisted++
	}
	return p.verdict != Match || r.opts.Verbose
}

// add counts and reports a result that has no place in the order of the lines.
func (r *run) add(from *treeManifest, verdict Verdict, path string, err error) {
	p := &part{from: from, expectation: expectation{path: path}, verdict: verdict, err: err}
	if r.account(p) {
		r.reportPart(p)
	}
}

// addTo is add for a result that is not about a manifest.
func (r *run) addTo(t *tree, verdict Verdict, path string, err error) {
	r.add(&treeManifest{tree: t}, verdict, path, err)
}

// checkManifests reports manifests that could not be read to the end, and those without any
// existing file. As in sha256sum, a check of no file is not a success.
func (r *run) checkManifests() {
	for _, t := range r.trees {
		for _, s := range t.manifests {
			if s.err != nil {
				r.add(s, Failure, filepath.Base(s.shown), s.err)
			}
			if s.ignored > 0 && s.ignored == s.lines {
				r.add(s, Failure, filepath.Base(s.shown), errors.New("no file of it was verified"))
			}
		}
	}
}
