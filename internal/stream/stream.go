package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

const (
	// unitSize is the size of a buffer, in bytes. A single stream has fewer buffers than the
	// many files of a tree, so larger ones stay in the L2 cache. 512 KiB needed a seventh less
	// processor time than 128 KiB.
	unitSize  = 512 << 10
	queueSize = 4 // buffers that may wait in a lane

	// mostMemory limits the memory of the buffers for devices with records, in bytes. There
	// are always at least two buffers.
	mostMemory = 64 << 20
)

// run is one execution of Run.
type run struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the run
	opts     *Options
	counters *counters.Set
	stop     *fsys.Stop

	in         input
	outputs    []*output
	limit      int64 // bytes to read; -1 for all
	left       int64 // rest of the limit
	skip, seek int64 // offsets in bytes
	unit       int   // size of a buffer in bytes
	byRecord   bool  // true if each buffer is a record
	pipe       *pipe.Pipe
	set        *hash.Set
	devices    []pipe.Gauged // devices of the outputs whose unwritten data is limited
	gauge      *pipe.Gauge
	manifest   *catalog.File     // manifest to write; nil for none
	builder    *manifest.Builder // builder of the manifest
	listed     record.Written    // the manifest, if it was written
	errors     atomic.Int64
	noDirect   sync.Once
	drops      bool
	records    Records // number of records of the input
	complete   bool    // true if the input was read to its end, or to Options.Count
}

// Run copies as o says and reports through o.Report and c. The error is a
// *failure.RefusedError if Run refused the request and wrote nothing. It is the cause of
// ctx's end if the run was stopped. Any other error has ended the copy early. The summary
// has the work until then, and all failures. When Run returns, all its goroutines have
// ended. The exception is one that waits for the other end of a fifo that the user may open
// in one direction only.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	stop, err := fsys.NewStop()
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	defer context.AfterFunc(ctx, stop.Raise)()
	r := &run{ctx: ctx, opts: o, counters: c, stop: stop, set: hash.NewSet(o.Hashes)}
	r.in.run = r
	defer r.close()
	err = r.open()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		r.undo()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	r.setTotals()
	r.prepare()
	c.Phase.Store(int32(counters.PhaseCopying))
	read := r.move()
	c.Phase.Store(int32(counters.PhaseFlushing))
	r.finish()
	r.leaveInput()
	err = r.readResult(read)
	if err == nil {
		err = r.writeManifest()
	}
	c.Phase.Store(int32(counters.End(err != nil)))
	return r.summary(begun), err
}

// setBuffers sets the size and the number of the buffers.
func (r *run) setBuffers() {
	r.byRecord = r.in.Records
	for _, out := range r.outputs {
		r.byRecord = r.byRecord || out.to.Records
	}
	r.unit = unitSize
	memory := int64(queueSize+2) * unitSize
	if r.byRecord {
		r.unit = int(r.opts.BlockSize)
		memory = max(min((queueSize+2)*r.opts.BlockSize, mostMemory), 2*r.opts.BlockSize)
	}
	if limit := r.opts.BytesPerSecond; limit > 0 && !r.byRecord { // small buffers, for an even rate
		r.unit = int(min(max(limit/8, fsys.DirectAlignment)&^(fsys.DirectAlignment-1), unitSize))
	}
	r.pipe = &pipe.Pipe{Pool: pipe.NewPool(r.unit, memory), QueueSize: queueSize}
	if r.opts.BytesPerSecond > 0 {
		r.pipe.Limiter = pipe.NewLimiter(r.opts.BytesPerSecond, r.unit)
	}
}

// setTotals sets the number of bytes to copy, if it is known.
func (r *run) setTotals() {
	total := r.left
	if r.in.Seeks && r.in.Size > 0 {
		if rest := r.in.Size - r.in.off; total < 0 || rest < total {
			total = rest
		}
	}
	if total >= 0 {
		r.counters.TotalBytes.Store(total)
		r.counters.ScanDone.Store(true)
	}
	memory := fsys.Memory()
	r.drops = r.opts.Cache >= pipe.CacheDrop || r.opts.Cache == pipe.CacheAuto && memory > 0 && total > memory/2
}

// prepare truncates the outputs, after all refusals, and starts the goroutines beside the
// copy.
func (r *run) prepare() {
	if r.opts.Cache == pipe.CacheDirect {
		r.in.direct.wanted = r.bypass(r.opts.Input, r.in.Stream)
		r.in.direct.on = r.in.direct.wanted
	}
	if r.drops && !r.in.direct.wanted && r.in.Seeks && r.in.Size > 0 {
		if r.in.evict = pipe.NewEviction(&r.in.File, r.in.Size); r.in.evict == nil {
			r.in.SetUncached(true)
		}
	}
	devices := map[uint64]int{} // device number → index in r.devices
	for _, out := range r.outputs {
		if err := out.prepare(); err != nil {
			out.failed = true
			r.fail(out.name, failure.StageWrite, err)
			continue
		}
		direct := r.opts.Cache == pipe.CacheDirect && r.bypass(out.name, out.to)
		switch {
		case out.syncs() && out.to.WritesBehind():
			r.follow(out, devices)
		case r.drops && !direct:
			out.to.SetUncached(true)
		}
	}
	r.gauge = pipe.NewGauge(r.ctx, r.devices, r.counters)
}

// bypass makes a stream bypass the page cache, and reports whether it does.
func (r *run) bypass(name string, s *fsys.Stream) bool {
	if !s.Seeks {
		return false // a memory device has no cache
	}
	_, err := s.SetDirect(true)
	if err != nil {
		r.warnDirect(name, err)
	}
	return err == nil
}

