package counters

import (
	"slices"
	"sync"
	"sync/atomic"
)

// workers are the workers of a run, which name the files that they have under way.
type workers struct {
	mu struct {
		sync.Mutex
		list []*Worker
	}
}

// Worker names the file that one goroutine has under way. Its methods may be called on nil
// and do nothing then.
type Worker struct {
	path atomic.Pointer[string]
}

// NewWorker returns a Worker for the calling goroutine, or nil if nothing shows it.
func (c *Set) NewWorker() *Worker {
	if !c.CountTotals {
		return nil
	}
	w := &Worker{}
	c.workers.mu.Lock()
	defer c.workers.mu.Unlock()
	c.workers.mu.list = append(c.workers.mu.list, w)
	return w
}

// Begin records that the file at path is under way.
func (w *Worker) Begin(path string) {
	if w != nil {
		shown := path // a variable of its own, so that nothing is allocated if w is nil
		w.path.Store(&shown)
	}
}

// End records that no file is under way.
func (w *Worker) End() {
	if w != nil {
		w.path.Store(nil)
	}
}

// Current returns the path of a file under way, nil if there is none. It is last, the
// result of an earlier call, for as long as that file is under way: the file that is shown
// does not change before it is done.
func (c *Set) Current(last *string) *string {
	c.workers.mu.Lock()
	defer c.workers.mu.Unlock()
	var paths []*string
	for _, w := range c.workers.mu.list {
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
