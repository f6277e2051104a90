package engine

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// This file divides the descriptors that the process may open among workers and trees.

// fitDescriptors reduces the number of workers to what the limit of open files allows.
// Each worker has a file and a directory open in every tree, and one more descriptor.
func (o *Options) fitDescriptors(limit int) error {
	trees := 1 + len(o.Targets)
	least := o.leastDescriptors()
	if limit < least {
		return failure.Refuse("the copy needs %d open files, and the limit is %d; raise it with ulimit -n %[1]d", least, limit)
	}
	each := 2*trees + 1
	if o.BackupDir != "" { // a directory and its parent
		each += 2 * len(o.Targets)
	}
	o.Workers = min(o.Workers, max((limit-least)/each, 1))
	return nil
}

// leastDescriptors is how many descriptors a run with one worker needs: for logs, manifests
// (of the source too, one for each hash), temporaries, directories, and the runtime.
func (o *Options) leastDescriptors() int {
	targets, further := len(o.Targets), max(len(o.Hashes)-1, 0)
	return 20 + 10*targets + (1+targets)*further
}

// minHandles is the smallest budget of one tree; leastDescriptors includes it.
const minHandles = 4

// newHandles makes the handles of one tree: the source, the scan ahead of it, or
// a destination. The budgets are separate: with a shared one, two trees would close
// each other's handles again and again on the way up from a deep directory.
func (r *reporter) newHandles() *fsys.Handles {
	targets := len(r.route.Destinations)
	rest := fsys.OpenLimit() - r.opts.leastDescriptors() - r.opts.Workers*(1+targets)
	if r.opts.BackupDir != "" {
		rest -= 2 * r.opts.Workers * targets
	}
	return fsys.NewHandles(min(max(rest/(2+targets), minHandles), 256))
}

// walkers is how many goroutines list directories for a number of workers.
func walkers(workers int) int { return min(workers, 4) }
