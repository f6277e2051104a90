package shard

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// A plan of many entries uses little memory, also if manifests of the source and of the
// destination list each of them. The entries do not exist.
func TestMemoryOfALargePlan(t *testing.T) {
	o := planOptions(0)
	entries, limit := 50_000, uint64(32<<20)
	o.memory = 1 << 20 // of each sort
	if os.Getenv("SEALIFT_LARGE") == "1" {
		entries, limit = 10_000_000, 300<<20
		o.memory = 0 // the default
	}
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, o)
	require.NoError(t, err)
	defer p.Close()
	var peak uint64
	ctx := &sampling{Context: context.Background(), sample: func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.Sys-m.HeapReleased)
	}}
	require.NoError(t, p.AddDirectory(Directory{}))
	for i := range entries {
		n := file(fmt.Sprintf("project-%02d/sequence-%04d/frame.%08d.exr", i%16, i/16%5000, i), int64(i%5_000_000))
		if i%4 < 2 { // every other entry has a second name
			n.ino, n.links = uint64(i/4)+1, 2
			n.Path = fmt.Sprintf("snapshot-%d/%08d/Frame.exr", i%4, i/4)
		}
		require.NoError(t, p.Add(n.Entry, fsys.ID{Dev: 1, Ino: n.ino}, max(n.links, 1)))
		digest := fmt.Appendf(nil, "%016d", i) // of 16 bytes
		require.NoError(t, p.Expect(n.Path, ListDigest{0, digest}))
		require.NoError(t, p.Previous(n.Path, LineDigest{0, 0, digest}))
		_ = ctx.Err()
	}
	plan, err := p.Write(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, entries, plan.Totals.Entries)
	assert.EqualValues(t, entries/4, plan.Totals.LinkGroups)
	assert.Zero(t, plan.Totals.Missing)
	t.Logf("%d entries in %d shards: %d MiB", entries, len(plan.Shards), peak>>20)
	assert.Less(t, peak, limit)
}

// sampling calls sample once in a while when it is asked for its error.
type sampling struct {
	context.Context
	sample func()
	asked  int
}

func (s *sampling) Err() error {
	if s.asked++; s.asked%50_000 == 0 {
		s.sample()
	}
	return s.Context.Err()
}
