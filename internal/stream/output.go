package stream

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// output writes the stream to one file, device or pipe. Only its lane uses it until the flow
// is closed.
type output struct {
	run       *run
	name      string // name that the user gave
	to        *fsys.Stream
	created   bool // true if this run has created the file
	truncates bool
	sparse    bool
	base      int64 // offset of the stream's first byte in the file
	oldEnd    int64 // end of the old content in the file; zeros after it need not be written
	end       int64 // end of the last written byte that is not in a hole

	written int64   // length of the written stream, holes included
	records Records // count of records where the device has them
	behind  *pipe.Behind
	device  *pipe.Device
	closed  bool
	failed  bool
	listed  bool // true if the file holds the stream and nothing else

	mu struct {
		sync.Mutex
		unsafe error // a writeback error, reported by the device's goroutine
	}
}

// prepare truncates the file. It reads the state of the file again, because the run may have
// waited for a fifo since it opened the file.
func (o *output) prepare() error {
	if o.to.Info.Kind != fsys.Regular || !o.to.Seeks {
		return nil
	}
	now, err := o.to.Stat()
	if err != nil {
		return err
	}
	o.oldEnd = now.Size
	if !o.truncates || o.oldEnd == o.base {
		return nil
	}
	o.oldEnd = o.base
	return o.to.Truncate(o.base)
}

// Put implements pipe.Output. It reports a failure at once, with the number of
// durable bytes, because the other outputs may continue for hours.
func (o *output) Put(data []byte, off int64) error {
	err := o.put(data, off)
	if err == nil && o.behind != nil {
		err = o.writtenBack()
	}
	if err != nil {
		o.fail(err)
		return err
	}
	o.records.count(int64(len(data)), o.run.opts.BlockSize)
	return nil
}

func (o *output) put(data []byte, off int64) (err error) {
	at := o.base + off
	if !o.sparse {
		return o.write(data, at)
	}
	pipe.EachRun(data, at, func(part []byte, at int64, zero bool) bool {
		if zero {
			err = o.hole(part, at)
		} else {
			err = o.write(part, at)
		}
		return err == nil
	})
	return err
}

func (o *output) write(data []byte, at int64) error {
	n, err := o.to.WriteAll(data, at)
	o.written += int64(n)
	if n > 0 {
		o.end = at + int64(n)
		if o.behind != nil {
			o.behind.Wrote(at, int64(n))
		}
	}
	return err
}

// hole makes a hole of zeros where that is possible. It writes zeros over old content.
func (o *output) hole(zeros []byte, at int64) error {
	if o.to.Info.Kind == fsys.BlockDevice && int64(len(zeros)) > o.to.Size-at {
		return o.write(zeros, at) // Zero would cut off a range beyond the end without an error
	}
	old := max(min(int64(len(zeros)), o.oldEnd-at), 0)
	if old > 0 {
		err := o.to.Zero(at, old)
		if fsys.Unsupported(err) || fsys.InvalidArgument(err) || fsys.NotPermitted(err) {
			err = o.write(zeros[:old], at)
		} else if err == nil {
			o.written += old
		}
		if err != nil {
			return err
		}
	}
	o.written += int64(len(zeros)) - old
	return nil
}

// complete sets the size of a file that ends in a hole.
func (o *output) complete() error {
	size := o.base + o.written
	if o.to.Info.Kind != fsys.Regular || !o.sparse || o.written == 0 || size <= max(o.end, o.oldEnd) {
		return nil
	}
	return o.to.Truncate(size)
}

// syncs reports whether the output has a device that can be flushed.
func (o *output) syncs() bool {
	return !o.run.opts.Unsynced && (o.to.Info.Kind == fsys.Regular || o.to.Info.Kind == fsys.BlockDevice)
}

// flush flushes everything to the device, once. A writeback error of the device's goroutine
// counts even if the sync succeeds, because the system returns that error only once.
func (o *output) flush() error {
	if o.behind != nil {
		o.behind.Finish()
		o.device.Drain()
		o.behind = nil
	}
	err := o.writtenBack()
	if err == nil && o.syncs() {
		err = o.to.Sync()
		if fsys.Unsupported(err) || fsys.InvalidArgument(err) {
			err = nil // a file in /proc, for example, is on no device
		}
	}
	if err == nil && o.created && o.syncs() {
		err = o.run.opts.FS.SyncParent(o.name)
	}
	return err
}

func (o *output) writtenBack() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.unsafe
}

func (o *output) loseUnwritten(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.unsafe = cmp.Or(o.mu.unsafe, err)
}

// fail reports err. Nothing more is written to the output.
func (o *output) fail(err error) {
	o.failed = true
	if errors.Is(err, fsys.ErrStopped) {
		return
	}
	reported := fmt.Errorf("%w after %d bytes", err, o.written)
	if o.syncs() {
		err := o.complete()
		if err == nil {
			err = o.flush()
		}
		if err == nil {
			reported = fmt.Errorf("%w; %d bytes are on the device", reported, o.written)
		} else {
			reported = fmt.Errorf("%w; it is not known what of them is on the device", reported)
		}
	}
	o.run.fail(o.name, failure.StageWrite, reported)
}

// finish flushes a complete output to its device and closes it.
func (o *output) finish() {
	if err := o.complete(); err != nil {
		o.fail(err)
		return
	}
	if err := o.flush(); err != nil {
		o.failed = true
		o.run.fail(o.name, failure.StageSync, fmt.Errorf("%w; it is not known what of the %d bytes is on the device", err, o.written))
	}
}

// leave ends writeback, restores an inherited descriptor, and closes the output, also after a
// failure.
func (o *output) leave() {
	if o.behind != nil {
		o.behind.Finish()
		o.behind = nil
	}
	if o.name == standard && o.to.Seeks {
		if o.run.opts.Cache == pipe.CacheDirect {
			_, _ = o.to.SetDirect(false) // other processes that share the descriptor expect the old state
		}
		if err := o.to.Leave(o.base + o.written); err != nil && !o.failed {
			o.failed = true
			o.run.fail(o.name, failure.StageWrite, err)
		}
	}
	if o.run.manifest != nil {
		var err error
		if o.listed, err = o.isStream(); err != nil {
			o.failed = true
			o.run.fail(o.name, failure.StageManifest, err)
		}
	}
	o.closed = true
	if err := o.to.CloseWritten(); err != nil && !o.failed {
		o.failed = true
		o.run.fail(o.name, failure.StageWrite, err)
	}
}

// account returns the number of blocks and bytes that were written.
func (o *output) account() Written {
	w := Written{Name: o.name, Records: o.records, Bytes: o.written}
	if !o.run.byRecord {
		w.Records = recordsOf(o.written, o.run.opts.BlockSize)
	}
	return w
}

// count counts a block of n bytes that was moved as one record.
func (r *Records) count(n, block int64) {
	if n == block {
		r.Full++
	} else {
		r.Partial++
	}
}

// recordsOf returns the number of blocks in a number of bytes. Only the last block can be
// partial.
func recordsOf(bytes, block int64) Records {
	r := Records{Full: bytes / block}
	if bytes%block != 0 {
		r.Partial = 1
	}
	return r
}
