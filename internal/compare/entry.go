package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// job is one name in the directories of all trees, or another report with a place in the
// order.
type job struct {
	number int64
	dir    *folder
	name   string
	kinds  []fsys.Kind // kind in each tree; Unknown where the entry does not exist
	group  *group      // the group that the job begins
	ends   *group      // the group that the job ends

	// The results.
	done     bool  // true if the run was not stopped before
	compared bool  // true if at least two trees were compared
	bytes    int64 // number of compared bytes of A
	size     int64 // size of a regular file, if needed
	mtime    fsys.Time
	cached   bool    // true if perhaps memory and not the device was read
	own      bool    // true for a manifest of Sealift that is not compared
	events   []Event // differences in the order of the trees
}

func (j *job) fail(tree int, path string, stage failure.Stage, err error) {
	j.events = append(j.events, Event{Verdict: Unreadable, Path: path, Trees: []int{tree}, Stage: stage, Err: err})
}

// isFileOfA reports whether the job has a regular file of A.
func (j *job) isFileOfA() bool { return j.ends == nil && j.kinds != nil && j.kinds[0] == fsys.Regular }

// worker compares one name after another.
type worker struct {
	run   *run
	lanes []*lane // one lane for each tree
}

func newWorker(r *run) *worker {
	w := &worker{run: r}
	for range r.trees {
		w.lanes = append(w.lanes, &lane{})
	}
	return w
}

// do compares the entry that j names.
func (w *worker) do(ctx context.Context, j *job) {
	if j.kinds == nil || j.ends != nil {
		return // there is only an event to report
	}
	w.examine(ctx, j)
	if w.run.opts.Verbose && len(j.events) == 0 && j.compared {
		j.events = append(j.events, Event{Verdict: Equal})
	}
	if len(j.events) == 0 {
		return
	}
	path := j.dir.join(j.name)
	if j.kinds[0] == fsys.Directory {
		path += "/"
	}
	for k := range j.events {
		e := &j.events[k]
		if e.Path = path; e.Verdict == OnlyIn {
			e.Bytes = j.size
		}
	}
}

// examine checks which trees have the entry, and compares it between them.
func (w *worker) examine(ctx context.Context, j *job) {
	var have, same []int // trees; same: A and the trees whose entry is equal to A's
	for _, i := range j.dir.trees {
		if j.kinds[i] == fsys.Unknown {
			continue
		}
		have = append(have, i)
		if j.kinds[i] == j.kinds[0] {
			same = append(same, i)
		}
	}
	isDir := j.kinds[have[0]] == fsys.Directory
	if j.dir.counts() || len(same) < 2 {
		w.measure(j, have[0])
	}
	if j.dir.counts() {
		return
	}
	if j.kinds[0] == fsys.Unknown || j.dir.parent == nil && isTreeManifest(j.name) {
		others := w.withoutManifests(j, have)
		if j.own = len(others) == 0; j.own {
			if len(same) > 1 {
				w.measure(j, 0)
			}
			return
		}
		if j.kinds[0] == fsys.Unknown {
			have = others
		}
	}
	if j.kinds[0] == fsys.Unknown {
		if !isDir { // a directory is reported as a group
			j.events = append(j.events, Event{Verdict: OnlyIn, Trees: have})
		}
		return
	}
	if len(have) < len(j.dir.trees) && !isDir {
		j.events = append(j.events, Event{Verdict: OnlyIn, Trees: same})
	}
	for _, i := range have {
		if j.kinds[i] != j.kinds[0] {
			j.events = append(j.events, Event{Verdict: TypeDiffers, Trees: []int{i}, Reason: fmt.Sprintf("%s in A, %s in %s", j.kinds[0], j.kinds[i], Letter(i))})
		}
	}
	if len(same) > 1 {
		w.compare(ctx, j, same)
	}
}

// measure records the size of a regular file that exists in one tree only. If that tree is
// A, its bytes count as progress.
func (w *worker) measure(j *job, tree int) {
	if j.kinds[tree] != fsys.Regular {
		return
	}
	if dir, err := j.dir.handles[tree].Acquire(); err == nil { // an error does not affect the comparison
		if info, err := dir.Lstat(j.name); err == nil {
			j.size, j.mtime = info.Size, info.Mtime
		}
		j.dir.handles[tree].Release()
	}
	if tree == 0 {
		w.progress(j.size)
	}
}

// progress counts bytes of A that need not be read.
func (w *worker) progress(n int64) {
	if !w.run.opts.Quick {
		w.run.pipe.Count(n)
	}
}

// side is the entry in one tree.
type side struct {
	tree    int
	info    fsys.Info
	target  string        // target of a symbolic link
	file    *fsys.File    // a regular file whose content is compared; else nil
	object  *fsys.Object  // object for reading the metadata; nil if Options.Metadata is off
	close   func()        // closes file or object; may be nil
	reading *pipe.Reading // the reading of file

	dataEnd int64    // an offset in file; there is no hole before it
	differs bool     // true if the entry differs from A's
	why     []string // reasons for differs
	meta    []string // metadata that differs from A's
	failed  bool     // true after the report of a failure
}

