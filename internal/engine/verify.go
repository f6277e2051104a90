package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// A reading is a file that is read back, at the source and at the destinations.
type reading struct {
	path    string // as the manifests list it
	targets []*target
	digests [][]byte // of the one read, for each of the targets
	cached  []bool   // for each of the targets: what was read back perhaps came from memory
}

// verification reads back what the manifests of this run are going to list.
type verification struct {
	run       *run
	algorithm hash.Algorithm
	source    *fsys.Dir // nil without VerifyFull
	sets      sync.Pool // of *hash.Set
	counts    map[*target]*verified
	linked    linkedDigests
	moving    sync.Mutex // held while a bad file is moved: its directory is changed and restored
	ctx       context.Context
}

// verified is what was found out about one destination.
type verified struct {
	files  atomic.Int64
	cached atomic.Int64
	mu     sync.Mutex
	bad    []string // paths that must not be listed
	failed atomic.Bool
}

func (v *verified) drop(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bad = append(v.bad, path)
}

// verify reads back everything at the given destinations, on which all of it is
// durable, and takes what is not what was read out of the manifests.
func (r *run) verify(targets []*target) {
	var listing []*target
	for _, t := range targets {
		if t.catalog.Lists() {
			listing = append(listing, t)
		}
	}
	if len(listing) == 0 {
		return
	}
	r.counters.TotalBytes.Store(counters.Plus(r.counters.Bytes.Load(), r.toVerify)) // known exactly now
	r.counters.Phase.Store(int32(counters.PhaseVerifying))
	v := &verification{run: r, algorithm: r.opts.Hashes[0], counts: map[*target]*verified{}}
	ctx, cancel := context.WithCancel(r.outer)
	defer cancel()
	v.ctx = ctx
	defer context.AfterFunc(r.ctx, func() { // as at the first failure, if that is asked for
		if r.stopped() {
			cancel()
		}
	})()
	v.sets.New = func() any { return hash.NewSet([]hash.Algorithm{v.algorithm}) }
	for _, t := range listing {
		v.counts[t] = &verified{}
	}
	if r.opts.Verify == VerifyFull {
		var err error // the copy has closed it
		if v.source, _, err = r.route.OpenSource(); err != nil {
			r.report(Event{Kind: EventFailed, Err: &failure.FileError{Stage: failure.StageVerify, Err: err}})
		} else {
			defer v.source.Close()
		}
	}
	v.readAll(listing)
	r.sync()
	for _, t := range listing {
		c := v.counts[t]
		t.verified, t.cached = c.files.Load(), c.cached.Load()
		for _, path := range c.bad {
			t.catalog.Drop(path)
		}
		if c.failed.Load() {
			t.catalog.Fail(errors.New("the destination could not be read back"))
		}
	}
}

// readAll hands the files to workers, in the order of the manifests.
func (v *verification) readAll(targets []*target) {
	jobs := make(chan reading, v.run.opts.Workers)
	var workers sync.WaitGroup
	for range v.run.opts.Workers {
		workers.Go(func() {
			w := v.newReader()
			defer w.close()
			for job := range jobs {
				if !v.run.stopped() {
					w.verify(job)
				}
			}
		})
	}
	for job := range v.readings(targets) {
		if v.run.stopped() {
			break
		}
		jobs <- job
	}
	close(jobs)
	workers.Wait()
}

// readings merges what the targets' manifests will list because of this run.
func (v *verification) readings(targets []*target) iter.Seq[reading] {
	type entry struct {
		path   string
		digest []byte
	}
	return func(yield func(reading) bool) {
		type head struct {
			target *target
			entry  entry
			ok     bool
			next   func() (entry, bool)
		}
		var heads []*head
		for _, t := range targets {
			next, stop := iter.Pull(func(yield func(entry) bool) {
				err := t.catalog.Each(func(path string, digest []byte) error {
					if !yield(entry{path, bytes.Clone(digest)}) {
						return errStopped
					}
					return nil
				})
				if err != nil && !errors.Is(err, errStopped) {
					t.catalog.Fail(err) // no manifest is written then
				}
			})
			defer stop()
			h := &head{target: t, next: next}
			h.entry, h.ok = next()
			heads = append(heads, h)
		}
		for {
			var least *head
			for _, h := range heads {
				if h.ok && (least == nil || h.entry.path < least.entry.path) {
					least = h
				}
			}
			if least == nil {
				return
			}
			job := reading{path: least.entry.path}
			for _, h := range heads {
				if h.ok && h.entry.path == job.path {
					job.targets = append(job.targets, h.target)
					job.digests = append(job.digests, h.entry.digest)
					h.entry, h.ok = h.next()
				}
			}
			if !yield(job) {
				return
			}
		}
	}
}

var errStopped = errors.New("stopped")

// reader is one worker's way to the trees.
type reader struct {
	*verification
	source  *fsys.Finder
	targets map[*target]*fsys.Finder
	clock   *timing.Clock
}

