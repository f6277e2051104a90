package sum

import (
	"context"
	"os"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// scan counts the files to hash, and their bytes.
func (r *run) scan(ctx context.Context, args []argument) (complete bool) {
	c := r.counters
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
			return false // the worker that hashes the file reports the error
		}
	}
	return true
}
