package counters

import (
	"context"
	"sync"
)

// CountAhead calls count in a goroutine, which counts the totals ahead of the work, if
// CountTotals is set. count reports whether it has counted everything; then the totals
// are final. stop ends count's context and waits for it.
func (c *Set) CountAhead(ctx context.Context, count func(context.Context) (complete bool)) (stop func()) {
	if !c.CountTotals {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ahead sync.WaitGroup
	ahead.Go(func() {
		if count(ctx) && ctx.Err() == nil {
			c.ScanDone.Store(true)
		}
	})
	return func() {
		cancel()
		ahead.Wait()
	}
}
