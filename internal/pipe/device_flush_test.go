//go:build linux

package pipe

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Small files: each of two file systems is flushed when it has its share of the
// window, or when a writer waits.
func TestDeviceFlushesSmallFilesOfEachFileSystem(t *testing.T) {
	bubble(t, "shares", func(t *testing.T) {
		disk := &disk{speed: 40e6, latency: 10 * time.Millisecond}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: true})
		a, b := disk.mount(t, d), disk.mount(t, d)
		for range 4*mib/100_000 - 20 {
			a.write(50_000)
			b.write(10_000)
		}
		synctest.Wait()
		require.Zero(t, disk.flushes)
		a.write(2*mib - pendingOf(a.group) - 1)
		synctest.Wait()
		require.Zero(t, disk.flushes)
		a.write(1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, disk.flushes)
		require.Zero(t, pendingOf(a.group))
		require.Equal(t, pendingOf(b.group), d.Unwritten())
		require.Equal(t, disk.left(), d.Unwritten())
		a.group.Leave()
		require.NotZero(t, pendingOf(b.group))
		b.group.Leave()
		require.Zero(t, d.Unwritten()) // no goroutine waits for it, since none flushes it
		d.Close()
	})
	bubble(t, "ceiling", func(t *testing.T) {
		disk := &disk{speed: 40e6, latency: 10 * time.Millisecond}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: true})
		mounts := []*mount{disk.mount(t, d), disk.mount(t, d)}
		begin := time.Now()
		const each, writers = 40_000, 6
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				for range 1000 {
					mounts[i%2].write(each)
				}
			})
		}
		group.Wait()
		for _, m := range mounts {
			m.flush()
		}
		require.LessOrEqual(t, disk.peak, int64(8*mib+writers*each))
		require.Zero(t, disk.left())
		require.Zero(t, d.Unwritten())
		require.Less(t, disk.flushes, 300)
		need := time.Duration(writers * 1000 * each / disk.speed * 1e9)
		require.Less(t, time.Since(begin), need*3/2)
		for _, m := range mounts {
			m.group.Leave()
		}
		d.Close()
	})
	bubble(t, "one that is below its share", func(t *testing.T) {
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: true})
		mounts := []*mount{disk.mount(t, d), disk.mount(t, d), disk.mount(t, d), disk.mount(t, d)}
		for range 4 * 1000 { // 7.6 MiB, all below
			for _, m := range mounts[:2] {
				m.write(500)
			}
		}
		disk.flushes = 0
		f := disk.create()
		b := d.behind(f, noFailure(t))
		b.Wrote(f.write(7*mib), 7*mib) // waits for its own
		require.LessOrEqual(t, d.Unwritten(), int64(8*mib))
		mounts[2].write(7 * mib) // waits for itself
		require.LessOrEqual(t, d.Unwritten(), int64(8*mib))
		require.LessOrEqual(t, disk.peak, int64(15*mib))
		b.Finish()
		d.Drain()
		for _, m := range mounts {
			m.group.Leave()
		}
		d.Close()
	})
	bubble(t, "a few small files beside a large one are not flushed one by one", func(t *testing.T) {
		disk := &disk{speed: 40e6, latency: 10 * time.Millisecond}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: true})
		m := disk.mount(t, d)
		f := disk.create()
		b := d.behind(f, noFailure(t))
		for range 2000 {
			m.write(1000)
			b.Wrote(f.write(128<<10), 128<<10)
		}
		b.Finish()
		d.Drain()
		require.LessOrEqual(t, disk.flushes, 1)
		m.group.Leave()
		d.Close()
	})
	bubble(t, "flushes that overlap, and one for another reason", func(t *testing.T) {
		d := newDevice(t, DeviceOptions{Ranges: true})
		g := d.Join(make(chan struct{}, 1))
		require.Zero(t, g.Mark())
		g.Flushed(0)
		g.Add(10)
		first := g.Mark()
		g.Add(5)
		second := g.Mark()
		g.Add(3)
		g.Flushed(second)
		require.EqualValues(t, 3, pendingOf(g))
		require.EqualValues(t, 3, d.Unwritten())
		g.Flushed(first)
		require.EqualValues(t, 3, pendingOf(g))
		time.Sleep(time.Hour)
		g.Flushed(g.Mark())
		require.Zero(t, pendingOf(g))
		require.Zero(t, d.Rate())
		g.Mark()
		g.Add(1)
		g.Mark()
		g.Leave()
		g.Leave()
		g.Add(1)
		g.Flushed(g.Mark())
		require.Zero(t, pendingOf(g))
		require.Zero(t, d.Unwritten())
		d.Close()
	})
}

