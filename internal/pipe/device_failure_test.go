//go:build linux

package pipe

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Writers that are stuck at a slow source with chunks that are not full do not
// keep others from going on.
func TestDeviceBesideStuckWriters(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		const block, window, stuck = 64 << 10, 8 * mib, 30
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Window: window, Ranges: ranges})
		begin := time.Now()
		var group sync.WaitGroup
		for range stuck {
			group.Go(func() {
				f := disk.create()
				b := d.behind(f, noFailure(t))
				for range mib/block - 1 {
					b.Wrote(f.write(block), block)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Hour)
				b.Wrote(f.write(block), block)
				b.Finish()
			})
		}
		time.Sleep(time.Minute)
		_, _ = stream(t, disk, d, 30*mib)
		m := disk.mount(t, d)
		for range 2000 {
			m.write(20_000)
		}
		require.Less(t, time.Since(begin), 2*time.Minute)
		// Nor if the device has become so slow that what they hold is too much.
		d.mu.Lock()
		d.mu.window = mib
		d.mu.Unlock()
		require.Greater(t, d.Unwritten(), int64(2*mib), "no writer waited with much data")
		_, _ = stream(t, disk, d, 3*mib)
		for range 100 {
			m.write(20_000)
		}
		require.Less(t, time.Since(begin), 3*time.Minute)
		group.Wait()
		m.flush()
		m.group.Leave()
		d.Drain()
		require.LessOrEqual(t, disk.peak, int64(window+(stuck+1)*(128<<10)))
		require.Zero(t, disk.left())
		require.Zero(t, d.Unwritten())
		require.Zero(t, disk.open)
		d.Close()
	})
}

// Stop ends all waiting at once; Close waits for one system call and leaves no
// descriptor, whenever the files are finished.
func TestDeviceStopEndsAllWaiting(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 1000} // a day and more for the window
		d := newDevice(t, DeviceOptions{Window: 100e6, Ranges: ranges})
		mounts := []*mount{disk.mount(t, d), disk.mount(t, d)}
		var files []*Behind
		var group sync.WaitGroup
		for i := range 8 {
			f := disk.create()
			b := d.behind(f, noFailure(t))
			files = append(files, b)
			group.Go(func() {
				for range 300 {
					b.Wrote(f.write(60e6), 60e6) // more than a chunk
				}
				if i%2 == 0 {
					b.Finish()
				}
			})
			group.Go(func() {
				for range 300 {
					mounts[i%2].write(mib)
				}
			})
		}
		group.Go(func() { d.Drain() })
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Positive(t, disk.open)
		waits := disk.waits
		begin := time.Now()
		for range 3 {
			group.Go(d.Stop)
		}
		group.Wait()
		d.Drain()
		require.Zero(t, time.Since(begin))
		require.GreaterOrEqual(t, d.Unwritten(), int64(100e6))
		files[1].Finish()
		require.Positive(t, disk.open)
		starts := disk.starts
		d.Close()
		require.Equal(t, waits, disk.waits, "no call was begun after Stop")
		d.Close()
		files[3].Finish()
		files[5].Wrote(0, mib)
		files[5].Finish()
		files[7].Finish()
		f := disk.create() // never waits, never opens anything
		b := d.behind(f, noFailure(t))
		b.Wrote(f.write(200e6), 200e6)
		b.Finish()
		mounts[0].write(200e6)
		d.Drain()
		require.Equal(t, starts, disk.starts)
		require.Zero(t, disk.open)
		for _, m := range mounts {
			m.group.Leave()
		}
	})
}

// An error is reported once for each file, before its bytes are confirmed. It stops
// nothing.
func TestDeviceReportsAnErrorOnceForEachFile(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: ranges})
		var reported []error
		waiting, starting, good := disk.create(), disk.create(), disk.create()
		waiting.fails = func(off int64) error {
			if ranges && off < 2*mib {
				return nil
			}
			return fmt.Errorf("waiting at %d: %w", off, errDisk)
		}
		starting.startFail = func(int64) error { return errDisk }
		a := d.behind(waiting, func(err error) { reported = append(reported, err) })
		count := 0
		b := d.behind(starting, func(err error) {
			require.ErrorIs(t, err, errDisk)
			require.Positive(t, d.Unwritten())
			count++
		})
		c := d.behind(good, noFailure(t))
		for range 30 {
			a.Wrote(waiting.write(mib), mib)
			b.Wrote(starting.write(mib), mib)
			c.Wrote(good.write(mib), mib)
		}
		a.Finish()
		b.Finish()
		c.Finish()
		d.Drain()
		require.Len(t, reported, 1)
		if ranges {
			require.EqualError(t, reported[0], "waiting at 2097152: bad sector")
			require.Equal(t, 1, count)
		}
		require.Zero(t, d.Unwritten())
		require.Zero(t, disk.left())
		require.LessOrEqual(t, disk.peak, int64(11*mib))

		last := disk.create()
		last.fails = func(int64) error { return errDisk }
		before := int64(-1)
		a = d.behind(last, func(error) { before = d.Unwritten() })
		a.Wrote(last.write(100), 100)
		a.Finish()
		d.Drain()
		require.EqualValues(t, 100, before)
		require.Zero(t, d.Unwritten())
		require.Zero(t, disk.open)
		d.Close()
	})
}

