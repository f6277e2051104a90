package pipe

import (
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/timing"
)

// Limits of the window where it adapts, and how it does.
const (
	firstWindow   = 32 << 20 // bytes, while no speed is known
	leastWindow   = 4 << 20  // bytes
	largestWindow = 1 << 30  // bytes
	measureFor    = 500 * time.Millisecond
)

// Chunks are what is submitted and waited for at once, where ranges can be.
const (
	leastChunk   = 1 << 20  // bytes
	largestChunk = 8 << 20  // bytes
	chunkUnit    = 64 << 10 // bytes, the largest page there is: one that two chunks share is written twice
)

// dropAlignment is what ranges to be dropped are multiples of, in bytes: see
// fsys.File.DropCacheBehind.
const dropAlignment = 4 << 20

// Device bounds what has been written to files of one device and is not there
// yet, so that a copy neither fills the memory nor ends long after it seems to.
// Whole files are followed by Behind, small ones, closed already, by a Group.
//
// What is unwritten counts from Wrote or Add until it is confirmed, and whoever
// exceeds the window waits in there: the ceiling is the window and one block for
// each writer. Files are written in a sliding window of chunks: their writers
// start writing them back, and one goroutine waits for them in turn, so that the
// device has the next ones while the first is waited for.
//
// The measured speed is that of confirmed bytes while there was something to
// wait for: a chunk from before it was submitted, a Group's bytes from Mark to
// Flushed. Bytes that somebody adds while nothing is submitted do not slow it
// down, but what a flush costs besides the bytes does: where a flush takes a
// second whatever its size, a window that adapts to small files alone ends up
// at its least.
//
// Nobody waits for ever. What is waited for is bytes that are submitted, which
// the goroutine confirms whatever happens to them, and those of Groups, whose
// owners are asked to flush. Bytes of a chunk that is not full yet are nobody's
// to confirm: a waiter submits its own, and while those of other files, whose
// writers may be stuck at a slow source, exceed the window by themselves and
// nothing is submitted, it goes on. The ceiling holds then, too: everybody's
// last block is on the device before the next one is written.
type Device struct {
	ranges bool
	adapts bool
	drop   func() bool
	done   chan struct{} // closed by the goroutine when it ends

	mu struct {
		sync.Mutex           // never held in a system call or a callback
		work       sync.Cond // of the goroutine: the queue has something, or closed
		progress   sync.Cond // of all others: something was confirmed or dealt with, or stopped
		queue      []chunk   // first in, first out
		spare      []chunk   // the memory of the queue before
		window     int64     // bytes
		unwritten  int64     // bytes written and not confirmed
		submitted  int64     // of them, those of chunks that are submitted or just being
		pending    int64     // of them, those of groups
		groups     []*Group
		held       int // Holds under way
		stopped    bool
		closed     bool
		gone       bool   // the goroutine takes nothing from the queue any more
		put, took  uint64 // chunks put into the queue, chunks dealt with

		rate      int64 // bytes per second, 0 while unknown
		flushing  int   // groups of which a flush is under way
		busySince time.Time
		busy      time.Duration // since the last measurement, up to busySince
		confirmed int64         // bytes since the last measurement
	}
}

// DeviceOptions say how a Device works.
type DeviceOptions struct {
	Window int64       // bytes that may be unwritten; 0 adapts to two seconds of the measured speed
	Ranges bool        // StartWriteback works on its file systems; else a Datasync of the file stands in for waiting for a range
	Drop   func() bool // asked for each chunk: evict what has been written from the page cache; may be nil
}

// NewDevice starts a goroutine; Close ends it.
func NewDevice(o DeviceOptions) *Device {
	d := &Device{
		ranges: o.Ranges,
		adapts: o.Window == 0,
		drop:   o.Drop,
		done:   make(chan struct{}),
	}
	d.mu.window = o.Window
	if d.adapts {
		d.mu.window = firstWindow
	}
	d.mu.work.L, d.mu.progress.L = &d.mu, &d.mu
	go d.run()
	return d
}

// Close gives up what is queued, as Stop does, and waits for the goroutine and
// the one system call that it may be in. It has closed the duplicates of all
// files that were finished; Finish closes the others'. Not to be called from
// failed.
func (d *Device) Close() {
	d.Stop()
	d.mu.Lock()
	d.mu.closed = true
	d.mu.work.Signal()
	d.mu.Unlock()
	<-d.done
}

// Stop ends all waiting, now and from now on: the run was stopped. What is
// queued is given up and stays unwritten.
func (d *Device) Stop() {
	d.mu.Lock()
	d.mu.stopped = true
	d.mu.progress.Broadcast()
	d.mu.Unlock()
}

// Unwritten is how many bytes are written and not confirmed.
func (d *Device) Unwritten() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.unwritten
}

// Rate is the measured speed in bytes per second, 0 while it is unknown.
func (d *Device) Rate() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.rate
}

// Hold keeps files that are being written from submitting more, until Release.
// Flushing a file system waits for pages under writeback from the beginning to the
// end of each file, and a writer who goes on stays ahead of that. What is submitted
// already keeps the device busy meanwhile.
func (d *Device) Hold() {
	d.mu.Lock()
	d.mu.held++
	d.mu.Unlock()
}

// Release ends one Hold.
func (d *Device) Release() {
	d.mu.Lock()
	d.mu.held--
	d.mu.progress.Broadcast()
	d.mu.Unlock()
}

// Drain waits until every chunk that was queued before has been dealt with, its
// error told and its file closed if it was the last, or until Stop.
func (d *Device) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for goal := d.mu.put; d.mu.took < goal && !d.mu.stopped; {
		d.mu.progress.Wait()
	}
}