func (v *verification) newReader() *reader {
	w := &reader{verification: v, targets: map[*target]*fsys.Finder{}, clock: v.run.sheet.Clock()}
	limit := max(fsys.OpenLimit()/4/v.run.opts.Workers/(len(v.counts)+1), 1)
	for t := range v.counts {
		w.targets[t] = fsys.NewFinder(t.root, limit)
	}
	if v.source != nil {
		w.source = fsys.NewFinder(v.source, limit)
	}
	return w
}

func (w *reader) close() {
	w.clock.Stop()
	for _, look := range w.targets {
		look.Close()
	}
	if w.source != nil {
		w.source.Close()
	}
}

// verify reads one file back wherever it stands.
func (w *reader) verify(job reading) {
	job.cached = make([]bool, len(job.targets))
	for i, t := range job.targets {
		good := false
		w.clock.At(timing.Read, t.place())
		if c := w.counts[t]; !c.failed.Load() {
			good, job.cached[i] = w.readTarget(t, c, job.path, job.digests[i])
		}
		if !good {
			job.targets[i] = nil
		}
	}
	if w.source != nil {
		w.clock.At(timing.Read, timing.Source)
		w.readSource(job)
	}
}

// shown is how events name a file: as in the source.
func (v *verification) shown(path string) string {
	if v.run.route.Name != "" {
		return v.run.route.Name
	}
	return path
}

// failTarget tells that a file at a destination cannot be read back, and takes it
// out of the manifests. Nothing more is read where the destination as a whole is
// gone.
func (w *reader) failTarget(t *target, path string, err error) {
	c := w.counts[t]
	c.drop(path)
	gone, err := t.isGone(err)
	if gone {
		c.failed.Store(true)
		if !t.isDropped() {
			t.drop(w.run, w.shown(path), err)
			return
		}
	}
	w.run.report(Event{
		Kind: EventFailed, Path: w.shown(path), Target: t.Given,
		Err: &failure.FileError{Path: w.shown(path), Target: t.Given, Stage: failure.StageVerify, Err: err},
	})
}

// readTarget reports whether the file at a destination is what was read. If
// not, it is told and moved out of the way.
func (w *reader) readTarget(t *target, c *verified, path string, digest []byte) (good, cached bool) {
	r := w.run
	dir, name, f, info, err := openForReading(w.targets[t], path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is not there any more")
	}
	if err != nil {
		w.failTarget(t, path, err)
		return false, false
	}
	defer f.Close()
	have, cached, err := w.readBack(f, info, t.place())
	switch {
	case r.stopped():
		return false, false
	case err != nil:
		w.failTarget(t, path, w.setAside(fmt.Errorf("reading it back: %w", err), dir, name, info))
		return false, false
	case bytes.Equal(have, digest):
		c.files.Add(1)
		if cached {
			c.cached.Add(1)
		}
		return true, cached
	}
	err = fmt.Errorf("what is there is not what was written: its %s is %s and should be %s",
		w.algorithm, w.algorithm.Text(have), w.algorithm.Text(digest))
	c.drop(path)
	r.mismatch(t, w.shown(path), w.setAside(err, dir, name, info))
	return false, false
}

// openForReading opens the regular file at path. dir is open until the next path
// is looked for.
func openForReading(look *fsys.Finder, path string) (dir *fsys.Dir, name string, f *fsys.File, info fsys.Info, err error) {
	if dir, name, err = look.Parent(path); err != nil {
		return nil, "", nil, info, err
	}
	if f, info, err = dir.Open(name); err == nil && info.Kind != fsys.Regular {
		f.Close()
		err = errExchanged
	}
	return dir, name, f, info, err
}

// readBack returns the digest of a file, which is read from its device unless
// another name of it was.
func (w *reader) readBack(f *fsys.File, info fsys.Info, place timing.Place) (digest []byte, cached bool, err error) {
	read := false
	digest, cached, err = w.linked.get(info, func() ([]byte, bool, error) {
		read = true
		return w.digest(f, info, place)
	})
	if !read {
		counters.Grow(&w.run.counters.Bytes, info.Size)
	}
	return digest, cached, err
}

// digest reads a file from its device.
func (w *reader) digest(f *fsys.File, info fsys.Info, place timing.Place) (digest []byte, cached bool, err error) {
	set := w.sets.Get().(*hash.Set)
	defer w.sets.Put(set)
	set.Reset()
	_, fromDevice, err := w.run.pipe.ReadBack(w.ctx, f, info, set, pipe.CacheDrop, w.clock, place)
	return set.Digests()[0], !fromDevice, err
}

func (r *run) mismatch(t *target, path string, err error) {
	given := ""
	if t != nil {
		given = t.Given
	}
	r.report(Event{
		Kind: EventMismatch, Path: path, Target: given,
		Err: &failure.FileError{Path: path, Target: given, Stage: failure.StageVerify, Err: err},
	})
}

// setAside moves a bad file out of the way and adds to the error where it is.
func (v *verification) setAside(err error, dir *fsys.Dir, name string, info fsys.Info) error {
	v.moving.Lock()
	bad, moveErr := setAside(dir, name, info)
	v.moving.Unlock()
	switch {
	case bad == "":
		return fmt.Errorf("%w; it could not be moved out of the way: %w", err, moveErr)
	case moveErr != nil:
		return fmt.Errorf("%w; it is called %s now, but its directory is not as it was: %w", err, quoteName(bad), moveErr)
	}
	return fmt.Errorf("%w; it is called %s now", err, quoteName(bad))
}

