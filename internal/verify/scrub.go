package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/scrub"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// ScrubOptions say which files of a directory to check, and for how long.
type ScrubOptions struct {
	Dir    string        // directory to check
	State  string        // file of the state, outside Dir
	For    time.Duration // no file is begun after this time, except the stalest one
	MaxAge time.Duration // largest time between two checks of a file; 0 to check all files in each run

	Now func() time.Time // clock; nil for the system's

	// Options has Workers, BytesPerSecond, FS, Verbose and Report. Scrub sets the others.
	Options
}

// ScrubCounts has the counts of a scrub, with the names of the JSON output.
type ScrubCounts struct {
	Listed  int64 `json:"listed"`  // Files that the manifests list.
	Due     int64 `json:"due"`     // Of listed, files that were due when the run began.
	Files   int64 `json:"files"`   // Files that this run has checked.
	Matches int64 `json:"matches"` // Files that match all their lines.
	// Files whose content differs, and whose size and modification time are those of the last good check.
	Rotted  int64 `json:"rotted"`
	Changed int64 `json:"changed"` // Files whose content and size or modification time differ.
	Differs int64 `json:"differs"` // Files whose content differs, and that no scrub has found good before.
	Missing int64 `json:"missing"` // Files that do not exist.
	// Files and directories that could not be read, paths that were refused, and manifests without a valid
	// line.
	Errors int64 `json:"errors"`
	// Of the damaged files and errors, those that an earlier run has found and this one had no time to
	// check again.
	Known   int64 `json:"known"`
	New     int64 `json:"new"`           // Files that no manifest lists: the length of new.
	Never   int64 `json:"never_checked"` // Of listed, files that no run has checked yet.
	Overdue int64 `json:"overdue"`       // Files whose last check is older than --max-age; 0 without it.
	// Markers and journals of unfinished copies in the root of DIR. Each is one of the failures, and makes
	// the exit code 3.
	Incomplete int64 `json:"incomplete"`
	Malformed  int64 `json:"malformed"`              // Lines of manifests that cannot be read.
	Warnings   int64 `json:"warnings"`               // Warnings.
	Cached     int64 `json:"verified_through_cache"` // Of files, those that were perhaps read from memory and not from the device.
}

// ScrubSummary has the results of a scrub.
type ScrubSummary struct {
	ScrubCounts
	Bytes     int64         // bytes that were read
	Total     int64         // size of all listed files; estimated while some were never checked
	Elapsed   time.Duration // time of the run
	Oldest    time.Time     // time of the oldest check; zero if there is none
	Runs      int64         // how many runs like this one check every file once; 0 if that is unknown
	Until     time.Time     // when they will have done so, at the pace of the last two runs; zero if that is unknown
	Manifests []ManifestSummary
}

// saveEvery is the shortest time between two writes of the state. A kill loses the checks since the
// last write. Writing takes at most one part in saveShare of the time.
const (
	saveEvery = time.Minute
	saveShare = 20
)

// scrubbing is one execution of Scrub.
type scrubbing struct {
	*run
	opts     *ScrubOptions
	state    *outfile.Place
	schedule *scrub.Schedule
	summary  *ScrubSummary
	tree     *tree
	begun    time.Time
	now      int64 // begun, as in the state
	lastRun  int64 // when the run before this one began; 0 if that is unknown

	begunFiles atomic.Int64 // files, neither gone nor damaged, that a worker had to begin

	// Only the goroutine that collects results uses these.
	nextSave time.Time
	stats    scrub.Stats
}

// scrubJob is a file of the schedule.
type scrubJob struct {
	*job
	file    *scrub.File
	skipped bool  // true if the time was over before the file was begun
	checked int64 // time of the check
}