// warnDirect warns once that the page cache is not bypassed.
func (r *run) warnDirect(name string, err error) {
	r.noDirect.Do(func() {
		r.report(Event{Warning: true, Err: fmt.Errorf("the page cache cannot be bypassed at %s: %w", quote.Name(name), err)})
	})
}

// follow makes the output's device start writeback while the output is written.
func (r *run) follow(o *output, devices map[uint64]int) {
	id := o.to.Info.ID.Dev
	if o.to.Info.Kind == fsys.BlockDevice {
		id = o.to.Info.Rdev
	}
	i, known := devices[id]
	if !known {
		i = len(r.devices)
		devices[id] = i
		r.devices = append(r.devices, pipe.Gauged{Device: pipe.NewDevice(pipe.DeviceOptions{Ranges: true, Drop: func() bool { return r.drops }})})
	}
	d := &r.devices[i]
	d.Copies++
	o.device, o.behind = d.Device, d.Behind(&o.to.File, o.loseUnwritten)
}

// errUnwanted ends the copy when all outputs have failed.
var errUnwanted = errors.New("no output is left")

// move reads the stream and sends it to the digests and outputs, until the end.
func (r *run) move() error {
	var outputs []pipe.Output
	sequential := r.set.Len() == 0
	for _, out := range r.outputs {
		if !out.failed {
			outputs = append(outputs, out)
			sequential = sequential && out.to.Memory
		}
	}
	if len(outputs) == 0 {
		return errUnwanted
	}
	flow := r.pipe.Flow(r.set, outputs, sequential)
	defer flow.Close()
	records := int64(-1) // number of records to read from a device that keeps them; -1 for all
	if r.in.Records && r.opts.Count != nil && !r.opts.Count.Bytes {
		records = r.opts.Count.N
	}
	for r.ctx.Err() == nil {
		if !flow.Wanted() {
			return errUnwanted
		}
		if r.left == 0 || records == 0 {
			return nil
		}
		b, err := r.pipe.Pool.Get(r.ctx)
		if err != nil {
			return err
		}
		n, err := r.in.fill(b.Buf, r.left)
		if n == 0 {
			b.Release()
			return err
		}
		if paced := r.pipe.Pace(r.ctx, n, nil); paced != nil {
			b.Release()
			return paced
		}
		r.records.count(int64(n), r.opts.BlockSize)
		flow.Send(b, n, r.in.total)
		r.in.advance(n)
		r.counters.Bytes.Add(int64(n))
		if r.left > 0 {
			r.left -= int64(n)
		}
		if records > 0 {
			records--
		}
		if err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

// finish completes the outputs at the same time: each may wait for its own device.
func (r *run) finish() {
	var group sync.WaitGroup
	for _, out := range r.outputs {
		group.Go(func() {
			if !out.failed && r.ctx.Err() == nil {
				out.finish()
			} else if !out.failed {
				if err := out.complete(); err != nil {
					out.fail(err)
				}
			}
			out.leave()
		})
	}
	group.Wait()
	r.gauge.Stop()
	for _, d := range r.devices {
		d.Close()
	}
}

// leaveInput restores the state and the position of an inherited input.
func (r *run) leaveInput() {
	if r.in.evict != nil {
		r.in.evict.End(r.in.off)
	}
	if r.opts.Input == standard && r.in.Seeks {
		r.in.restore()
		if err := r.in.Leave(r.in.off); err != nil {
			r.fail(r.opts.Input, failure.StageRead, err)
		}
	}
}

// readResult interprets the error that ended the reading. It reports an error of the input,
// and returns the cause if the run was stopped.
func (r *run) readResult(read error) error {
	r.complete = read == nil
	switch cause := context.Cause(r.ctx); {
	case cause != nil:
		return cause
	case read == nil || errors.Is(read, errUnwanted):
	default:
		r.fail(r.opts.Input, failure.StageRead, fmt.Errorf("%w; %s", r.readError(read), r.bytesKept()))
	}
	return nil
}

// bytesKept describes how much of a stream that has ended early is at the outputs.
func (r *run) bytesKept() string {
	synced := len(r.outputs) > 0
	for _, out := range r.outputs {
		synced = synced && out.syncs() && !out.failed
	}
	if synced {
		return fmt.Sprintf("the %d bytes before it are on the device", r.in.total)
	}
	return fmt.Sprintf("%d bytes were copied", r.in.total)
}

func (r *run) fail(name string, stage failure.Stage, err error) {
	r.errors.Add(1)
	r.report(Event{Err: &failure.FileError{Path: name, Stage: stage, Err: err}})
}

func (r *run) report(e Event) {
	if r.opts.Report != nil {
		r.opts.Report(e)
	}
}

func (r *run) summary(begun time.Time) *Summary {
	s := &Summary{In: r.records, Complete: r.complete, Errors: r.errors.Load(), Elapsed: time.Since(begun)}
	if !r.byRecord {
		s.In = recordsOf(r.in.total, r.opts.BlockSize)
	}
	for _, out := range r.outputs {
		w := out.account()
		s.Bytes = max(s.Bytes, w.Bytes)
		s.Outputs = append(s.Outputs, w)
	}
	if r.complete {
		s.Digests = r.set.Digests()
	}
	s.Manifest, s.Lines, s.Dropped = r.listed.Path, r.listed.Lines, r.listed.Dropped
	return s
}
