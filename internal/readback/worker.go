package readback

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// worker reads files one after the other on one device. It can open all trees, because the
// last worker of a job judges the files of all of them.
type worker struct {
	*run
	group      *group
	trees      []*fsys.Finder
	treePipes  []*pipe.Pipe
	source     *fsys.Finder // finder of source files; nil without a source
	sourcePipe *pipe.Pipe
	set        *hash.Set
	activity   *timing.Activity
	shown      *counters.Worker
}

func (r *run) newWorker(g *group, limit int) *worker {
	w := &worker{run: r, group: g, set: hash.NewSet(r.Hashes), activity: r.Sampler.Activity(), shown: r.Counters.NewWorker()}
	for _, t := range r.Trees {
		w.trees = append(w.trees, fsys.NewFinder(t.Root, limit))
		w.treePipes = append(w.treePipes, r.Pipe.Counting(&r.Counters.ReadBack.Bytes, &t.Counters.Bytes))
	}
	w.sourcePipe = r.Pipe.Counting(&r.Counters.ReadBack.Bytes, nil)
	if r.Source != nil {
		w.source = fsys.NewFinder(r.Source.Root, limit)
	}
	return w
}

func (w *worker) close() {
	for _, finder := range w.trees {
		finder.Close()
	}
	if w.source != nil {
		w.source.Close()
	}
}

func (w *worker) work() {
	for {
		var j *job
		var more bool
		select {
		case j, more = <-w.group.jobs:
		default:
			w.activity.At(timing.None) // another device still has files to read
			j, more = <-w.group.jobs
		}
		if !more {
			return
		}
		if w.ctx.Err() == nil {
			w.shown.Begin(j.path)
			w.do(j)
			w.shown.End()
		}
	}
}

func (w *worker) do(j *job) {
	for _, i := range w.group.trees {
		if j.files[i].digests != nil && !w.isGone(i) {
			w.activity.At(w.Trees[i].Place)
			w.readTree(i, j)
		}
	}
	if w.group.source {
		w.activity.At(timing.Source)
		w.readSource(j)
	}
	if j.left.Add(-1) == 0 && w.ctx.Err() == nil {
		w.judge(j)
	}
}

// readTree reads a file of a tree for judge.
func (w *worker) readTree(i int, j *job) {
	defer w.Trees[i].Counters.Files.Add(1)
	defer w.Counters.ReadBack.Files.Add(1)
	_, _, f, info, err := open(w.trees[i], j.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is not there any more")
	}
	if err != nil {
		w.fail(i, j.path, Unreadable, err)
		return
	}
	defer f.Close()
	have, cached, err := w.read(w.treePipes[i], f, info)
	got := &j.files[i]
	got.info, got.cached = info, cached
	switch {
	case w.ctx.Err() != nil:
	case err != nil:
		got.kind, got.bad = Unreadable, fmt.Errorf("reading it back: %w", err)
	default:
		got.kind, got.bad = Differs, w.differs("the device returned other data", have, got.digests)
		if got.good = got.bad == nil; got.good {
			w.update(i, func(t *Result) { t.count(1, cached) })
		}
	}
}

// differs returns the error for a file with the digests have, and nil if it matches its lines. The error
// names the first hash of which the digest differs.
func (w *worker) differs(what string, have, want hash.Digests) error {
	for i, a := range w.Hashes {
		if !bytes.Equal(have[i], want[i]) {
			return fmt.Errorf("%s: its %s is %s and should be %s", what, a, a.Text(have[i]), a.Text(want[i]))
		}
	}
	return nil
}

// fail reports a bad file of a tree that no manifest may list.
func (w *worker) fail(i int, path string, kind Kind, err error) {
	w.report(i, path, kind, err)
	w.update(i, func(t *Result) { t.Bad = append(t.Bad, path) })
}

// report reports a bad file of a tree.
func (w *worker) report(i int, path string, kind Kind, err error) {
	gone := w.Report(Finding{i, path, kind, err})
	w.update(i, func(t *Result) { t.Gone = t.Gone || gone })
}

// readSource reads the source's file for judge.
func (w *worker) readSource(j *job) {
	defer w.Counters.ReadBack.Files.Add(1)
	j.source.read = true
	path := j.path
	if w.Source.File != "" {
		path = w.Source.File
	}
	dir, name, f, info, err := open(w.source, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = failure.ErrVanished
	}
	if err != nil {
		w.failSource(j, Unreadable, err)
		return
	}
	defer f.Close()
	have, _, err := w.read(w.sourcePipe, f, info)
	if err != nil {
		w.failSource(j, Unreadable, err)
		return
	}
	now, err := dir.Lstat(name)
	j.source = sourceFile{true, have, info, err != nil || !now.SameState(info)}
}

func (w *worker) failSource(j *job, kind Kind, err error) {
	if w.ctx.Err() == nil {
		w.Report(Finding{TheSource, j.path, kind, err})
	}
}

// judge compares the files of a job with their lines, after all of them were read.
func (w *worker) judge(j *job) {
	for i := range j.files {
		if j.files[i].bad != nil && !w.isGone(i) {
			w.judgeBad(i, j)
		}
	}
	if j.source.digests != nil {
		w.judgeSource(j)
	}
}