// Without a free descriptor, the limit holds and errors are reported.
func TestDeviceLimitHoldsWithoutDescriptors(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 40e6}
		d := newDevice(t, DeviceOptions{Window: 8 * mib, Ranges: ranges, Drop: func() bool { return true }})
		good, bad := disk.create(), disk.create()
		good.noDup, bad.noDup = true, true
		bad.fails = func(int64) error { return errDisk }
		count := 0
		a, b := d.behind(good, noFailure(t)), d.behind(bad, func(error) { count++ })
		for i := range 300 {
			a.Wrote(good.write(100_000), 100_000)
			b.Wrote(bad.write(100_000), 100_000)
			good.noDup = i < 200 // one is there later on
		}
		a.Finish()
		b.Finish()
		d.Drain()
		require.Equal(t, 1, count)
		require.Zero(t, disk.left())
		require.Zero(t, d.Unwritten())
		require.Zero(t, disk.open)
		require.LessOrEqual(t, disk.peak, int64(8*mib+200_000))
		d.Close()
	})
}

// Files and file systems of all kinds at once, with pauses and errors; in some
// rounds the run is stopped. A goroutine that waits for ever makes it fail.
func TestDeviceNeverWaitsForEver(t *testing.T) {
	for seed := range uint64(300) {
		bubble(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			window := r.Int64N(20 * mib)
			if seed%3 == 0 {
				window = 0
			}
			disk := &disk{speed: 1e6 + 2e8*r.Float64(), latency: time.Duration(r.Int64N(5e7))}
			d := newDevice(t, DeviceOptions{Window: window, Ranges: r.IntN(2) == 0, Drop: func() bool { return true }})
			block := 1 + r.Int64N(2*mib)
			mounts := []*mount{disk.mount(t, d), disk.mount(t, d)}
			var group sync.WaitGroup
			var failed, failures atomic.Int64
			writers := 2 + r.IntN(20)
			for i := range writers {
				r := rand.New(rand.NewPCG(seed, uint64(100+i)))
				pause := func() {
					if r.IntN(10) == 0 {
						time.Sleep(time.Duration(r.ExpFloat64() * 1e8))
					}
				}
				group.Go(func() {
					for range r.IntN(5) {
						if i%3 == 0 {
							for range r.IntN(100) {
								mounts[i/3%2].write(1 + r.Int64N(block))
								pause()
							}
							continue
						}
						f := disk.create()
						f.noDup = r.IntN(10) == 0
						if r.IntN(4) == 0 {
							f.fails = func(int64) error { return errDisk }
						}
						reported := false
						b := d.behind(f, func(error) {
							assert.False(t, reported)
							reported = true
							failures.Add(1)
						})
						for range r.IntN(100) {
							n := 1 + r.Int64N(block)
							b.Wrote(f.write(n), n)
							pause()
						}
						if f.fails != nil && f.written > 0 {
							failed.Add(1)
						}
						b.Finish()
					}
				})
			}
			stop := seed%4 == 1
			if stop {
				time.Sleep(time.Duration(r.Int64N(3e9)))
				d.Stop()
			}
			group.Wait()
			for _, m := range mounts {
				m.flush()
			}
			d.Drain()
			if !stop {
				require.Zero(t, d.Unwritten())
				require.Zero(t, disk.left())
				require.Zero(t, disk.open)
				require.Equal(t, failed.Load(), failures.Load())
				if window > 0 {
					require.LessOrEqual(t, disk.peak, window+int64(writers)*block)
				}
			}
			for _, m := range mounts {
				m.group.Leave()
			}
			d.Close()
			require.Zero(t, disk.open)
		})
	}
}
