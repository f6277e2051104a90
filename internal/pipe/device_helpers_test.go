//go:build linux

package pipe

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
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
	m.group.Add(n)
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

// memoryFile is as fast as it gets.
type memoryFile struct{}

func (memoryFile) StartWriteback(_, _ int64) error { return nil }
func (memoryFile) WaitWriteback(_, _ int64) error  { return nil }
func (memoryFile) Datasync() error                 { return nil }
func (memoryFile) DropCacheBehind(_, _ int64)      {}
func (memoryFile) Close()                          {}
func (f memoryFile) dup() (file, error)            { return f, nil }