// judgeBad reports a file of a tree that does not match its line. The file is renamed if this
// run wrote it, or if the source matches the line.
func (w *worker) judgeBad(i int, j *job) {
	f, t := &j.files[i], &w.Trees[i]
	w.moving.Lock()
	written := t.Written == nil || t.Written(j.path)
	w.moving.Unlock()
	if !written && w.Source != nil && !j.source.read {
		w.readSourceAlso(j)
	}
	switch {
	case !written && j.source.digests == nil:
		w.report(i, j.path, f.kind, fmt.Errorf("%w; it was left in place, because the source could not be read to decide whether the file or its line is right", f.bad))
	case !written && w.differs("", j.source.digests, f.digests) != nil:
		w.report(i, j.path, f.kind, fmt.Errorf("%w; the source differs from the line of the manifest, too, so the file was left in place", f.bad))
	default:
		dir, name, err := w.trees[i].Parent(j.path)
		if err != nil {
			w.fail(i, j.path, f.kind, f.bad)
			return
		}
		w.fail(i, j.path, f.kind, w.setAside(i, j.path, f.bad, dir, name, f.info))
	}
}

// readSourceAlso reads a file of the source that no group reads. The totals of the progress
// grow by that file.
func (w *worker) readSourceAlso(j *job) {
	w.Counters.ReadBack.TotalFiles.Add(1)
	w.activity.At(timing.Source)
	w.readSource(j)
	w.Counters.ReadBack.TotalBytes.Add(max(j.source.info.Size, 0))
}

// judgeSource reports, once, that the source differs from the line of trees whose own files
// match it. Nothing is renamed: those files are what their lines say.
func (w *worker) judgeSource(j *job) {
	var err error
	for i, f := range j.files {
		if !f.good {
			continue
		}
		differs := w.differs("the source, read again, differs from the line of the manifest", j.source.digests, f.digests)
		if differs == nil {
			continue
		}
		if changed, err := w.sourceChanged(i, j); err != nil {
			w.fail(i, j.path, Unreadable, err)
			continue
		} else if changed {
			w.failSource(j, Changed, errors.New("it has changed since it was copied"))
			return
		}
		w.update(i, func(t *Result) { t.count(-1, f.cached) })
		err = fmt.Errorf("%w; the copy matches that line and was left in place", differs)
	}
	if err != nil {
		w.failSource(j, Differs, err)
	}
}

// sourceChanged reports whether the source's file has changed since it was copied to a tree.
func (w *worker) sourceChanged(i int, j *job) (bool, error) {
	dir, name, err := w.trees[i].Parent(j.path)
	if err != nil {
		return false, err
	}
	there, err := dir.Lstat(name)
	return err == nil && (j.source.changed || w.Trees[i].SourceChanged(dir, there, j.source.info)), err
}

// open opens the regular file at path. dir stays open until the next call.
func open(finder *fsys.Finder, path string) (dir *fsys.Dir, name string, f *fsys.File, info fsys.Info, err error) {
	if dir, name, err = finder.Parent(path); err != nil {
		return nil, "", nil, info, err
	}
	if f, info, err = dir.Open(name); err == nil && info.Kind != fsys.Regular {
		f.Close()
		err = failure.ErrExchanged
	}
	return dir, name, f, info, err
}

// read returns the digests of a file. It reads the file from its device unless it has
// already read another name of it.
func (w *worker) read(p *pipe.Pipe, f *fsys.File, info fsys.Info) (digests hash.Digests, cached bool, err error) {
	read := false
	digests, cached, err = w.linked.get(info, func() (hash.Digests, bool, error) {
		read = true
		w.set.Reset()
		_, fromDevice, err := p.ReadBack(w.ctx, f, info, w.set, pipe.CacheDrop, w.activity)
		return w.set.Digests(), !fromDevice, err
	})
	if !read {
		p.Count(info.Size)
	}
	return digests, cached, err
}

// maxLinked limits the number of files with several names whose digests are remembered.
// Each name of further files is read. It bounds the memory: 200 bytes for each file.
const maxLinked = 1 << 18

// linkedDigests remembers the digests of files with several names, so that they are read
// once.
type linkedDigests struct {
	mu struct {
		sync.Mutex
		seen map[fsys.ID]*linkedDigest
	}
}

type linkedDigest struct {
	once    sync.Once
	digests hash.Digests
	cached  bool
	err     error
}

// get returns the digests that read returned for another name of the file, or calls read.
func (l *linkedDigests) get(info fsys.Info, read func() (hash.Digests, bool, error)) (digests hash.Digests, cached bool, err error) {
	if info.Nlink < 2 {
		return read()
	}
	l.mu.Lock()
	if l.mu.seen == nil {
		l.mu.seen = map[fsys.ID]*linkedDigest{}
	}
	d := l.mu.seen[info.ID]
	if d == nil {
		d = &linkedDigest{}
		if len(l.mu.seen) < maxLinked {
			l.mu.seen[info.ID] = d
		}
	}
	l.mu.Unlock()
	d.once.Do(func() { d.digests, d.cached, d.err = read() })
	return d.digests, d.cached, d.err
}
