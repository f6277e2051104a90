//go:build linux

package pipe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// For each window, block size and number of writers, at most the window and one block for
// each writer are unwritten. In the end, nothing is.
func TestDeviceLimitsUnwrittenData(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		for _, writers := range []int{1, 3, 40} {
			for _, window := range []int64{1, 100_000, mib, 10 * mib, 64 * mib} {
				for _, block := range []int64{5000, 128 << 10, 3 * mib} {
					name := fmt.Sprintf("ranges %v, %d writers, window %d, blocks of %d", ranges, writers, window, block)
					bubble(t, name, func(t *testing.T) { checkCeiling(t, ranges, writers, window, block) })
				}
			}
		}
	}
}

func checkCeiling(t *testing.T, ranges bool, writers int, window, block int64) {
	disk := &disk{speed: 40e6, latency: time.Millisecond}
	d := newDevice(t, DeviceOptions{Window: window, Ranges: ranges})
	blocks := max(3*window, 20*block)/int64(writers)/block + 2
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			f := disk.create()
			b := d.behind(f, noFailure(t))
			for range blocks {
				b.Wrote(f.write(block), block)
			}
			b.Finish()
		})
	}
	group.Wait()
	d.Drain()
	require.LessOrEqual(t, disk.peak, window+int64(writers)*block)
	require.Greater(t, disk.peak, min(window, blocks*block*int64(writers)-1), "the window is made use of")
	require.Zero(t, disk.left())
	require.Zero(t, d.Unwritten())
	require.Zero(t, disk.open)
	require.Equal(t, window, windowOf(d))
	d.Close()
}

// While the writer has data, the device has something to write from the first
// chunk on, and a file takes as long as the device needs for it.
func TestDeviceNeverIdles(t *testing.T) {
	for _, window := range []int64{mib, 4 * mib, 80 * mib, 0} {
		for _, writers := range []int{1, 8, 32} {
			bubble(t, fmt.Sprintf("window %d, %d writers", window, writers), func(t *testing.T) {
				disk := &disk{speed: 40e6}
				d := newDevice(t, DeviceOptions{Window: window, Ranges: true})
				begin := time.Now()
				const each, block = 30 * mib, 128 << 10
				var group sync.WaitGroup
				for range writers {
					group.Go(func() {
						f := disk.create()
						b := d.behind(f, noFailure(t))
						for range each / block {
							b.Wrote(f.write(block), block)
							time.Sleep(time.Microsecond) // 32 writers together are 100 times as fast
						}
						b.Finish()
					})
				}
				group.Wait()
				d.Drain()
				require.Zero(t, disk.idle)
				need := time.Duration(float64(writers*each) / disk.speed * 1e9)
				require.Less(t, time.Since(begin)-need, 50*time.Millisecond) // until the first chunk was full
				d.Close()
			})
		}
	}
}

// Without ranges one half of the window is written while the other fills, and
// one Datasync does for all that is queued of a file.
func TestDeviceWithoutRangesWritesHalfAWindowAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		disk := &disk{speed: 40e6, latency: 20 * time.Millisecond}
		d := newDevice(t, DeviceOptions{Window: 16 * mib})
		f := disk.create()
		b := d.behind(f, noFailure(t))
		for range 160 * 8 {
			b.Wrote(f.write(128<<10), 128<<10)
			time.Sleep(time.Microsecond)
		}
		b.Finish()
		d.Drain()
		require.Zero(t, disk.idle)
		require.Zero(t, disk.starts)
		require.Equal(t, 160/8, disk.syncs)
		require.Zero(t, d.Unwritten())

		// Five chunks are queued while another file's is waited for.
		slow, quick := disk.create(), disk.create()
		a, b := d.behind(slow, noFailure(t)), d.behind(quick, noFailure(t))
		d.mu.Lock()
		d.mu.window = 80 * mib
		d.mu.Unlock()
		a.Wrote(slow.write(40*mib), 40*mib)
		synctest.Wait()
		d.mu.Lock()
		d.mu.window = 16 * mib
		d.mu.Unlock()
		disk.syncs = 0
		b.Wrote(quick.write(40*mib), 40*mib)
		require.LessOrEqual(t, d.Unwritten(), int64(16*mib))
		a.Finish()
		b.Finish()
		d.Drain()
		require.Equal(t, 1, disk.syncs)
		require.Zero(t, d.Unwritten())
		require.Zero(t, disk.open)
		d.Close()
	})
}

// stream writes n bytes in one file and returns all windows that there were,
// with the time at which each was seen first.
func stream(t *testing.T, disk *disk, d *Device, n int64) (windows []int64, at []time.Duration) {
	const block = 128 << 10
	begin := time.Now()
	f := disk.create()
	b := d.behind(f, noFailure(t))
	for ; n > 0; n -= block {
		b.Wrote(f.write(block), block)
		time.Sleep(time.Microsecond) // a source that is fast and not infinitely so
		if w := windowOf(d); len(windows) == 0 || w != windows[len(windows)-1] {
			windows, at = append(windows, w), append(at, time.Since(begin))
		}
	}
	b.Finish()
	return windows, at
}

