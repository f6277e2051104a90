//go:build linux

package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// disk is a device in virtual time. It writes submitted chunks in order, and counts
// unwritten bytes separately.
type disk struct {
	mu      sync.Mutex
	speed   float64       // bytes per second
	latency time.Duration // of a flush or Datasync, on top
	cache   int64         // bytes that are taken at once before the speed counts

	begun     time.Time // of the first submission
	free      time.Time // when everything submitted is written
	idle      time.Duration
	jobs      []job // not known to be done
	unwritten int64
	peak      int64 // of unwritten
	open      int   // duplicates
	syncs     int   // calls of Datasync
	starts    int   // calls of StartWriteback
	waits     int   // calls of WaitWriteback and Datasync
	flushes   int
}

type job struct {
	done time.Time
	n    int64
}

func (d *disk) wrote(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	d.unwritten += n
	d.peak = max(d.peak, d.unwritten)
}

// settle takes off what has been written by now.
func (d *disk) settle() {
	now := time.Now()
	for len(d.jobs) > 0 && !d.jobs[0].done.After(now) {
		d.unwritten -= d.jobs[0].n
		d.jobs = d.jobs[1:]
	}
}

// submit returns when the n bytes will be written.
func (d *disk) submit(n int64) time.Time {
	d.settle()
	now := time.Now()
	if d.begun.IsZero() {
		d.begun, d.free = now, now
	}
	if d.free.Before(now) {
		d.idle += now.Sub(d.free)
		d.free = now
	}
	slow := max(n-d.cache, 0)
	d.cache -= n - slow
	d.free = d.free.Add(time.Duration(float64(slow) / d.speed * 1e9))
	d.jobs = append(d.jobs, job{d.free, n})
	return d.free
}

func (d *disk) left() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	return d.unwritten
}

var errDisk = errors.New("bad sector")

// diskFile is a file that is written from its beginning on.
type diskFile struct {
	disk      *disk
	written   int64 // bytes
	submitted int64 // bytes
	done      []time.Time
	ends      []int64 // of the ranges that will be written by done
	drops     [][2]int64
	noDup     bool
	fails     func(off int64) error // asked when the range at off is waited for
	startFail func(off int64) error
	isDup     bool
	closed    bool
	of        *diskFile // the file that a duplicate is of
}

func (d *disk) create() *diskFile { return &diskFile{disk: d} }

func (f *diskFile) dup() (file, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.noDup {
		return nil, unix.EMFILE
	}
	f.disk.open++
	return &diskFile{disk: f.disk, isDup: true, of: f}, nil
}

func (f *diskFile) Close() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.isDup || f.closed {
		panic("closed by a goroutine that does not own it, or twice")
	}
	f.closed = true
	f.disk.open--
}

// inode is the file that a descriptor is of. The disk's lock is held.
func (f *diskFile) inode() *diskFile {
	if f.closed {
		panic("used after it was closed")
	}
	if f.isDup {
		return f.of
	}
	return f
}

// write is what its owner does. It returns the offset.
func (f *diskFile) write(n int64) int64 {
	f.disk.wrote(n)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.written += n
	return f.written - n
}

// rewind goes back to the beginning, to write the file again.
func (f *diskFile) rewind() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.written, f.submitted, f.done, f.ends = 0, 0, nil, nil
}

// submitTo submits what is dirty up to an offset.
func (f *diskFile) submitTo(end int64) {
	if end = min(end, f.written); end > f.submitted {
		f.done = append(f.done, f.disk.submit(end-f.submitted))
		f.ends = append(f.ends, end)
		f.submitted = end
	}
}

func (f *diskFile) StartWriteback(off, n int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.starts++
	i := f.inode()
	i.submitTo(off + n)
	if i.startFail != nil {
		return i.startFail(off)
	}
	return nil
}

func (f *diskFile) WaitWriteback(off, n int64) error {
	f.disk.mu.Lock()
	f.disk.waits++
	i := f.inode()
	i.submitTo(off + n)
	until := time.Now()
	for k, end := range i.ends {
		if until = i.done[k]; end >= off+n {
			break
		}
	}
	f.disk.mu.Unlock()
	time.Sleep(time.Until(until))
	return f.outcome(off)
}

func (f *diskFile) outcome(off int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if i := f.inode(); i.fails != nil {
		return i.fails(off)
	}
	return nil
}

func (f *diskFile) Datasync() error {
	f.disk.mu.Lock()
	f.disk.syncs++
	f.disk.waits++
	i := f.inode()
	i.submitTo(i.written)
	f.disk.free = f.disk.free.Add(f.disk.latency)
	until := f.disk.free
	f.disk.mu.Unlock()
	time.Sleep(time.Until(until))
	return f.outcome(0)
}

