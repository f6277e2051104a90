package readback

import (
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// worker reads files one after the other.
type worker struct {
	*run
	places   []place // the trees, and the source if there is one
	set      *hash.Set
	activity *timing.Activity
}

// place is a tree or the source.
type place struct {
	finder *fsys.Finder
	pipe   *pipe.Pipe
	device timing.Place
}

func (r *run) newWorker(limit int) *worker {
	w := &worker{run: r, set: hash.NewSet(r.Hashes), activity: r.Sampler.Activity()}
	bytes := &r.Counters.ReadBack.Bytes
	for _, t := range r.Trees {
		w.places = append(w.places, place{fsys.NewFinder(t.Root, limit), r.Pipe.Counting(bytes, &t.Counters.Bytes), t.Place})
	}
	if r.Source != nil {
		w.places = append(w.places, place{fsys.NewFinder(r.Source.Root, limit), r.Pipe.Counting(bytes, nil), timing.Source})
	}
	return w
}

func (w *worker) close() {
	for _, p := range w.places {
		p.finder.Close()
	}
}

// do reads the files of a job.
func (w *worker) do(j job) {
	for _, i := range j.places {
		if i != w.source && (j.files[i].listed == nil || w.gone[i].Load()) {
			continue
		}
		w.clocks[i].begin()
		w.read(j.entry, i)
		w.clocks[i].end()
		if i != w.source {
			w.Trees[i].Counters.Files.Add(1)
		}
	}
}

// content is a file that was read.
type content struct {
	read    bool // true if it was tried to read the file
	opened  bool // true if info describes the file
	err     error
	info    fsys.Info
	digests hash.Digests // digests of the file; nil if it cannot be read
	cached  bool         // true if perhaps memory and not the device was read
	changed bool         // true if the source's file has changed while it was read
}

// read reads the file of an entry in one place.
func (w *worker) read(e *entry, i int) {
	defer w.Counters.ReadBack.Files.Add(1)
	at, path, c := &w.places[i], e.path, &e.files[i].content
	// It is reset because the worker may wait for its next job while another device is slower.
	defer w.activity.At(w.activity.At(at.device))
	c.read = true
	if i == w.source && w.Source.File != "" {
		path = w.Source.File
	}
	var dir *fsys.Dir
	var name string
	if dir, name, c.err = at.finder.Parent(path); c.err != nil {
		return
	}
	var f *fsys.File
	if f, c.info, c.err = dir.Open(name); c.err != nil {
		return
	}
	defer f.Close()
	if c.info.Kind != fsys.Regular {
		c.err = failure.ErrExchanged
		return
	}
	c.opened = true
	if c.digests, c.cached, c.err = w.hash(at.pipe, f, c.info); c.err == nil && i == w.source {
		now, err := dir.Lstat(name)
		c.changed = err != nil || !now.SameState(c.info)
	}
}

// hash returns the digests of a file. It reads the file from its device unless it has
// already read another name of it.
func (w *worker) hash(p *pipe.Pipe, f *fsys.File, info fsys.Info) (digests hash.Digests, cached bool, err error) {
	read := false
	digests, cached, err = w.linked.get(info, func() (hash.Digests, bool, error) {
		read = true
		w.set.Reset()
		_, fromDevice, err := p.ReadBack(w.ctx, f, info, w.set, pipe.CacheDrop, w.activity)
		if err != nil {
			return nil, false, err
		}
		return w.set.Digests(), !fromDevice, nil
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