func TestDeviceWindowFollowsTheSpeed(t *testing.T) {
	for name, test := range map[string]struct {
		speed float64
		cache int64
		bytes int64
		want  float64 // window
	}{
		"disk":              {40e6, 0, 800e6, 80e6},
		"disk with a cache": {40e6, 1e9, 3e9, 80e6},
		"fast":              {5e9, 0, 40e9, largestWindow},
		"slow":              {200e3, 0, 60e6, leastWindow},
		"less slow":         {1e6, 0, 100e6, leastWindow},
	} {
		modes(t, func(t *testing.T, ranges bool) {
			disk := &disk{speed: test.speed, cache: test.cache}
			d := newDevice(t, DeviceOptions{Ranges: ranges})
			require.EqualValues(t, firstWindow, windowOf(d), name)
			require.Zero(t, d.Rate(), name)
			windows, at := stream(t, disk, d, test.bytes)
			require.InEpsilon(t, test.want, windowOf(d), 0.05, name)
			require.InEpsilon(t, test.speed, d.Rate(), 0.05, name)
			largest := int64(0)
			for i := 1; i < len(windows); i++ {
				require.LessOrEqual(t, windows[i], windows[i-1]*3/2, name)
				require.LessOrEqual(t, windows[i], int64(largestWindow), name)
				require.GreaterOrEqual(t, windows[i], int64(leastWindow), name)
				require.GreaterOrEqual(t, at[i], time.Duration(i)*measureFor, name)
				largest = max(largest, windows[i])
			}
			if test.cache > 0 { // one measurement of the cache's speed is forgotten at once
				require.Less(t, largest, int64(120e6), name)
			}
			d.Drain()
			d.Close()
		})
	}
}

// A single stall takes half of the window, not all of it.
func TestDeviceForgivesAStall(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Ranges: true})
		stream(t, disk, d, 800e6)
		require.InEpsilon(t, 80e6, windowOf(d), 0.05)
		disk.mu.Lock()
		disk.free = disk.free.Add(3 * time.Second)
		disk.mu.Unlock()
		windows, _ := stream(t, disk, d, 800e6)
		require.Greater(t, slices.Min(windows), int64(39e6))
		require.InEpsilon(t, 80e6, windowOf(d), 0.05)
	})
}

// Time in which nothing was submitted does not count: a slow source does not
// make the device slow.
func TestDeviceMeasuresBusyTime(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 400e6}
		d := newDevice(t, DeviceOptions{Ranges: ranges})
		f := disk.create()
		b := d.behind(f, noFailure(t))
		for range 60 {
			for range 32 * 8 {
				b.Wrote(f.write(128<<10), 128<<10)
			}
			time.Sleep(10 * time.Second)
		}
		require.InEpsilon(t, 400e6, d.Rate(), 0.05)
		b.Finish()
		d.Drain()
		d = newDevice(t, DeviceOptions{})
		m := disk.mount(t, d)
		for range 3000 {
			m.write(1e6)
			time.Sleep(10 * time.Millisecond)
		}
		require.InEpsilon(t, 400e6, d.Rate(), 0.05)
		m.group.Leave()
		d.Close()
	})
}

func TestDeviceAllocatesNothing(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: ranges})
		b := d.behind(memoryFile{}, noFailure(t))
		g := d.Join(make(chan struct{}, 1))
		off := int64(0)
		write := func() {
			for range 64 {
				b.Wrote(off, 128<<10)
				off += 128 << 10
			}
			g.Add(1000)
			g.Flushed(g.Mark())
		}
		for range 100 {
			write()
		}
		require.Zero(t, testing.AllocsPerRun(500, write))
		b.Finish()
		d.Close()
	}
}

// dirty is what the kernel knows of a file to be unwritten, in bytes.
func dirty(t *testing.T, f *os.File) int64 {
	var all unix.CachestatRange
	var st unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &all, &st, 0); err != nil {
		t.Skipf("the kernel does not tell what is unwritten: %v", err)
	}
	return int64(st.Dirty+st.Writeback) * int64(os.Getpagesize())
}

// On a real file system no more of a file is unwritten than the window and a
// block, as the kernel sees it, and in the end nothing is.
func TestDeviceBoundHoldsAsTheKernelSeesIt(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // after the device was closed
	dir := t.TempDir()
	root := openDir(t, dir)
	if root.InMemory() {
		t.Skip("temporary files are in memory")
	}
	modes := []bool{false}
	if root.WritesBehind() {
		modes = append(modes, true)
	} else {
		t.Log("ranges do not work where temporary files are")
	}
	const window, block, size = 4 * mib, 128 << 10, 48 * mib
	content := treetest.Pattern(size, 1)
	for _, ranges := range modes {
		d := newDevice(t, DeviceOptions{Window: window, Ranges: ranges, Drop: func() bool { return true }})
		p, err := root.Create(true)
		require.NoError(t, err)
		defer p.Abort()
		names, err := filepath.Glob(filepath.Join(dir, ".sealift-*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		look, err := os.OpenFile(names[0], os.O_RDWR, 0)
		require.NoError(t, err)
		defer look.Close()
		b := d.Behind(&p.File, noFailure(t))
		peak := int64(0)
		for off := int64(0); off < size; off += block {
			require.NoError(t, p.WriteAt(content[off:off+block], off))
			peak = max(peak, dirty(t, look))
			b.Wrote(off, block)
			require.LessOrEqual(t, d.Unwritten(), int64(window))
		}
		b.Finish()
		name := fmt.Sprintf("ranges %v", ranges)
		require.NoError(t, p.Commit(name))
		d.Drain()
		require.Zero(t, d.Unwritten())
		require.Zero(t, dirty(t, look))
		require.LessOrEqual(t, peak, int64(window+block))
		if root.WritesBehind() { // elsewhere the kernel does not always know
			require.Positive(t, peak)
		}
		d.Close()
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
	}
}