// Scrub checks the files of a directory that were not checked for the longest time, and remembers the
// results in a state. The errors are those of Run, and those of writing the state; then the summary
// is not nil.
func Scrub(ctx context.Context, o *ScrubOptions, c *counters.Set) (*ScrubSummary, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Paths, o.ConvertPaths, o.Cache = []string{o.Dir}, true, pipe.CacheDrop
	r := &run{opts: &o.Options, counters: c, summary: &Summary{}, byLine: true}
	defer r.close()
	s := &scrubbing{run: r, opts: o, summary: &ScrubSummary{}, begun: o.Now(), schedule: scrub.NewSchedule()}
	defer s.schedule.Close() //nolint:errcheck // temporaries that are not needed any more
	s.now = scrub.Clock(s.begun)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	c.Phase.Store(int32(counters.PhaseVerifying))
	err := s.check(ctx)
	if errors.As(err, new(*failure.RefusedError)) {
		return nil, err
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	s.summarize()
	c.Phase.Store(int32(counters.End(ctx.Err() != nil)))
	return s.summary, err
}

// open opens the directory, its manifests and the state. The error is a refusal or that of ctx.
func (s *scrubbing) open(ctx context.Context) error {
	o := s.opts
	var err error
	if s.state, err = outfile.Open(o.FS, o.State, scrub.Form); err != nil {
		return refusedState(o.State, err)
	}
	if s.state.Below(o.Dir) != "" {
		return failure.Refuse("--state %s is inside %s; choose a file elsewhere", quote.Name(o.State), quote.Name(o.Dir))
	}
	if err := s.openTrees(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return err
	}
	s.tree = s.trees[0]
	if s.tree.given != o.Dir {
		return failure.Refuse("%s is not a directory", quote.Name(o.Dir))
	}
	return s.readState()
}

func refusedState(name string, err error) error {
	return failure.Refuse("--state %s: %s", quote.Name(name), quote.Text(fsys.BareError(err).Error()))
}

func (s *scrubbing) readState() error {
	f, info, err := s.state.Read()
	if err != nil {
		return refusedState(s.opts.State, err)
	}
	if f == nil {
		return nil
	}
	defer f.Close()
	content, err := scrub.Read(f.Reader(info.Size), s.schedule.Remember)
	if err != nil {
		return refusedState(s.opts.State, err)
	}
	s.lastRun = content.Run
	if content.Malformed > 0 {
		s.tree.notes = append(s.tree.notes, note{Warning, "", fmt.Errorf("the state has malformed lines (%d): their files count as never checked", content.Malformed)})
	}
	return nil
}

// check makes the schedule, checks files until the time is over, and writes the state.
func (s *scrubbing) check(ctx context.Context) error {
	if err := s.makeSchedule(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	if s.schedule.Known == 0 && s.schedule.Dropped > 0 {
		return failure.Refuse("--state %s lists no file of %s: it is the state of another directory", quote.Name(s.opts.State), quote.Name(s.opts.Dir))
	}
	for _, n := range s.tree.notes {
		s.addTo(s.tree, n.verdict, n.path, n.err)
	}
	s.checkManifests()
	s.findDirectories(s.tree)
	s.nextSave = s.opts.Now().Add(saveEvery)
	return errors.Join(s.read(ctx), s.save())
}

// makeSchedule lists the lines of the manifests and the names of the tree, and orders the files.
func (s *scrubbing) makeSchedule(ctx context.Context) error {
	for i, m := range s.tree.manifests {
		if err := m.read().each(ctx, func(x expectation) error { return s.list(i, m, x) }); err != nil {
			return err
		}
	}
	s.walk(ctx, s.tree, &scrubVisitor{scrubbing: s}, walk.Options{})
	if ctx.Err() != nil {
		return nil
	}
	look := fsys.NewFinder(s.tree.root, fsys.FinderLimit())
	defer look.Close()
	due := int64(math.MaxInt64)
	if s.opts.MaxAge > 0 {
		due = s.now - int64(s.opts.MaxAge/2/time.Second)
	}
	return s.schedule.Order(scrub.Rules{
		Now: s.now, DueBefore: due,
		Gone: func(name string) bool {
			f, _, err := look.Open(name)
			if err == nil {
				f.Close()
			}
			return fsys.NoSuchFile(err)
		},
		New: func(name string) error {
			if info, err := look.Lstat(name); err == nil && !s.tree.ids[info.ID] {
				s.addTo(s.tree, Unlisted, name, nil)
			}
			return nil
		},
	})
}

// list adds a line to the schedule. Spellings of a path that mean the same file share an entry.
func (s *scrubbing) list(number int, m *treeManifest, x expectation) error {
	key := cleanPath(x.path)
	for _, other := range m.part(0, x).otherSpellings(true) {
		if other = cleanPath(other); other != key {
			if err := s.schedule.Alias(other); err != nil {
				return err
			}
		}
	}
	line, err := json.Marshal(scrubLine{number, []byte(x.path), []byte(x.literal), x.size, x.digests})
	if err != nil {
		return err
	}
	return s.schedule.List(key, line)
}

// scrubLine is a line of a manifest in the schedule. The bytes of paths are no text, so JSON gets them as slices.
type scrubLine struct {
	Manifest      int // number of the manifest
	Path, Literal []byte
	Size          int64
	Digests       []hash.Expected
}

// cleanPath returns the shortest spelling of a path, or the path itself if its meaning depends on
// its spelling.
func cleanPath(name string) string {
	if strings.HasSuffix(name, "/") || strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
		return name
	}
	return path.Clean(name)
}

// scrubVisitor adds the names of a tree to the schedule. One goroutine calls it.
type scrubVisitor struct {
	*scrubbing
	failed bool
}

func (v *scrubVisitor) Enter(d *walk.Dir) bool {
	return d.Parent == nil || !incomplete.IsReserved(d.Name, d.Parent.Parent == nil, fsys.Directory) && (d.Name != mhl.Folder || !mhl.HoldsHistory(d.Parent)) && !v.tree.hides(d.Path(), true)
}

func (v *scrubVisitor) Leave(*walk.Dir) {}

func (v *scrubVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	file := d.Join(name)
	isNew := kind == fsys.Regular && !incomplete.IsReserved(name, d.Parent == nil, kind) && !v.tree.hides(file, false)
	if err := v.schedule.Walked(file, isNew); err != nil && !v.failed { // a temporary file; Order reports it, too
		v.failed = true
		v.addTo(v.tree, Failure, file, scanError(err))
	}
}

func (v *scrubVisitor) Failed(d *walk.Dir, name string, err error) {
	(&unlistedVisitor{v.run, v.tree}).Failed(d, name, err)
}

var errTimeOver = errors.New("the time is over")

// read checks the files of the schedule until the time is over. Damaged files get at most half of the
// time, so that much damage does not keep others from being checked.
func (s *scrubbing) read(ctx context.Context) (err error) {
	workers := jobs.Workers(s.opts.Workers, 1, 1)
	s.maxOpenPaths = jobs.Directories(workers)
	s.pipe = jobs.NewPipe(workers, s.opts.BytesPerSecond, &s.counters.Bytes)
	jobs.Run(ctx, &jobs.Options[*scrubJob]{
		Devices: 1, Workers: workers, Counters: s.counters,
		Path: func(j *scrubJob) string { return j.path },
		Produce: func(send func(device int, j *scrubJob)) {
			err = s.schedule.Each(func(f *scrub.File) error {
				switch {
				case ctx.Err() != nil:
					return errTimeOver
				case !f.Gone && !f.Damaged && s.isOver(f) && s.begunFiles.Load() > 0:
					return errTimeOver
				}
				send(0, s.jobOf(f))
				return nil
			})
			if errors.Is(err, errTimeOver) {
				err = nil
			}
		},
		Work: func(_ int, list iter.Seq[*scrubJob]) {
			w := &worker{run: s.run, sets: map[string]*hash.Set{}}
			defer w.close()
			for j := range list {
				if j.skipped = !s.begin(j.file); !j.skipped {
					w.do(ctx, j.job)
					j.checked = scrub.Clock(s.opts.Now())
				}
			}
		},
		Collect: s.collectScrub,
	})
	return err
}

// begin reports whether to begin a file. The stalest file is always begun: otherwise, one whose
// reading needs more time than a run has would never be checked.
func (s *scrubbing) begin(f *scrub.File) bool {
	switch {
	case f.Gone:
		return true
	case f.Damaged:
		return !s.isOver(f)
	}
	return s.begunFiles.Add(1) == 1 || !s.isOver(f)
}

func (s *scrubbing) isOver(f *scrub.File) bool {
	limit := s.opts.For
	if f.Damaged {
		limit /= 2
	}
	return s.opts.Now().Sub(s.begun) >= limit
}

// jobOf returns the job of a file with all its lines. One with a second spelling is the first, because
// it says how to read that.
func (s *scrubbing) jobOf(f *scrub.File) *scrubJob {
	j := &job{}
	for _, text := range f.Lines {
		var line scrubLine
		_ = json.Unmarshal(text, &line) // list has written it
		x := expectation{string(line.Path), string(line.Literal), line.Digests, line.Size}
		p := s.tree.manifests[line.Manifest].part(0, x)
		if len(j.parts) == 0 || j.literal == "" && x.literal != "" {
			j.path, j.literal = x.path, x.literal
			j.parts = append([]*part{p}, j.parts...)
		} else {
			j.parts = append(j.parts, p)
		}
	}
	return &scrubJob{job: j, file: f}
}

// collectScrub counts, reports and records the result of a file.
func (s *scrubbing) collectScrub(j *scrubJob, done bool) {
	c := &s.summary.ScrubCounts
	if j.skipped {
		if j.file.Entry.Result != scrub.Good { // nothing has shown that it is right again
			c.Known++
			s.reportScrub(j, j.file.Entry.Result)
		}
		return
	}
	if !done {
		return
	}
	result := s.resultOf(j)
	c.Files++
	s.counters.Files.Add(1)
	s.summary.Bytes += j.bytes
	if j.cached {
		c.Cached++
	}
	s.reportScrub(j, result)
	entry := j.file.Entry.After(j.checked, result, j.info.Size, j.info.Mtime)
	err := s.schedule.Record(j.file.Path, entry)
	if now := s.opts.Now(); err == nil && !now.Before(s.nextSave) {
		_ = s.save() // save at the end reports an error that remains
		s.nextSave = now.Add(max(saveEvery, saveShare*s.opts.Now().Sub(now)))
	}
}

var errMoving = errors.New("it has changed while it was read")

// resultOf returns the result of a job, and moves the part that decides to the front.
func (s *scrubbing) resultOf(j *scrubJob) scrub.Result {
	result := scrub.Good
	for i, p := range j.parts {
		worse := result == scrub.Good
		switch {
		case p.verdict == Missing && worse:
			result = scrub.Missing
		case p.verdict == Unreadable && worse:
			result = scrub.Unreadable
		case p.verdict == Mismatch && worse && j.moving:
			p.err = errMoving
			result = scrub.Unreadable
		case p.verdict == Mismatch && worse:
			result = j.file.Entry.Differing(j.info.Size, j.info.Mtime)
		default:
			continue
		}
		j.parts[0], j.parts[i] = p, j.parts[0]
	}
	return result
}

var errKnown = errors.New("an earlier scrub could not read it, and the time was too short to try again")

var scrubVerdicts = [...]Verdict{
	scrub.Good: Match, scrub.Rotted: Rotted, scrub.Changed: Changed, scrub.Differs: Differs, scrub.Missing: Missing, scrub.Unreadable: Unreadable,
}

// reportScrub counts and reports a file.
func (s *scrubbing) reportScrub(j *scrubJob, result scrub.Result) {
	c, p := &s.summary.ScrubCounts, j.parts[0]
	count := [...]*int64{
		scrub.Good: &c.Matches, scrub.Rotted: &c.Rotted, scrub.Changed: &c.Changed, scrub.Differs: &c.Differs,
		scrub.Missing: &c.Missing, scrub.Unreadable: &c.Errors,
	}[result]
	*count++
	p.verdict = scrubVerdicts[result]
	if result == scrub.Unreadable && p.err == nil {
		p.err = errKnown
	}
	if result != scrub.Good || s.opts.Verbose {
		s.reportPart(p)
	}
}

// save writes the state.
func (s *scrubbing) save() error {
	err := s.state.Write(func(w io.Writer) (err error) {
		now := scrub.Clock(s.opts.Now())
		overdue := int64(0)
		if s.opts.MaxAge > 0 {
			overdue = now - int64(s.opts.MaxAge/time.Second)
		}
		s.stats, err = s.schedule.Write(w, s.now, now, overdue)
		return err
	})
	if err != nil {
		return fmt.Errorf("the state %s cannot be written, so the checks since its last write are forgotten: %w", quote.Name(s.opts.State), fsys.BareError(err))
	}
	return nil
}

// summarize completes the summary.
func (s *scrubbing) summarize() {
	t, c := s.summary, &s.summary.ScrubCounts
	t.Elapsed = s.opts.Now().Sub(s.begun)
	t.Manifests = s.run.summary.Manifests
	lines := &s.run.summary.Counts // results that are not about files of the schedule
	c.Listed, c.Due = s.schedule.Listed, s.schedule.Due
	c.Missing += lines.Missing
	c.Errors += lines.Errors
	c.New, c.Incomplete, c.Malformed, c.Warnings = lines.Unlisted, lines.Incomplete, lines.Malformed, lines.Warnings
	c.Never, c.Overdue = c.Listed-s.stats.Checked, s.stats.Overdue
	if s.stats.Oldest > 0 {
		t.Oldest = time.Unix(s.stats.Oldest, 0).UTC()
	}
	if s.stats.Sized > 0 {
		t.Total = int64(float64(s.stats.Bytes) / float64(s.stats.Sized) * float64(c.Listed))
	}
	switch {
	case c.Files == c.Listed:
		t.Runs = 1
	case c.Files == c.Due || t.Bytes == 0: // the time was not the limit
		return
	default:
		t.Runs = max((t.Total+t.Bytes-1)/t.Bytes, 2)
	}
	const longest = 366 * 24 * 3600 // seconds; with a longer pause or a clock that was wrong there is no pace
	if every := s.now - s.lastRun; s.lastRun > 0 && every > 0 && every <= longest && t.Runs < 1000 {
		t.Until = time.Unix(s.now+(t.Runs-1)*every, 0).UTC()
	}
}