// enqueue hands a chunk to the goroutine. Where that has ended, nobody else uses
// the file.
func (d *Device) enqueue(c chunk) {
	if !d.mu.gone {
		d.mu.put++
		if c.bytes > 0 && c.file != nil {
			c.of.queuedChunks++
			c.of.queuedBytes += c.bytes
		}
		d.mu.queue = append(d.mu.queue, c)
		d.mu.work.Signal()
		return
	}
	d.mu.Unlock()
	c.of.report(c.err)
	c.closeLast()
	d.mu.Lock()
}

// waitForProgress waits for what may make room.
func (d *Device) waitForProgress(c *timing.Clock) {
	defer c.Wait(timing.Window, c.Here()).Resume()
	d.mu.progress.Wait()
}

// wait returns when there is room. b is the waiter's file, or nil, and c its clock.
//
// When little is submitted of a lot, the device would run dry: the chunk is
// submitted though it is not full, and somebody who waits asks the groups to be
// flushed. To do so always would make for small chunks and for flushes of next to
// nothing.
func (d *Device) wait(b *Behind, c *timing.Clock) {
	for !d.mu.stopped {
		full := d.mu.unwritten > d.mu.window
		dry := 2*d.mu.unwritten >= d.mu.window && 4*d.mu.submitted < d.mu.window
		switch {
		case dry && b != nil && b.bytes > 0:
			b.submit(false)
			continue
		case !full:
			return
		case dry:
			for _, g := range d.mu.groups {
				g.ask(1)
			}
			if d.mu.submitted == 0 && d.mu.pending == 0 {
				return // see Device
			}
		}
		d.waitForProgress(c)
	}
}

// chunkSize is how many bytes of a file are submitted at once: without ranges,
// one half of the window is written while the other fills.
func (d *Device) chunkSize() int64 {
	size := d.mu.window / 2
	if d.ranges {
		size = min(size, max(leastChunk, min(largestChunk, d.mu.window/8)))
	}
	return max(size&^(chunkUnit-1), chunkUnit)
}

// run is the goroutine.
func (d *Device) run() {
	defer close(d.done)
	for {
		batch := d.next()
		if batch == nil {
			return
		}
		for i := range batch {
			d.deal(&batch[i])
		}
		clear(batch)
		d.mu.Lock()
		d.mu.spare = batch
		d.mu.Unlock()
	}
}

// next waits for chunks and takes them all; nil is the end.
func (d *Device) next() []chunk {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.mu.queue) == 0 {
		if d.mu.closed {
			d.mu.gone = true
			return nil
		}
		d.mu.work.Wait()
	}
	batch := d.mu.queue
	d.mu.queue, d.mu.spare = d.mu.spare[:0], nil
	return batch
}

// deal does all that is to be done with a chunk that is submitted.
func (d *Device) deal(c *chunk) {
	b := c.of
	b.report(c.err)
	switch {
	case c.bytes == 0:
	case c.file == nil:
		d.confirm(c.bytes)
	case b.synced > 0:
		b.synced--
	default:
		d.await(c)
	}
	b.dropWritten(c)
	c.closeLast()
	d.mu.Lock()
	d.mu.took++
	d.mu.progress.Broadcast()
	d.mu.Unlock()
}

// await waits until the chunk is on the device, and confirms that. A Datasync
// takes everything along that was written before.
func (d *Device) await(c *chunk) {
	b := c.of
	d.mu.Lock()
	bytes, end := c.bytes, c.off+c.n
	if !d.ranges {
		bytes, end = b.queuedBytes+b.bytes, b.end
		d.mu.submitted += b.bytes
		b.synced = b.queuedChunks - 1
		b.queuedChunks, b.queuedBytes, b.bytes = 0, 0, 0
	}
	stopped := d.mu.stopped
	d.mu.Unlock()
	if stopped {
		return
	}
	b.report(d.flush(c.file, c))
	if c.off < b.dropped { // written again
		b.dropped, b.written = c.off&^(dropAlignment-1), 0
	}
	b.written = max(b.written, end)
	d.confirm(bytes)
}

// confirm takes bytes of chunks off the account.
func (d *Device) confirm(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.submitted -= n
	d.settle(n)
}

// settle takes bytes that are on the device, or lost, off the account.
func (d *Device) settle(n int64) {
	d.mu.unwritten -= n
	d.mu.confirmed += n
	d.measure()
	d.mu.progress.Broadcast()
}

// startClock begins to count the time that the device is busy.
func (d *Device) startClock() {
	if d.mu.busySince.IsZero() {
		d.mu.busySince = time.Now()
	}
}

// measure stops the clock if nothing is waited for any more, and sets the speed
// and the window once it has run for long enough.
func (d *Device) measure() {
	if d.mu.busySince.IsZero() {
		return
	}
	now := time.Now()
	d.mu.busy += now.Sub(d.mu.busySince)
	d.mu.busySince = now
	if d.mu.submitted == 0 && d.mu.flushing == 0 {
		d.mu.busySince = time.Time{}
	}
	if d.mu.busy < measureFor || d.mu.confirmed == 0 {
		return
	}
	latest := int64(float64(d.mu.confirmed) / d.mu.busy.Seconds())
	d.mu.confirmed, d.mu.busy = 0, 0
	if d.mu.rate == 0 {
		d.mu.rate = latest
	}
	d.mu.rate = max((d.mu.rate+latest)/2, 1)
	if d.adapts {
		// It grows slowly: a device's own cache swallows the first seconds at a speed
		// that the device cannot keep. When that ends, the last measurement counts and
		// not those before; but a single stall must not take all of the window away.
		goal := min(max(2*min(d.mu.rate, latest), d.mu.window/2), d.mu.window+d.mu.window/2)
		d.mu.window = min(max(goal, leastWindow), largestWindow)
	}
}
