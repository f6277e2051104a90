package pipe

import (
	"sync"
	"time"
)

// Limits of a window that adapts, and how it adapts.
const (
	firstWindow   = 32 << 20 // bytes, while no speed is known
	leastWindow   = 4 << 20  // bytes
	largestWindow = 1 << 30  // bytes
	measureFor    = 500 * time.Millisecond
)

// Sizes of chunks if the device has ranges. Each chunk is submitted, and waited for, with one
// call.
const (
	leastChunk   = 1 << 20  // bytes
	largestChunk = 8 << 20  // bytes
	chunkUnit    = 64 << 10 // bytes, the largest page; a page that two chunks share would be written twice
)

// dropAlignment is the unit of ranges that are dropped from the page cache, in bytes: see
// fsys.File.DropCacheBehind.
const dropAlignment = 4 << 20

// Device limits the unwritten data of files on one device, so that a copy neither fills the
// memory nor ends long after it seems complete. A Behind follows one large file while it is
// written; a Group counts small files that are closed.
//
// Bytes count as unwritten from Wrote or Add until they are confirmed. A writer that exceeds
// the window waits in Wrote or Add, so at most the window and one block of each writer are
// unwritten. Files are written in a sliding window of chunks. Writers submit chunks, which
// starts writeback, and one goroutine waits for them one after the other. So the device
// always has the next chunks to write.
//
// The measured speed is the number of confirmed bytes divided by the time in which the device
// was busy. A chunk makes it busy from before its submission, a Group from Mark to Flushed.
// Bytes that are added while nothing is submitted do not lower the speed. The constant cost of
// a flush does: if each flush takes a second, a window that adapts to small files alone
// shrinks to leastWindow.
//
// No writer waits for ever. It waits for submitted bytes, which the goroutine confirms also
// after errors, and for bytes of Groups, whose owners are asked to flush. Nothing confirms the
// bytes of a chunk that is not full yet, so a waiting writer submits its own. The writers of
// other files may wait for a slow source. If their chunks alone exceed the window and nothing
// is submitted, the writer continues. The limit holds nevertheless: the last block of each
// writer is on the device before the next one is written.
type Device struct {
	ranges bool
	adapts bool
	drop   func() bool
	done   chan struct{} // a channel that the goroutine closes when it ends

	mu struct {
		sync.Mutex           // This lock is never held in a system call or a callback.
		work       sync.Cond // wakes the goroutine: the queue has something, or closed is set
		progress   sync.Cond // wakes all others: something was confirmed or left the queue, or Stop was called
		queue      []chunk   // first in, first out
		spare      []chunk   // memory of an earlier queue, for the next one
		window     int64     // bytes
		unwritten  int64     // bytes written and not confirmed
		submitted  int64     // the part of unwritten in chunks whose submission has begun
		pending    int64     // the part of unwritten in groups
		groups     []*Group
		held       int // calls of Hold without Release
		stopped    bool
		closed     bool
		gone       bool   // true if the goroutine takes nothing from the queue any more
		put, took  uint64 // chunks put into the queue, chunks finished

		rate      int64 // bytes per second, 0 while unknown
		flushing  int   // groups that are being flushed
		busySince time.Time
		busy      time.Duration // busy time since the last measurement, up to busySince
		confirmed int64         // bytes since the last measurement
	}
}

// DeviceOptions say how a Device works.
type DeviceOptions struct {
	Window int64       // bytes that may be unwritten; 0 adapts to two seconds of the measured speed
	Ranges bool        // true if all file systems support StartWriteback; otherwise the device calls Datasync
	Drop   func() bool // reports, for each chunk, whether to drop written data from the page cache; may be nil
}

// NewDevice returns a Device and starts its goroutine. The caller must Close it.
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

// Close calls Stop, and waits for the goroutine and the one system call that it may be in.
// Then the duplicates of all files that were finished are closed; Finish closes the others.
// Close must not be called from a Behind's function failed.
func (d *Device) Close() {
	d.Stop()
	d.mu.Lock()
	d.mu.closed = true
	d.mu.work.Signal()
	d.mu.Unlock()
	<-d.done
}

// Stop ends all present and future waits, because the run was stopped. The queued chunks are
// not waited for any more, and count as unwritten.
func (d *Device) Stop() {
	d.mu.Lock()
	d.mu.stopped = true
	d.mu.progress.Broadcast()
	d.mu.Unlock()
}

// Unwritten returns the number of bytes that are written and not confirmed.
func (d *Device) Unwritten() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.unwritten
}

// Rate returns the measured speed in bytes per second, 0 while it is unknown.
func (d *Device) Rate() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.rate
}

// Hold keeps files that are being written from submitting more, until Release.
// Flushing a file system waits for pages under writeback from the beginning to the
// end of each file, so a writer that continues could delay it. Chunks that are already
// submitted keep the device busy meanwhile.
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

// Drain waits until every chunk that was queued before is finished, its error reported and
// its file closed if it was the last, or until Stop.
func (d *Device) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for goal := d.mu.put; d.mu.took < goal && !d.mu.stopped; {
		d.mu.progress.Wait()
	}
}

// enqueue passes a chunk to the goroutine. If that has ended, it reports the chunk's error
// and closes the file itself.
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

// wait returns when the unwritten bytes fit the window. b is the waiter's file, or nil.
//
// If many bytes are unwritten and few of them submitted, the device would soon be idle (dry).
// Then the waiter submits its chunk although it is not full, and asks for a flush of the
// groups. Doing so always would make small chunks and flushes of few bytes.
func (d *Device) wait(b *Behind) {
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
				return // see the comment of Device
			}
		}
		d.mu.progress.Wait()
	}
}

// chunkSize returns the number of bytes that are submitted together. Without ranges it is half
// of the window, so that one half is written while the other fills.
func (d *Device) chunkSize() int64 {
	size := d.mu.window / 2
	if d.ranges {
		size = min(size, max(leastChunk, min(largestChunk, d.mu.window/8)))
	}
	return max(size&^(chunkUnit-1), chunkUnit)
}

// run is the device's goroutine: it finishes the chunks of the queue.
func (d *Device) run() {
	defer close(d.done)
	for {
		batch := d.next()
		if batch == nil {
			return
		}
		for i := range batch {
			d.finishChunk(&batch[i])
		}
		clear(batch)
		d.mu.Lock()
		d.mu.spare = batch
		d.mu.Unlock()
	}
}

// next waits for chunks and takes them all; nil means that the device is closed.
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

// finishChunk waits until a chunk is on the device, reports its error, drops it from the page
// cache and closes the file after the last one.
func (d *Device) finishChunk(c *chunk) {
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

// await waits until the chunk is on the device, and confirms that. A Datasync covers all
// bytes of the file that were written before.
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
	if c.off < b.dropped { // a range is written again
		b.dropped, b.written = c.off&^(dropAlignment-1), 0
	}
	b.written = max(b.written, end)
	d.confirm(bytes)
}

// confirm subtracts n bytes of chunks from submitted and unwritten.
func (d *Device) confirm(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.submitted -= n
	d.settle(n)
}

// settle subtracts n bytes, which are on the device or lost, from unwritten.
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

// measure stops the clock if the device is idle. When the clock has run for long enough, it
// sets the speed and the window.
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
		// The window grows slowly, because a device's own cache takes the data of the first
		// seconds at a speed that the device cannot keep. When the speed falls, only the last
		// measurement counts, but a single stall only halves the window.
		goal := min(max(2*min(d.mu.rate, latest), d.mu.window/2), d.mu.window+d.mu.window/2)
		d.mu.window = min(max(goal, leastWindow), largestWindow)
	}
}
