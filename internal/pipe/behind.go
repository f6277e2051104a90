package pipe

import "github.com/seed65876f4f/sealift/internal/fsys"

// file is the part of a *fsys.File that a Device uses.
type file interface {
	StartWriteback(off, n int64) error
	WaitWriteback(off, n int64) error
	Datasync() error
	DropCacheBehind(off, n int64)
	Close()
}

// ownedFile is a file that its owner may close at any time after Finish.
type ownedFile interface {
	file
	dup() (file, error)
}

type systemFile struct{ *fsys.File }

func (f systemFile) dup() (file, error) {
	d, err := f.Dup()
	if err != nil {
		return nil, err
	}
	return d, nil
}

// chunk is a range of a file that is written back with one call.
type chunk struct {
	of     *Behind
	file   file  // the duplicate; nil if the chunk is on the device already
	off, n int64 // the range, holes included
	bytes  int64 // bytes of the range that count as unwritten
	err    error // the error of submitting the chunk
	last   bool  // the last chunk of the file, which is closed after it
}

// Behind starts writeback of one file while one goroutine at a time writes it in order.
type Behind struct {
	device *Device
	owned  ownedFile
	failed func(error)

	open file // the duplicate, from the first chunk on; only the writer uses it

	// Guarded by the device's mu.
	off, end     int64 // the range of the chunk that is not full yet
	bytes        int64 // written bytes of that range
	queuedChunks int   // chunks for which no Datasync has begun; used without ranges
	queuedBytes  int64

	// Only the device's goroutine uses these.
	reported bool  // true after a call of failed
	synced   int   // chunks in the queue that a Datasync has confirmed already
	written  int64 // end of the data on the device
	dropped  int64 // end of the data that was dropped from the page cache
}

// Behind returns a Behind for f, which must stay open until Finish. It calls failed at most
// once, with a writeback error: data of the file may be lost. No other call may return that
// error, because the system reports it once for each open file, and a duplicate shares the
// open file. The bytes count as confirmed nevertheless.
//
// The device's goroutine calls failed before it confirms the bytes, so all errors have been
// reported after Finish and Drain. failed must not wait for the device. When it is called, the
// file may still be open, even under its final name.
func (d *Device) Behind(f *fsys.File, failed func(error)) *Behind {
	return d.behind(systemFile{f}, failed)
}

func (d *Device) behind(f ownedFile, failed func(error)) *Behind {
	return &Behind{device: d, owned: f, failed: failed}
}

// Wrote must be called after n bytes were written at the offset off, before the next write. It
// starts writeback of full chunks, and waits while the device has too much unwritten data.
func (b *Behind) Wrote(off, n int64) {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if n <= 0 || d.mu.stopped {
		return
	}
	d.mu.unwritten += n
	for n > 0 && !d.mu.stopped {
		step := min(n, d.chunkSize()-b.bytes)
		if b.bytes > 0 && (step <= 0 || off < b.end) { // the window has shrunk, or a range is written again
			b.submit(false)
			continue
		}
		b.extend(off, step)
		off, n = off+step, n-step
		if b.bytes >= d.chunkSize() {
			b.submit(false)
		}
	}
	d.wait(b)
}

// Finish submits the rest without waiting for it. The owner may close the file afterwards.
// Finish must be called exactly once, also after errors and after Stop.
func (b *Behind) Finish() {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case b.bytes > 0 && !d.mu.stopped:
		b.submit(true)
	case b.open != nil:
		d.enqueue(chunk{of: b, file: b.open, last: true})
	}
}

// extend adds a range to the chunk that is not full yet. Holes do not count as unwritten.
func (b *Behind) extend(off, n int64) {
	if b.bytes == 0 {
		b.off = off
	}
	b.end = off + n
	b.bytes += n
}

// submit turns the range so far into a chunk. It releases the lock meanwhile.
func (b *Behind) submit(last bool) {
	d := b.device
	for d.mu.held > 0 && !d.mu.stopped && !last {
		d.mu.progress.Wait()
	}
	c := chunk{of: b, off: b.off, n: b.end - b.off, bytes: b.bytes, last: last}
	b.bytes = 0
	d.mu.submitted += c.bytes
	d.startClock()
	d.mu.Unlock()
	b.start(&c)
	d.mu.Lock()
	d.enqueue(c)
}

// start begins writeback of the chunk. If no descriptor is left for a duplicate, start also
// waits until the chunk is on the device.
func (b *Behind) start(c *chunk) {
	if b.open == nil {
		dup, err := b.owned.dup()
		if err != nil {
			c.err = b.device.flush(b.owned, c)
			return
		}
		b.open = dup
	}
	c.file = b.open
	if b.device.ranges {
		c.err = c.file.StartWriteback(c.off, c.n)
	}
}

// flush waits until the chunk is on the device.
func (d *Device) flush(f file, c *chunk) error {
	if d.ranges {
		return f.WaitWriteback(c.off, c.n)
	}
	return f.Datasync()
}

// report calls failed with the first error.
func (b *Behind) report(err error) {
	if err != nil && !b.reported {
		b.reported = true
		b.failed(err)
	}
}

// dropWritten drops written data from the page cache, up to the last aligned offset, or up to
// the end after the last chunk.
func (b *Behind) dropWritten(c *chunk) {
	if drop := b.device.drop; c.file == nil || drop == nil || !drop() {
		return
	}
	end := b.written
	if !c.last {
		end &^= dropAlignment - 1
	}
	if end > b.dropped {
		c.file.DropCacheBehind(b.dropped, end-b.dropped)
		b.dropped = end
	}
}

func (c *chunk) closeLast() {
	if c.last && c.file != nil {
		c.file.Close()
	}
}
