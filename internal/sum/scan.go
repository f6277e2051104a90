package sum

import (
	"context"
	"os"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// startScan adds up what there is to hash, ahead of the work, if anybody wants
// to know. stop ends it and waits for it.
func (r *run) startScan(ctx context.Context, args []argument) (stop func()) {
	c := r.counters
	if !c.CountTotals {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var scan sync.WaitGroup
	scan.Go(func() {
		for _, a := range args {
			if !a.isDir {
				if info, err := os.Stat(a.given); err == nil && a.given != "-" {
					c.TotalFiles.Add(1)
					counters.Grow(&c.TotalBytes, info.Size())
				}
				continue
			}
			counter := walk.Counter{Counters: c, Times: 1}
			o := walk.Options{Workers: 1, SkipReserved: func(*walk.Dir, string) {}, Found: counter.Found}
			if r.walk(ctx, r.handles[1], a, counter, o) != nil {
				return // the work will report it
			}
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
