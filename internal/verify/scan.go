package verify

import (
	"context"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// startScan adds up the sizes of the files to check, ahead of the work, if
// anybody wants to know. stop ends it and waits for it.
func (r *run) startScan(ctx context.Context) (stop func()) {
	c := r.counters
	if !c.CountTotals {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var scan sync.WaitGroup
	scan.Go(func() {
		for _, t := range r.trees {
			look := fsys.NewFinder(t.root, min(max(fsys.OpenLimit()/16, 1), 16))
			manifests := make([]*source, len(t.manifests)) // with a look ahead of their own
			for i, s := range t.manifests {
				manifests[i] = &source{tree: t, format: s.format, algorithm: s.algorithm, in: s.in, size: s.size, lines: s.lines}
			}
			for i, s := range manifests {
				_, _ = s.readLines(ctx, sideBySide(manifests[i+1:]), func(j *job) { // the check will report errors
					if info, err := look.Lstat(j.path); err == nil && info.Kind == fsys.Regular {
						counters.Grow(&c.TotalBytes, info.Size)
					}
				})
			}
			look.Close()
		}
		if ctx.Err() == nil {
			c.ScanDone.Store(true)
		}
	})
	return func() {
		cancel()
		scan.Wait()
	}
}