// All of a file is dropped from the page cache once it is written, in ranges
// that the kernel drops whole.
func TestDeviceDropsWrittenData(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		var wanted atomic.Bool
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Window: 10_000_000, Ranges: ranges, Drop: wanted.Load})
		write := func(size int64, each func(off int64)) [][2]int64 {
			f := disk.create()
			b := d.behind(f, noFailure(t))
			for f.written < size {
				off := f.written
				each(off)
				n := min(100_000, size-off)
				b.Wrote(f.write(n), n)
			}
			b.Finish()
			d.Drain()
			return f.drops
		}
		require.Empty(t, write(30e6, func(int64) {}))
		wanted.Store(true)
		for _, size := range []int64{1, 1e6, 4 * mib, 30e6, 32 * mib} {
			drops := write(size, func(int64) {})
			dropped, sum := int64(0), int64(0)
			for i, r := range drops {
				// Data that a Datasync included while it was submitted is dropped twice.
				require.LessOrEqual(t, r[0], dropped, "%d bytes", size)
				require.Greater(t, r[1], r[0], "%d bytes", size)
				if i < len(drops)-1 {
					require.Zero(t, r[1]%dropAlignment, "%d bytes", size)
				}
				dropped, sum = r[1], sum+r[1]-r[0]
			}
			require.Equal(t, size, dropped)
			if ranges {
				require.Equal(t, size, sum, "%d bytes: nothing twice", size)
			}
			require.GreaterOrEqual(t, int64(len(drops)), size/(10*mib))
		}
		// Data that was kept before is dropped with the rest, and the answer may change.
		drops := write(60e6, func(off int64) { wanted.Store(off > 20e6 && off < 40e6) })
		require.Zero(t, drops[0][0])
		require.Less(t, drops[len(drops)-1][1], int64(42e6))
		d.Close()

		// A file that is written again from its beginning is dropped again.
		wanted.Store(true)
		d = newDevice(t, DeviceOptions{Window: 10_000_000, Ranges: ranges, Drop: wanted.Load})
		f := disk.create()
		b := d.behind(f, noFailure(t))
		for range 2 {
			b.Wrote(f.write(20e6), 20e6)
			f.rewind()
		}
		b.Wrote(f.write(20e6), 20e6)
		b.Finish()
		d.Drain()
		require.EqualValues(t, 20e6, f.drops[len(f.drops)-1][1])
		again := 0
		for _, r := range f.drops {
			if r[0] == 0 {
				again++
			}
		}
		require.Equal(t, 3, again)
		d.Close()
		require.Zero(t, disk.open)
	})
}

func TestDeviceHoldKeepsWritersFromSubmitting(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 100e6}
		d := newDevice(t, DeviceOptions{Window: 100e6, Ranges: ranges})
		f, short := disk.create(), disk.create()
		b, last := d.behind(f, noFailure(t)), d.behind(short, noFailure(t))
		d.Hold()
		d.Hold()
		last.Wrote(short.write(1000), 1000) // before the other file fills the window: then this would submit, too
		last.Finish()                       // no goroutine waits for the end of a file
		var writer sync.WaitGroup
		writer.Go(func() {
			for range 30 {
				b.Wrote(f.write(10e6), 10e6)
			}
			b.Finish()
		})
		time.Sleep(time.Hour)
		d.Drain()
		d.Release()
		time.Sleep(time.Hour)
		require.Equal(t, 1, disk.waits, "only the short file is submitted")
		d.Release()
		writer.Wait()
		d.Drain()
		require.Zero(t, d.Unwritten())

		d.Hold() // Stop ends that waiting, too
		again := d.behind(disk.create(), noFailure(t))
		writer.Go(func() { again.Wrote(0, 90e6) })
		time.Sleep(time.Hour)
		d.Stop()
		writer.Wait()
		again.Finish()
		d.Close()
	})
}
