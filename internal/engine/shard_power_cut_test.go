package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The power is cut before any operation of a task, and any part of the unflushed changes is lost.
// If the shard is recorded as finished, it is complete. Otherwise the next attempt completes it. The
// plan and the destination are on the same device.
func TestATaskAfterAPowerCut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sync       dest.SyncMode
		flushesAll bool // one call flushes the whole device
	}{
		"end":                  {dest.SyncEnd, true},
		"end, each separately": {dest.SyncEnd, false},
		"file":                 {dest.SyncFile, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, _ := newShardSource(t)
			want := wholeManifest(t, src)
			stride := sweepStride(21)
			finished := 0
			for n := 1 + rand.Int64N(stride); ; n += stride {
				base := filepath.Join(filepath.Dir(src), fmt.Sprint("shared", n))
				require.NoError(t, os.Mkdir(base, 0o755))
				o := sweepOptions(src, []string{filepath.Join(base, "dst")}, test.sync)
				c := planCopyIn(t, filepath.Join(base, "plan"), o, 1, nil)
				disk, err := faultfs.NewDisk(base, test.flushesAll)
				require.NoError(t, err)
				_ = c.run(context.Background(), &fsys.FS{Disk: disk, Fault: disk.CutAt(n)}, 0)

				seed := rand.Uint64()
				coin := rand.New(rand.NewPCG(seed, 0))
				after := base + "-after"
				require.NoError(t, disk.Lose(after, func() bool { return coin.IntN(2) == 0 }))
				require.NoError(t, os.RemoveAll(base))
				require.NoError(t, os.Rename(after, base))
				out := c.run(context.Background(), nil, 0)
				if errors.As(out.err, new(*shard.FinishedError)) {
					finished++
				} else {
					require.NoError(t, out.err, "cut before operation %d, seed %d: %s", n, seed, out)
					require.Empty(t, out.bad(), "cut before operation %d, seed %d: %s", n, seed, out)
				}
				t.Logf("cut before operation %d, seed %d: %v", n, seed, out.err)
				c.requireTree(want, treetest.Options{NoHoles: true}) // Lose writes them
				require.NoError(t, os.RemoveAll(base))
				if disk.Calls() < n {
					break
				}
			}
			require.Positive(t, finished)
		})
	}
}
