package counters

import (
	"slices"
	"sync/atomic"
)

// Worker has the name of the file that one goroutine is working on, and how far it is. Its methods may be
// called on nil, and do nothing then.
type Worker struct {
	path     atomic.Pointer[string]
	at, size atomic.Int64
}

// Running is a file in flight of which the first At of Size bytes are read.
type Running struct {
	Path     string
	At, Size int64
}

// NewWorker returns a Worker for the calling goroutine, or nil if the names are not shown.
func (c *Set) NewWorker() *Worker {
	if !c.CountTotals {
		return nil
	}
	w := &Worker{}
	c.workers.Lock()
	defer c.workers.Unlock()
	c.workers.list = append(c.workers.list, w)
	return w
}

// Begin records that the worker begins with the file at path.
func (w *Worker) Begin(path string) {
	if w != nil {
		shown := path // a variable of its own, so that nothing is allocated if w is nil
		w.path.Store(&shown)
	}
}

// Reached records that the first at bytes of the worker's file are read, which has size bytes.
func (w *Worker) Reached(at, size int64) {
	if w != nil {
		w.at.Store(at)
		w.size.Store(size)
	}
}

// End records that the worker has ended its file.
func (w *Worker) End() {
	if w != nil {
		w.size.Store(0)
		w.path.Store(nil)
	}
}

// Running returns the files in flight for which Reached was called.
func (c *Set) Running() (list []Running) {
	c.workers.Lock()
	defer c.workers.Unlock()
	for _, w := range c.workers.list {
		path, at, size := w.path.Load(), w.at.Load(), w.size.Load()
		if path != nil && size > 0 && w.path.Load() == path { // otherwise the worker has begun the next file meanwhile
			list = append(list, Running{*path, at, size})
		}
	}
	return list
}

// Current returns the path of a file in flight, nil if there is none. last is the result of
// the previous call: Current returns it until that file is done, so that the display does not
// change too often.
func (c *Set) Current(last *string) *string {
	c.workers.Lock()
	defer c.workers.Unlock()
	var paths []*string
	for _, w := range c.workers.list {
		if path := w.path.Load(); path != nil {
			paths = append(paths, path)
		}
	}
	switch {
	case len(paths) == 0:
		return nil
	case slices.Contains(paths, last):
		return last
	}
	return paths[0]
}
