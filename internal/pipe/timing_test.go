//go:build linux

package pipe

import (
	stdhash "hash"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// seconds are what is spent on each place, from the source on.
type seconds [4]int

// secondsOf returns the shares of the places of a run that took so long, rounded.
func secondsOf(s *timing.Sampler, wall time.Duration) (got seconds) {
	for p, share := range s.Shares()[timing.Source:] {
		got[p] = int(math.Round(share * wall.Seconds()))
	}
	return got
}

// slowHash is a digest that takes a time for each write.
type slowHash struct {
	stdhash.Hash
	sleep time.Duration
}

func (h *slowHash) Write(p []byte) (int, error) {
	time.Sleep(h.sleep)
	return h.Hash.Write(p)
}

// A file is charged to whom its reader waits for: in virtual time, in which nothing
// but the hook takes any.
func TestWhoATransferWaitsFor(t *testing.T) {
	const blocks, sequential = 40, sequentialBlocks
	dir := treetest.MemoryDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), treetest.Pattern(blocks*testBlock, 1), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), treetest.Pattern(testBlock, 1), 0o600))
	for name, c := range map[string]struct {
		file        string
		hash        int // seconds for each block; -1 for no digest
		read, write int // as hash
		pool        int64
		rate        rate.Limit // blocks per second
		want        seconds    // of the source, the CPU, what was asked for, the destination
	}{
		// Eight blocks are sequential, then reading and writing overlap.
		"slow source":              {"long", 0, 3, 1, 9, 0, seconds{blocks * 3, 0, 0, sequential + 1}},
		"slow destination":         {"long", 0, 1, 3, 9, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}},
		"slow CPU":                 {"long", 3, 1, 1, 9, 0, seconds{blocks, blocks*3 - (blocks - sequential) + 1, 0, sequential}},
		"slow CPU, one block":      {"short", 5, 2, 1, 9, 0, seconds{2, 5, 0, 1}},
		"the lane has all blocks":  {"long", 0, 1, 3, 2, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}},
		"and there is only one":    {"long", 0, 1, 3, 1, 0, seconds{blocks, 0, 0, blocks * 3}},
		"nothing is hashed":        {"long", -1, 1, 3, 9, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}},
		"a limit":                  {"long", 0, 0, 0, 9, 1, seconds{0, 0, blocks - 1, 0}},
		"one block":                {"short", 0, 2, 5, 9, 0, seconds{2, 0, 0, 5}},
		"one block, not hashed":    {"short", -1, 2, 5, 9, 0, seconds{2, 0, 0, 5}},
		"a limit that is no limit": {"short", 0, 2, 5, 9, 1000, seconds{2, 0, 0, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := new(fsys.FS)
				d := openDirOf(t, sys, dir)
				src, info, err := d.Open(c.file)
				require.NoError(t, err)
				defer src.Close()
				p := mover(testBlock, 2, c.pool*testBlock, false)
				p.files.Add(int64(runtime.GOMAXPROCS(0)))
				if c.rate > 0 {
					p.Limiter = rate.NewLimiter(c.rate*testBlock, testBlock)
				}
				unhook := hook(sys, func(op fsys.Op, _ string) error {
					switch op {
					case fsys.OpRead:
						time.Sleep(time.Duration(c.read) * time.Second)
					case fsys.OpWrite:
						time.Sleep(time.Duration(c.write) * time.Second)
					}
					return nil
				})
				defer unhook()
				set := hash.NewSet(nil)
				if c.hash >= 0 {
					set = freshSet()
					set.Hashes[0] = &slowHash{set.Hashes[0], time.Duration(c.hash) * time.Second}
				}
				sampler := timing.Start(1)
				activity, begun := sampler.Activity(), time.Now()
				out := sinks(t, d, 1)
				defer out[0].File.Abort()
				out[0].Place = timing.Destination(0)
				activity.At(timing.Source)
				_, err = p.Move(t.Context(), src, info, set, out, MoveOptions{Activity: activity})
				require.NoError(t, err)
				require.Equal(t, timing.Source, activity.Place())
				wall := time.Since(begun)
				sampler.Stop()
				require.Equal(t, c.want, secondsOf(sampler, wall))
			})
		})
	}
}

// sleeper is a taker that takes time at a place.
type sleeper struct {
	at    timing.Place
	sleep time.Duration
	taken int
}

func (s *sleeper) take(piece)          { time.Sleep(s.sleep); s.taken++ }
func (s *sleeper) failed() bool        { return false }
func (s *sleeper) place() timing.Place { return s.at }

