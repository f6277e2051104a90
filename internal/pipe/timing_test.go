//go:build linux

package pipe

import (
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

// sharesOf returns the shares of a sheet, rounded.
func sharesOf(s *timing.Sheet) (got seconds) {
	for p, d := range s.Shares()[timing.Source:] {
		got[p] = int(d.Round(time.Second) / time.Second)
	}
	return got
}

// spent adds up laps of a kind, in seconds.
func spent(s *timing.Sheet, k timing.Kind, p timing.Place) (n int) {
	for _, l := range s.Intervals() {
		if l.Kind == k && l.Place == p {
			n += int(l.Time.Round(time.Second) / time.Second)
		}
	}
	return n
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
		hashes      bool
		read, write int // seconds for each block
		pool        int64
		rate        rate.Limit // blocks per second
		want        seconds    // of the source, the CPU, what was asked for, the destination
		queue       int        // seconds that the reader waits for the lane of the destination
	}{
		// Eight blocks are sequential, then reading and writing overlap.
		"slow source":              {"long", true, 3, 1, 9, 0, seconds{blocks * 3, 0, 0, sequential + 1}, 1},
		"slow destination":         {"long", true, 1, 3, 9, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}, (blocks-sequential)*2 + 1},
		"the lane has all blocks":  {"long", true, 1, 3, 2, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}, (blocks-sequential)*2 + 1},
		"and there is only one":    {"long", true, 1, 3, 1, 0, seconds{blocks, 0, 0, blocks * 3}, (blocks - sequential) * 3},
		"nothing is hashed":        {"long", false, 1, 3, 9, 0, seconds{blocks, 0, 0, blocks*3 - (blocks - sequential) + 1}, (blocks-sequential)*2 + 1},
		"a limit":                  {"long", true, 0, 0, 9, 1, seconds{0, 0, blocks - 1, 0}, 0},
		"one block":                {"short", true, 2, 5, 9, 0, seconds{2, 0, 0, 5}, 0},
		"one block, not hashed":    {"short", false, 2, 5, 9, 0, seconds{2, 0, 0, 5}, 0},
		"a limit that is no limit": {"short", true, 2, 5, 9, 1000, seconds{2, 0, 0, 5}, 0},
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
				if c.hashes {
					set = freshSet()
				}
				sheet := timing.NewSheet(1)
				clock, begun := sheet.Clock(), time.Now()
				out := sinks(t, d, 1)
				defer out[0].File.Abort()
				out[0].Place = timing.Destination(0)
				_, err = p.Move(t.Context(), src, info, set, out, MoveOptions{Clock: clock, From: timing.Source})
				require.NoError(t, err)
				wall := int(time.Since(begun) / time.Second)
				clock.Stop()

				require.Equal(t, c.want, sharesOf(sheet))
				require.Equal(t, wall, c.want[0]+c.want[1]+c.want[2]+c.want[3])
				n := int(info.Size) / testBlock
				require.Equal(t, n*c.read, spent(sheet, timing.Read, timing.Source))
				require.Equal(t, n*c.write, spent(sheet, timing.Write, timing.Destination(0)))
				require.Equal(t, c.queue, spent(sheet, timing.Queue, timing.Destination(0)))
				for _, l := range sheet.Intervals() {
					if l.Kind == timing.Read || l.Kind == timing.Write {
						require.Equal(t, info.Size, l.Bytes)
						require.EqualValues(t, n, l.Operations)
					}
					if l.Kind == timing.Hash {
						require.EqualValues(t, n*set.Len(), l.Operations)
						require.Equal(t, info.Size*int64(set.Len()), l.Bytes)
					}
				}
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

func (s *sleeper) take(piece, *timing.Clock) { time.Sleep(s.sleep); s.taken++ }
func (s *sleeper) failed() bool              { return false }
func (s *sleeper) place() timing.Place       { return s.at }

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
				sheet := timing.NewSheet(2)
				clock := sheet.Clock()
				p := mover(testBlock, 2, c.pool*testBlock, false)
				takers := []*sleeper{
					{at: timing.CPU, sleep: c.cpu * time.Second},
					{at: timing.Destination(0), sleep: c.one * time.Second},
					{at: timing.Destination(1), sleep: c.two * time.Second},
				}
				f := newFlow(p, hash.NewSet(nil), takers, clock, timing.Source)
				f.lanes = f.startLanes()
				for range blocks {
					b, err := f.get(t.Context())
					require.NoError(t, err)
					time.Sleep(c.read * time.Second)
					f.send(piece{block: b, data: b.Buf})
				}
				f.close()
				clock.Stop()
				for _, s := range takers {
					require.Equal(t, blocks, s.taken)
				}
				shares := sheet.Shares()
				require.Equal(t, c.read*blocks*time.Second, shares[timing.Source])
				// At first the lanes fill one after the other.
				require.InDelta(t, c.seconds, shares[c.slowest].Seconds(), 2)
				require.InDelta(t, c.seconds, (shares[timing.CPU] + shares[timing.Destination(0)] + shares[timing.Destination(1)]).Seconds(), 2)
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
		sheet := timing.NewSheet(1)
		clock := sheet.Clock()
		b, err := p.get(t.Context(), clock)
		require.NoError(t, err)
		b.Release()
		f := newFlow(p, hash.NewSet(nil), []*Sink{}, clock, timing.Source)
		time.Sleep(time.Second)
		if busy, err = p.Pool.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, busy.Release)
		b, err = f.get(t.Context())
		require.NoError(t, err)
		b.Release()
		clock.Stop()
		require.Equal(t, seconds{1}, sharesOf(sheet))
		require.Equal(t, 120, spent(sheet, timing.Block, timing.None))
	})
}

// Waiting for the window is charged to the destination, whichever goroutine waits.
func TestTheWindowIsTheDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDevice(DeviceOptions{Window: 1 << 20, Ranges: true})
		defer d.Close()
		flush := make(chan struct{}, 1)
		g := d.Join(flush)
		go func() {
			<-flush
			mark := g.Mark()
			time.Sleep(5 * time.Second)
			g.Flushed(mark)
		}()
		sheet := timing.NewSheet(1)
		clock := sheet.Clock()
		clock.At(timing.Commit, timing.Destination(0))
		time.Sleep(time.Second)
		g.Add(3<<20, clock)
		time.Sleep(time.Second)
		clock.Stop()
		require.Equal(t, 5, spent(sheet, timing.Window, timing.Destination(0)))
		require.Equal(t, 2, spent(sheet, timing.Commit, timing.Destination(0)))
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
			sheet := timing.NewSheet(1)
			clock := sheet.Clock()
			n, err := mover(1<<20, 2, 4<<20, false).Move(t.Context(), src, info, hash.NewSet(nil), []*Sink{out}, MoveOptions{Clock: clock, From: timing.Source})
			clock.Stop()
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
			require.Equal(t, want, sharesOf(sheet))
		})
	}
}
