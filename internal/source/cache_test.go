package source

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

func TestCacheAutoDropsWhatIsLargerThanHalfOfMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode                   pipe.CacheMode
		total, copied, largest int64
		memory                 int64
		want                   bool
	}{
		{pipe.CacheAuto, 0, 0, 0, 100, false},
		{pipe.CacheAuto, 50, 50, 50, 100, false},
		{pipe.CacheAuto, 51, 0, 0, 100, true},
		{pipe.CacheAuto, 0, 51, 0, 100, true},
		{pipe.CacheAuto, 0, 0, 51, 100, true},
		{pipe.CacheAuto, 51, 51, 51, 0, false}, // not known
		{pipe.CacheKeep, 200, 200, 200, 100, false},
		{pipe.CacheDrop, 0, 0, 0, 100, true},
		{pipe.CacheDirect, 0, 0, 0, 100, true},
	} {
		r := &Cache{Mode: c.mode, Counters: &counters.Set{}, Memory: c.memory}
		r.Counters.TotalBytes.Store(c.total)
		r.Counters.Bytes.Store(c.copied)
		r.largest.Store(c.largest)
		require.Equal(t, c.want, r.Drops(), "%+v", c)
	}
}
