//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A run names the place that has limited it. Time is virtual, and only the slow operation of a
// case takes any.
func TestTheSlowPlaceIsTheLimit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	source := filepath.Join(root, "src")
	for i := range 32 {
		name := filepath.Join(source, fmt.Sprint("d", i%24), fmt.Sprint("f", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, treetest.Pattern(1000+i*8_000, byte(i)), 0o644))
	}
	big := filepath.Join(root, "big")
	require.NoError(t, os.WriteFile(big, treetest.Pattern(3<<20, 1), 0o644))

	for name, c := range map[string]struct {
		slow   func(op fsys.Op, name string) bool
		change func(o *Options)
		memory bool
		place  string
		target int // which of the destinations; -1 for all, or none
	}{
		"reading": {
			slow:  func(op fsys.Op, _ string) bool { return op == fsys.OpRead },
			place: "source", target: -1,
		},
		"opening": {
			slow:  func(op fsys.Op, name string) bool { return op == fsys.OpOpen && name[0] == 'f' },
			place: "source", target: -1,
		},
		"listing": {
			slow:  func(op fsys.Op, _ string) bool { return op == fsys.OpList },
			place: "source", target: -1,
		},
		"a source in memory": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpRead },
			memory: true, place: "cpu", target: -1,
		},
		"writing": {
			slow:  func(op fsys.Op, _ string) bool { return op == fsys.OpWrite },
			place: "destination", target: 0,
		},
		"a destination in memory": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpWrite },
			memory: true, place: "cpu", target: -1,
		},
		"creating": {
			slow:  func(op fsys.Op, _ string) bool { return op == fsys.OpCreate },
			place: "destination", target: 0,
		},
		"committing": {
			slow:  func(op fsys.Op, name string) bool { return op == fsys.OpLink && name[0] == 'f' },
			place: "destination", target: 0,
		},
		"forcing each file": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpSync },
			change: func(o *Options) { o.Sync = dest.SyncFile },
			place:  "destination", target: 0, // each file, the directories and the manifest
		},
		"flushing": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpSyncFS },
			change: func(o *Options) { o.Sync = dest.SyncEnd },
			place:  "destination", target: 0,
		},
		"the window of unwritten data": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpSyncFS },
			change: func(o *Options) { o.DirtyWindow = 64 << 10 },
			place:  "destination", target: 0,
		},
		"reading back": {
			slow:   func(op fsys.Op, _ string) bool { return op == fsys.OpDropCache },
			change: func(o *Options) { o.Verify = VerifyDest },
			place:  "destination", target: 0,
		},
		"a limit": {
			slow:   func(fsys.Op, string) bool { return false },
			change: func(o *Options) { o.BytesPerSecond = 100_000 },
			place:  "limit", target: -1,
		},
		"one destination of two": {
			slow: func(op fsys.Op, name string) bool { return op == fsys.OpLink && name == "second" },
			change: func(o *Options) {
				o.Source, o.Targets = big, []string{o.Targets[0] + "/first", o.Targets[0] + "-2/second"}
			},
			place: "destination", target: 1,
		},
		"both destinations": {
			slow: func(op fsys.Op, _ string) bool { return op == fsys.OpSyncFS },
			change: func(o *Options) {
				o.Sync, o.Targets = dest.SyncEnd, append(o.Targets, o.Targets[0]+"-2")
			},
			place: "destination", target: -1,
		},
	} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprint(name, ", ", workers, " workers"), func(t *testing.T) {
				o := options(source, filepath.Join(t.TempDir(), "dst"))
				o.Workers, o.BlockSize = workers, 64<<10
				o.inMemory = func(*fsys.Dir) bool { return c.memory }
				if c.change != nil {
					c.change(&o)
				}
				synctest.Test(t, func(t *testing.T) {
					sys := faultfs.New(func(op fsys.Op, name string) error {
						if c.slow(op, name) {
							time.Sleep(time.Second)
						}
						return nil
					})
					o.FS = sys
					s, err := Run(t.Context(), &o, &counters.Set{})
					require.NoError(t, err)
					require.Zero(t, s.Errors)
					want := Share{Place: c.place}
					if c.target >= 0 {
						want.Target = o.Targets[c.target]
					}
					require.Greater(t, s.Limit.Share, 0.5, "%+v", s.Shares)
					want.Share = s.Limit.Share
					require.Equal(t, want, s.Limit)

					sum := 0.0
					for _, share := range s.Shares {
						sum += share.Share
					}
					require.InDelta(t, 1, sum, 0.02, "%+v", s.Shares)
				})
			})
		}
	}
}