// badPrefix begins the names of files that are not what was read.
const badPrefix = fsys.Reserved + "bad-"

// setAside gives a bad file a name that nobody takes for the file, in the same
// directory, whose times and mode stay as they are.
func setAside(dir *fsys.Dir, name string, info fsys.Info) (bad string, err error) {
	now, err := dir.Lstat(name)
	if err == nil && now.ID != info.ID {
		err = errExchanged
	}
	if err != nil {
		return "", err
	}
	before, err := dir.Stat()
	if err != nil {
		return "", err
	}
	rename := func() (err error) {
		for try := 0; try < 100; try++ {
			if bad = badPrefix + name; try > 0 || len(bad) > fsys.MaxName {
				bad = badPrefix + fsys.TempName()[len(fsys.Reserved):] + "-" + name
				bad = bad[:min(len(bad), fsys.MaxName)]
			}
			if err = dir.RenameNew(name, bad); !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		return err
	}
	err = rename()
	if err != nil && (errors.Is(err, fs.ErrPermission) || fsys.NotPermitted(err)) && dir.Chmod(before.Mode|0o700) == nil {
		err = rename()
		if back := dir.Chmod(before.Mode); err == nil && back != nil {
			return bad, back
		}
	}
	if err != nil {
		return "", err
	}
	if err := ignoreRefusal(dir.SetTimes(before.Atime, before.Mtime, before.Btime)); err != nil {
		return bad, err
	}
	return bad, dir.Sync()
}

// readSource reads the source's file again. What differs from the one read
// without having been changed is wrong somewhere, and nobody knows where.
func (w *reader) readSource(job reading) {
	r := w.run
	path := w.shown(job.path)
	fail := func(stage failure.Stage, err error) {
		if !r.stopped() {
			r.report(Event{Kind: EventFailed, Path: path, Err: &failure.FileError{Path: path, Stage: stage, Err: err}})
		}
	}
	dir, name, f, info, err := openForReading(w.source, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errVanished
	}
	if err != nil {
		fail(failure.StageVerify, err)
		return
	}
	defer f.Close()
	have, _, err := w.readBack(f, info, timing.Source)
	if err != nil {
		fail(failure.StageVerify, err)
		return
	}
	now, err := dir.Lstat(name)
	changed := err != nil || !sameState(now, info)
	for i, t := range job.targets {
		if t == nil || bytes.Equal(have, job.digests[i]) {
			continue
		}
		there, theirs, stands, err := w.standing(t, job.path)
		if err != nil {
			w.failTarget(t, job.path, err)
			continue
		}
		if changed || w.changedSince(t, there, info, stands) {
			fail(failure.StageCheck, errors.New("it has changed since it was copied"))
			return
		}
		c := w.counts[t]
		c.drop(job.path)
		c.files.Add(-1)
		if job.cached[i] {
			c.cached.Add(-1)
		}
		r.mismatch(t, path, w.setAside(errors.New("the source, read again, is not what was copied"), there, theirs, stands))
	}
}

// standing describes the file at a destination.
func (w *reader) standing(t *target, path string) (dir *fsys.Dir, name string, info fsys.Info, err error) {
	if dir, name, err = w.targets[t].Parent(path); err == nil {
		info, err = dir.Lstat(name)
	}
	return dir, name, info, err
}

// changedSince reports whether the source's file has been changed since it was
// copied, going by its times or, where those are not kept, by the run's.
func (w *reader) changedSince(t *target, dir *fsys.Dir, source, stands fsys.Info) bool {
	if stands.Size != source.Size {
		return true
	}
	if w.run.opts.Preserve&PreserveTimes != 0 {
		return !t.fileSystems.of(dir).sameTime(stands.Mtime, source.Mtime)
	}
	return source.Mtime.Compare(w.run.begun) >= 0
}

// maxLinked is how many files with several names are remembered; the names of
// others are read each. It bounds the memory, 200 bytes a file.
const maxLinked = 1 << 18

// linkedDigests remembers what files with several names hold, so that they are
// read once.
type linkedDigests struct {
	mu   sync.Mutex
	seen map[fsys.ID]*linkedDigest
}

type linkedDigest struct {
	once   sync.Once
	digest []byte
	cached bool
	err    error
}

// get returns what read does, or has returned for another name of the file.
func (l *linkedDigests) get(info fsys.Info, read func() ([]byte, bool, error)) (digest []byte, cached bool, err error) {
	if info.Nlink < 2 {
		return read()
	}
	l.mu.Lock()
	if l.seen == nil {
		l.seen = map[fsys.ID]*linkedDigest{}
	}
	d := l.seen[info.ID]
	if d == nil {
		d = &linkedDigest{}
		if len(l.seen) < maxLinked {
			l.seen[info.ID] = d
		}
	}
	l.mu.Unlock()
	d.once.Do(func() { d.digest, d.cached, d.err = read() })
	return d.digest, d.cached, d.err
}
