package counters

import (
	"slices"
	"sync/atomic"
)

// Worker has the name of the file that one goroutine is working on. Its methods may be called
// on nil, and do nothing then.
type Worker struct {
	path atomic.Pointer[string]
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

// End records that the worker has ended its file.
func (w *Worker) End() {
	if w != nil {
		w.path.Store(nil)
	}
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
