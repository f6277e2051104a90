package readback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// worker reads files one after the other on one device.
type worker struct {
	*run
	ctx        context.Context //nolint:containedctx // a worker lives as long as the run
	group      *group
	trees      []*fsys.Finder // finders of all trees; a worker of a device uses those of its group
	treePipes  []*pipe.Pipe
	source     *fsys.Finder // finder of source files; nil without a source
	sourcePipe *pipe.Pipe
	set        *hash.Set
	activity   *timing.Activity
}

func (r *run) newWorker(ctx context.Context, g *group, limit int) *worker {
	w := &worker{run: r, ctx: ctx, group: g, set: hash.NewSet(r.Hashes), activity: r.Sampler.Activity()}
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

// do reads a path in the trees of the group, and in its source.
func (w *worker) do(p *entry) {
	defer w.activity.At(timing.None) // it may wait for the next path, because another device is slower
	for _, i := range w.group.trees {
		if p.files[i].digests != nil && !w.gone[i].Load() {
			w.activity.At(w.Trees[i].Place)
			w.readTree(i, p)
		}
	}
	if w.group.source {
		w.readSource(p)
	}
}

// readTree reads a file of a tree for the judge.
func (w *worker) readTree(i int, p *entry) {
	defer w.Trees[i].Counters.Files.Add(1)
	defer w.Counters.ReadBack.Files.Add(1)
	got := &p.files[i]
	_, _, f, info, err := open(w.trees[i], p.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is not there any more")
	}
	if err != nil {
		got.lost = err
		return
	}
	defer f.Close()
	have, cached, err := w.read(w.treePipes[i], f, info)
	got.info, got.cached = info, cached
	if err != nil {
		got.kind, got.bad = Unreadable, fmt.Errorf("reading it back: %w", err)
		return
	}
	got.kind, got.bad = Differs, w.differs("the device returned other data", have, got.digests)
	got.good = got.bad == nil
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

// readSource reads the source's file for the judge.
func (w *worker) readSource(p *entry) {
	defer w.Counters.ReadBack.Files.Add(1)
	w.activity.At(timing.Source)
	p.source.read = true
	at := p.path
	if w.Source.File != "" {
		at = w.Source.File
	}
	dir, name, f, info, err := open(w.source, at)
	if errors.Is(err, fs.ErrNotExist) {
		err = failure.ErrVanished
	}
	if err != nil {
		p.source.err = err
		return
	}
	defer f.Close()
	have, _, err := w.read(w.sourcePipe, f, info)
	if err != nil {
		p.source.err = err
		return
	}
	now, err := dir.Lstat(name)
	p.source = sourceFile{read: true, digests: have, info: info, changed: err != nil || !now.SameState(info)}
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
