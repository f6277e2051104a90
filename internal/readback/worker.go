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
// last worker of a job compares the source with each of them.
type worker struct {
	*run
	group      *group
	trees      []*fsys.Finder
	treePipes  []*pipe.Pipe
	source     *fsys.Finder // nil without a source
	sourcePipe *pipe.Pipe
	set        *hash.Set
	clock      *timing.Clock
	shown      *counters.Worker
}

func (r *run) newWorker(g *group, limit int) *worker {
	w := &worker{run: r, group: g, set: hash.NewSet([]hash.Algorithm{r.Algorithm}), clock: r.Sheet.Clock(), shown: r.Counters.NewWorker()}
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
	w.clock.Stop()
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
			w.clock.At(timing.Idle, timing.None) // another device still has files to read
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
		if j.files[i].digest != nil && !w.isGone(i) {
			w.clock.At(timing.Read, w.Trees[i].Place)
			w.readTree(i, j)
		}
	}
	if w.group.source {
		w.clock.At(timing.Read, timing.Source)
		w.readSource(j)
	}
	if j.left.Add(-1) == 0 && j.source.digest != nil {
		w.compareSource(j)
	}
}

// readTree reads a file of a tree. A bad one is renamed and reported.
func (w *worker) readTree(i int, j *job) {
	defer w.Trees[i].Counters.Files.Add(1)
	defer w.Counters.ReadBack.Files.Add(1)
	dir, name, f, info, err := open(w.trees[i], j.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is not there any more")
	}
	if err != nil {
		w.fail(i, j.path, Unreadable, err)
		return
	}
	defer f.Close()
	have, cached, err := w.read(w.treePipes[i], f, info, w.Trees[i].Place)
	want := j.files[i].digest
	switch {
	case w.ctx.Err() != nil:
	case err != nil:
		w.fail(i, j.path, Unreadable, w.setAside(i, j.path, fmt.Errorf("reading it back: %w", err), dir, name, info))
	case bytes.Equal(have, want):
		j.files[i].good, j.files[i].cached = true, cached
		w.update(i, func(t *Result) { t.count(1, cached) })
	default:
		err = fmt.Errorf("what is there is not what was written: its %s is %s and should be %s",
			w.Algorithm, w.Algorithm.Text(have), w.Algorithm.Text(want))
		w.fail(i, j.path, Differs, w.setAside(i, j.path, err, dir, name, info))
	}
}

// fail reports a bad file of a tree.
func (w *worker) fail(i int, path string, kind Kind, err error) {
	gone := w.Report(Finding{i, path, kind, err})
	w.update(i, func(t *Result) { t.Bad, t.Gone = append(t.Bad, path), t.Gone || gone })
}

// readSource reads the source's file for compareSource.
func (w *worker) readSource(j *job) {
	defer w.Counters.ReadBack.Files.Add(1)
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
	have, _, err := w.read(w.sourcePipe, f, info, timing.Source)
	if err != nil {
		w.failSource(j, Unreadable, err)
		return
	}
	now, err := dir.Lstat(name)
	j.source = sourceFile{have, info, err != nil || !now.SameState(info)}
}

func (w *worker) failSource(j *job, kind Kind, err error) {
	if w.ctx.Err() == nil {
		w.Report(Finding{TheSource, j.path, kind, err})
	}
}

// compareSource compares the source with the trees. If an unchanged source file has another
// digest than during the copy, either that reading or this one was wrong. It is unknown
// which one.
func (w *worker) compareSource(j *job) {
	for i, f := range j.files {
		if !f.good || bytes.Equal(j.source.digest, f.digest) {
			continue
		}
		dir, name, err := w.trees[i].Parent(j.path)
		var there fsys.Info
		if err == nil {
			there, err = dir.Lstat(name)
		}
		if err != nil {
			w.fail(i, j.path, Unreadable, err)
			continue
		}
		if j.source.changed || w.Trees[i].SourceChanged(dir, there, j.source.info) {
			w.failSource(j, Changed, errors.New("it has changed since it was copied"))
			return
		}
		w.update(i, func(t *Result) { t.count(-1, f.cached) })
		err = errors.New("the source, read again, is not what was copied")
		w.fail(i, j.path, Differs, w.setAside(i, j.path, err, dir, name, there))
	}
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

// read returns the digest of a file. It reads the file from its device unless it has
// already read another name of it.
func (w *worker) read(p *pipe.Pipe, f *fsys.File, info fsys.Info, place timing.Place) (digest []byte, cached bool, err error) {
	read := false
	digest, cached, err = w.linked.get(info, func() ([]byte, bool, error) {
		read = true
		w.set.Reset()
		_, fromDevice, err := p.ReadBack(w.ctx, f, info, w.set, pipe.CacheDrop, w.clock, place)
		return w.set.Digests()[0], !fromDevice, err
	})
	if !read {
		p.Count(info.Size)
	}
	return digest, cached, err
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
	once   sync.Once
	digest []byte
	cached bool
	err    error
}

// get returns the digest that read returned for another name of the file, or calls read.
func (l *linkedDigests) get(info fsys.Info, read func() ([]byte, bool, error)) (digest []byte, cached bool, err error) {
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
	d.once.Do(func() { d.digest, d.cached, d.err = read() })
	return d.digest, d.cached, d.err
}
