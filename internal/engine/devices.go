package engine

import (
	"fmt"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// leastBehind is the size of a file from which on writeback follows it while it is
// written. Shorter ones are on the device when their file system is flushed.
const leastBehind = 1 << 20 // bytes

// device is what destinations on one device share.
type device struct {
	*pipe.Device
	copies int64 // destinations
}

// startTending begins what goes on beside the copy at every destination: bounding
// what is unwritten, and checkpoints.
func (r *run) startTending() {
	r.memory = fsys.Memory()
	r.gauge = make(chan struct{})
	devices := map[uint64]*device{}
	for _, t := range r.targets {
		if t.ledger == nil || t.isLost() {
			continue
		}
		t.untended = make(chan struct{})
		t.flushAsked = make(chan struct{}, 1)
		if r.opts.DirtyWindow != DirtyWindowOff && !t.root.InMemory() {
			d := devices[t.dev]
			if d == nil {
				d = &device{Device: pipe.NewDevice(pipe.DeviceOptions{
					Window: max(r.opts.DirtyWindow, 0),
					Ranges: t.root.WritesBehind(),
					Drop:   r.drops,
				})}
				devices[t.dev] = d
				r.devices = append(r.devices, d)
			}
			d.copies++
			t.behind = d.Device
			if t.wholeFS {
				t.group = d.Join(t.flushAsked)
			}
		}
		t.tending.Go(func() { t.tend(r) })
		t.tending.Go(func() { t.writeDown(r) })
	}
	r.gauging.Go(r.measure)
}

// stopTending ends the checkpoints.
func (r *run) stopTending() {
	for _, t := range r.targets {
		if t.untended != nil {
			close(t.untended)
			t.tending.Wait()
		}
	}
}

// measure keeps the counters of what is unwritten up to date, and sees to it that
// nobody waits for a device when the run is stopped.
func (r *run) measure() {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	ended := r.ctx.Done()
	for {
		select {
		case <-r.gauge:
			r.counters.Unwritten.Store(0)
			return
		case <-ended:
			for _, d := range r.devices {
				d.Stop()
			}
			ended = nil
			continue
		case <-ticker.C:
		}
		var most, rate int64
		for _, d := range r.devices {
			// What is written twice to one device counts once, as it is read.
			if n := d.Unwritten() / d.copies; n >= most {
				most, rate = n, d.Rate()/d.copies
			}
		}
		r.counters.Unwritten.Store(most)
		r.counters.DeviceRate.Store(rate)
	}
}

// stopGauge says that nothing is unwritten any more.
func (r *run) stopGauge() {
	if r.gauge == nil {
		return
	}
	close(r.gauge)
	r.gauging.Wait()
}

// drops reports whether the copy leaves nothing in the page cache.
func (r *run) drops() bool {
	switch r.opts.Cache {
	case CacheDrop, CacheDirect:
		return true
	case CacheAuto:
		// What is known of the run so far, which is all of it where it was counted.
		size := max(r.counters.TotalBytes.Load(), r.counters.Bytes.Load(), r.largest.Load())
		return r.memory > 0 && size > r.memory/2
	}
	return false
}

// openCache prepares a file of the source for the way in which it is to be read.
func (r *run) openCache(e *entry) {
	if size := e.meta.info.Size; size > r.largest.Load() {
		r.largest.Store(size) // which of two workers is the last does not matter much
	}
	if !r.drops() {
		return
	}
	if r.direct(e.meta.info.Size) {
		_, err := e.file.SetDirect(true)
		if e.direct = err == nil; e.direct {
			return
		}
		r.warnDirect("the source", err)
	}
	// Faster than reading with RWF_DONTCACHE, see docs/benchmarks.md.
	if e.evict = newEviction(e.file, e.meta.info.Size); e.evict == nil {
		e.file.SetUncached(true)
	}
}

// direct reports whether a file of this size bypasses the page cache. Comparing
// reads half a block at a time.
func (r *run) direct(size int64) bool {
	return r.opts.Cache == CacheDirect && size > int64(r.opts.BlockSize) && r.opts.BlockSize%(2*fsys.DirectAlignment) == 0
}

// createCache prepares a file that is to be written. direct says that it bypasses
// the page cache.
func (r *run) createCache(t *target, f *fsys.Pending, size int64) (direct bool) {
	if !r.drops() {
		return false
	}
	if r.direct(size) {
		_, err := f.SetDirect(true)
		if err == nil {
			return true
		}
		r.warnDirect(quoteName(t.given), err)
	}
	if size < leastBehind || t.behind == nil {
		f.SetUncached(true) // else the device's writeback drops what it has written
	}
	return false
}

// warnDirect says once that the page cache is not bypassed.
func (r *run) warnDirect(where string, err error) {
	r.noDirect.Do(func() {
		r.tell(Event{Kind: EventWarning, Err: fmt.Errorf("the page cache cannot be bypassed at %s; what is copied is dropped from it instead: %w", where, err)})
	})
}

// eviction drops what was read of a file from the page cache, but not what was
// there before.
type eviction struct {
	file    *fsys.File
	dropped int64
	keep    []bool // windows that had pages before; nil if none had
}

const evictWindow = 8 << 20 // bytes

// newEviction looks what is cached of a file; nil if the system does not say.
func newEviction(f *fsys.File, size int64) *eviction {
	held, known := f.Cached(0, 0)
	if !known {
		return nil
	}
	v := &eviction{file: f}
	if held {
		for off := int64(0); off < size; off += evictWindow {
			held, known := f.Cached(off, evictWindow)
			v.keep = append(v.keep, held || !known)
		}
	}
	return v
}

// read is told how far reading has come.
func (v *eviction) read(off int64) {
	for v.dropped+evictWindow <= off {
		v.drop(evictWindow)
	}
}

// end drops the last, shorter window.
func (v *eviction) end(off int64) {
	v.read(off)
	if off > v.dropped {
		v.drop(off - v.dropped)
	}
}

func (v *eviction) drop(n int64) {
	if i := int(v.dropped / evictWindow); i >= len(v.keep) || !v.keep[i] {
		v.file.DropCacheBehind(v.dropped, n)
	}
	v.dropped += n
}

// writeBehind lets writeback follow a file that is being written.
func (r *run) writeBehind(e *entry, p *passage) {
	t := p.target
	if t.behind == nil || e.meta.info.Size < leastBehind {
		return
	}
	path := e.path
	p.sink.Behind = t.behind.Behind(&p.sink.File.File, func(err error) { t.loseUnwritten(r, path, err) })
}

// wrote counts a file that is complete and closed among what is unwritten, if
// writeback has not followed it.
func (r *run) wrote(p *passage, size int64) {
	if p.target.group != nil && !p.bypass {
		p.target.group.Add(size)
	}
}