// Of several lanes the slowest one is to blame, whether it is full or has the
// blocks.
func TestTheSlowestLaneIsToBlame(t *testing.T) {
	const blocks = 100
	for name, c := range map[string]struct {
		pool                int64
		read, cpu, one, two time.Duration // seconds for each block
		slowest             timing.Place
		seconds             int // that the reader waits for it
	}{
		"the CPU":                {9, 1, 4, 2, 3, timing.CPU, 300},
		"the first destination":  {9, 1, 1, 4, 1, timing.Destination(0), 300},
		"the second destination": {9, 1, 3, 2, 4, timing.Destination(1), 300},
		"the last two blocks":    {2, 1, 3, 2, 4, timing.Destination(1), 300},
		"the last block":         {1, 1, 3, 2, 4, timing.Destination(1), 400},
		"none, but the source":   {9, 4, 1, 1, 2, timing.Destination(1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sampler, begun := timing.Start(2), time.Now()
				activity := sampler.Activity()
				activity.At(timing.Source)
				p := mover(testBlock, 2, c.pool*testBlock, false)
				takers := []*sleeper{
					{at: timing.CPU, sleep: c.cpu * time.Second},
					{at: timing.Destination(0), sleep: c.one * time.Second},
					{at: timing.Destination(1), sleep: c.two * time.Second},
				}
				f := newFlow(p, hash.NewSet(nil), takers, activity)
				f.lanes = f.startLanes()
				for range blocks {
					b, err := f.get(t.Context())
					require.NoError(t, err)
					time.Sleep(c.read * time.Second)
					f.send(piece{block: b, data: b.Buf})
				}
				f.close()
				wall := time.Since(begun).Seconds()
				sampler.Stop()
				for _, s := range takers {
					require.Equal(t, blocks, s.taken)
				}
				shares := sampler.Shares()
				require.InDelta(t, float64(c.read*blocks), shares[timing.Source]*wall, 1)
				// At first the lanes fill one after the other.
				require.InDelta(t, c.seconds, shares[c.slowest]*wall, 5)
				require.InDelta(t, c.seconds, (shares[timing.CPU]+shares[timing.Destination(0)]+shares[timing.Destination(1)])*wall, 2)
			})
		})
	}
}

// A wait for a block of another goroutine has no place: the other goroutine is measured.
func TestWaitingForOthersBlocksHasNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mover(testBlock, 2, testBlock, false)
		busy, err := p.Pool.Get(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, busy.Release)
		sampler := timing.Start(1)
		activity := sampler.Activity()
		activity.At(timing.Source)
		b, err := p.get(t.Context(), activity)
		require.NoError(t, err)
		b.Release()
		f := newFlow(p, hash.NewSet(nil), []*Sink{}, activity)
		time.Sleep(time.Second)
		busy, err = p.Pool.Get(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, busy.Release)
		b, err = f.get(t.Context())
		require.NoError(t, err)
		b.Release()
		sampler.Stop()
		require.Equal(t, seconds{1}, secondsOf(sampler, 2*time.Minute+time.Second))
	})
}

// An offloaded transfer is charged to the destination, or to the source if nothing of it was
// in memory and another place waits for unwritten data.
func TestPlaceOfAnOffloadedTransfer(t *testing.T) {
	const size = 3*offloadStep + 1
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), treetest.Pattern(size, 1), 0o600))
	for _, cold := range []bool{false, true} {
		sys := new(fsys.FS)
		d := openDirOf(t, sys, dir)
		src, info, err := d.Open("f")
		require.NoError(t, err)
		defer src.Close()
		out := sinks(t, d, 1)[0]
		defer out.File.Abort()
		if cold {
			_, err := src.DropCache()
			require.NoError(t, err)
			if held, known := src.Cached(0, 0); held || !known {
				t.Skip("the system does not say what is in memory, or what it holds cannot be dropped")
			}
		}
		synctest.Test(t, func(t *testing.T) {
			device := NewDevice(DeviceOptions{Window: 1 << 30, Ranges: true})
			out.Place, out.Refused, out.Behind = timing.Destination(0), new(atomic.Bool), device.Behind(&out.File.File, func(error) {})
			calls := 0
			unhook := hook(sys, func(op fsys.Op, _ string) error {
				if op == fsys.OpCopyRange {
					calls++
					time.Sleep(time.Second)
				}
				return nil
			})
			sampler := timing.Start(1)
			activity := sampler.Activity()
			activity.At(timing.Source)
			n, err := mover(1<<20, 2, 4<<20, false).Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{out}, MoveOptions{Activity: activity})
			sampler.Stop()
			out.Behind.Finish()
			device.Close()
			unhook()
			require.NoError(t, err)
			require.EqualValues(t, size, n)
			require.NotZero(t, calls)
			want := seconds{0, 0, 0, calls}
			if cold {
				want = seconds{calls, 0, 0, 0}
			}
			require.Equal(t, want, secondsOf(sampler, time.Duration(calls)*time.Second))
		})
	}
}