func (f *diskFile) DropCacheBehind(off, n int64) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	i := f.inode()
	i.drops = append(i.drops, [2]int64{off, off + n})
}

// mount is a file system of small files on the disk, and a goroutine that flushes it.
type mount struct {
	disk  *disk
	group *Group
	dirty int64 // guarded by the disk's lock
	asked chan struct{}
}

func (d *disk) mount(t *testing.T, device *Device) *mount {
	m := &mount{disk: d, asked: make(chan struct{}, 1)}
	m.group = device.Join(m.asked)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-m.asked:
				m.flush()
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return m
}

func (m *mount) flush() {
	mark := m.group.Mark()
	m.disk.mu.Lock()
	m.disk.flushes++
	m.disk.submit(m.dirty)
	m.dirty = 0
	m.disk.free = m.disk.free.Add(m.disk.latency)
	until := m.disk.free
	m.disk.mu.Unlock()
	time.Sleep(time.Until(until))
	m.group.Flushed(mark)
}

func (m *mount) write(n int64) {
	m.disk.wrote(n)
	m.disk.mu.Lock()
	m.dirty += n
	m.disk.mu.Unlock()
	m.group.Add(n, nil)
}

// noFailure is for files of which nothing fails.
func noFailure(t *testing.T) func(error) { return func(err error) { assert.NoError(t, err) } }

// bubble runs a test in virtual time. The test fails with a list of all goroutines if one
// of them waits for ever.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// newDevice makes a device that is closed whatever happens.
func newDevice(t *testing.T, o DeviceOptions) *Device {
	d := NewDevice(o)
	t.Cleanup(d.Close)
	return d
}

func modes(t *testing.T, test func(t *testing.T, ranges bool)) {
	bubble(t, "ranges", func(t *testing.T) { test(t, true) })
	bubble(t, "whole files", func(t *testing.T) { test(t, false) })
}

const mib = 1 << 20

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
		g.Add(10, nil)
		first := g.Mark()
		g.Add(5, nil)
		second := g.Mark()
		g.Add(3, nil)
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
		g.Add(1, nil)
		g.Mark()
		g.Leave()
		g.Leave()
		g.Add(1, nil)
		g.Flushed(g.Mark())
		require.Zero(t, pendingOf(g))
		require.Zero(t, d.Unwritten())
		d.Close()
	})
}

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
		var told []error
		waiting, starting, good := disk.create(), disk.create(), disk.create()
		waiting.fails = func(off int64) error {
			if ranges && off < 2*mib {
				return nil
			}
			return fmt.Errorf("waiting at %d: %w", off, errDisk)
		}
		starting.startFail = func(int64) error { return errDisk }
		a := d.behind(waiting, func(err error) { told = append(told, err) })
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
		require.Len(t, told, 1)
		if ranges {
			require.EqualError(t, told[0], "waiting at 2097152: bad sector")
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
						told := false
						b := d.behind(f, func(error) {
							assert.False(t, told)
							told = true
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

// memoryFile is as fast as it gets.
type memoryFile struct{}

func (memoryFile) StartWriteback(_, _ int64) error { return nil }
func (memoryFile) WaitWriteback(_, _ int64) error  { return nil }
func (memoryFile) Datasync() error                 { return nil }
func (memoryFile) DropCacheBehind(_, _ int64)      {}
func (memoryFile) Close()                          {}
func (f memoryFile) dup() (file, error)            { return f, nil }

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
			g.Add(1000, nil)
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

func TestDeviceHoldKeepsWritersFromSubmitting(t *testing.T) {
	modes(t, func(t *testing.T, ranges bool) {
		disk := &disk{speed: 100e6}
		d := newDevice(t, DeviceOptions{Window: 100e6, Ranges: ranges})
		f, short := disk.create(), disk.create()
		b, last := d.behind(f, noFailure(t)), d.behind(short, noFailure(t))
		d.Hold()
		d.Hold()
		var writer sync.WaitGroup
		writer.Go(func() {
			for range 30 {
				b.Wrote(f.write(10e6), 10e6)
			}
			b.Finish()
		})
		last.Wrote(short.write(1000), 1000)
		last.Finish() // no goroutine waits for the end of a file
		time.Sleep(time.Hour)
		d.Drain()
		d.Release()
		time.Sleep(time.Hour)
		require.LessOrEqual(t, disk.waits, 1, "only the short file is submitted")
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