// compare compares the entry in A, the first of the trees, with the entry in the others.
// All have the same type.
func (w *worker) compare(ctx context.Context, j *job, trees []int) {
	sides := make([]*side, 0, len(trees))
	defer func() {
		for _, s := range sides {
			if s.close != nil {
				s.close()
			}
		}
	}()
	kind := j.kinds[0]
	for _, i := range trees {
		s := &side{tree: i}
		stage, err := w.open(j, s)
		if err == nil && s.info.Kind != kind {
			stage, err = failure.StageCheck, fmt.Errorf("it is a %s now, and was a %s", s.info.Kind, kind)
		}
		sides = append(sides, s)
		if err != nil {
			w.failed(j, s, stage, err)
			if i == 0 {
				return
			}
		}
	}
	a, others := sides[0], sides[1:]
	j.size, j.mtime = a.info.Size, a.info.Mtime
	for _, s := range others {
		if s.failed {
			continue
		}
		w.inspect(a, s)
		if w.run.opts.Metadata {
			w.compareMetadata(j, a, s)
		}
	}
	if kind == fsys.Regular && !w.run.opts.Quick && !w.content(ctx, j, a, others) {
		return
	}
	for _, s := range others {
		if s.failed {
			continue
		}
		j.compared = true
		why := strings.Join(append(s.why, s.meta...), "; ")
		switch {
		case s.differs:
			j.events = append(j.events, Event{Verdict: Differs, Trees: []int{s.tree}, Reason: why})
		case why != "":
			j.events = append(j.events, Event{Verdict: MetadataDiffers, Trees: []int{s.tree}, Reason: why})
		}
	}
}

func (w *worker) failed(j *job, s *side, stage failure.Stage, err error) {
	s.failed = true
	j.fail(s.tree, "", stage, err)
}

// open describes the entry in one tree, and opens the objects that the comparison needs.
func (w *worker) open(j *job, s *side) (failure.Stage, error) {
	h := j.dir.handles[s.tree]
	dir, err := h.Acquire()
	if err != nil {
		return failure.StageScan, err
	}
	defer h.Release()
	kind, o := j.kinds[0], w.run.opts
	switch {
	case kind == fsys.Regular && !o.Quick:
		if s.file, s.info, err = dir.OpenRegular(j.name); err != nil {
			return failure.StageOpen, err
		}
		s.close = s.file.Close
		s.object = &s.file.Object
	case o.Metadata:
		if s.object, err = dir.OpenObject(j.name); err != nil {
			return failure.StageOpen, err
		}
		s.close = s.object.Close
		s.info, err = s.object.Stat()
	case kind == fsys.Directory, kind == fsys.Fifo, kind == fsys.Socket:
		s.info.Kind = kind // no other field is compared
	default:
		s.info, err = dir.Lstat(j.name)
	}
	if err == nil && s.info.Kind == fsys.Symlink {
		s.target, err = dir.Readlink(j.name)
	}
	if err != nil {
		return failure.StageScan, err
	}
	return "", nil
}

// inspect compares everything but content.
func (w *worker) inspect(a, s *side) {
	differs := func(format string, args ...any) {
		s.differs = true
		s.why = append(s.why, fmt.Sprintf(format, args...))
	}
	at := Letter(s.tree)
	quick := w.run.opts.Quick && a.info.Kind == fsys.Regular
	switch {
	case a.info.Kind == fsys.Symlink && a.target != s.target:
		differs("link to %s in A, to %s in %s", quote.Name(a.target), quote.Name(s.target), at)
	case (a.info.Kind == fsys.CharDevice || a.info.Kind == fsys.BlockDevice) && a.info.Rdev != s.info.Rdev:
		differs("device number %#x in A, %#x in %s", a.info.Rdev, s.info.Rdev, at)
	case a.info.Kind == fsys.Regular && a.info.Size != s.info.Size:
		differs("%d bytes in A, %d in %s", a.info.Size, s.info.Size, at)
	case quick && !sameTime(a.info, s.info):
		differs("modified %s", times(a.info.Mtime, s.info.Mtime, at))
	}
}

var errChanged = errors.New("it changed while it was read")

// content compares the content of regular files. It reports whether A's content could be
// read.
func (w *worker) content(ctx context.Context, j *job, a *side, others []*side) bool {
	files := []*side{a}
	for _, s := range others {
		if !s.failed && !s.differs {
			files = append(files, s)
		}
	}
	read := len(files) > 1 // otherwise the sizes have decided
	if read {
		for _, s := range files {
			var err error
			s.reading, err = pipe.StartReading(s.file, w.run.opts.Cache, pipe.DefaultBlockSize%fsys.DirectAlignment == 0)
			if err != nil {
				w.failed(j, s, failure.StageRead, err)
			}
		}
		if a.failed {
			return false
		}
		n := w.contents(ctx, j, files)
		j.bytes = n
		if ctx.Err() == nil {
			w.progress(max(a.info.Size-n, 0))
		}
		for _, s := range files {
			j.cached = j.cached || w.run.opts.Cache != pipe.CacheKeep && s.reading != nil && !s.reading.FromDevice
		}
	} else {
		w.progress(a.info.Size)
	}
	if ctx.Err() != nil {
		return false
	}
	for _, s := range append([]*side{a}, others...) {
		if s.failed {
			continue
		}
		now, err := s.file.Stat()
		switch {
		case err != nil:
			w.failed(j, s, failure.StageRead, err)
		case !now.SameState(s.info):
			w.failed(j, s, failure.StageCheck, errChanged)
		}
	}
	return !a.failed
}
