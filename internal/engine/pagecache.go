package engine

import (
	"fmt"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// drops reports whether the run evicts the data that it copies from the page cache.
func (r *run) drops() bool {
	switch r.opts.Cache {
	case pipe.CacheDrop, pipe.CacheDirect:
		return true
	case pipe.CacheAuto:
		// The largest size known so far. After a scan, TotalBytes is the size of the source.
		size := max(r.counters.TotalBytes.Load(), r.counters.Bytes.Load(), r.largest.Load())
		return r.memory > 0 && size > r.memory/2
	}
	return false
}

// openCache prepares a file of the source for reading with the cache mode of the run: with
// O_DIRECT, with eviction behind the reading, or through the page cache.
func (r *run) openCache(e *entry) {
	if size := e.meta.Info.Size; size > r.largest.Load() {
		r.largest.Store(size) // two workers may race here; drops needs only an approximate value
	}
	if !r.drops() {
		return
	}
	if r.direct(e.meta.Info.Size) {
		_, err := e.file.SetDirect(true)
		if e.direct = err == nil; e.direct {
			return
		}
		r.warnDirect("the source", err)
	}
	// Eviction is faster than reading with RWF_DONTCACHE, see docs/benchmarks.md.
	if e.evict = pipe.NewEviction(e.file, e.meta.Info.Size); e.evict == nil {
		e.file.SetUncached(true)
	}
}

// direct reports whether a file of this size is read and written with O_DIRECT.
func (r *run) direct(size int64) bool {
	if r.opts.Cache != pipe.CacheDirect || size <= int64(r.opts.BlockSize) {
		return false
	}
	if r.opts.BlockSize%(2*fsys.DirectAlignment) != 0 { // comparing reads half a block at a time
		r.warnDirect("the source", fmt.Errorf("the block size is not a multiple of %d", 2*fsys.DirectAlignment))
		return false
	}
	return true
}

// createCache prepares a new file for writing with the cache mode of the run. It reports
// whether the file bypasses the page cache.
func (r *run) createCache(t *target, f *fsys.Pending, size int64) (direct bool) {
	if !r.drops() {
		return false
	}
	if r.direct(size) {
		_, err := f.SetDirect(true)
		if err == nil {
			return true
		}
		r.warnDirect(quoteName(t.Given), err)
	}
	if size < minWriteBehind || t.behind == nil {
		f.SetUncached(true) // the device's goroutine drops the data of longer files after their writeback
	}
	return false
}

// warnDirect warns once that the page cache cannot be bypassed.
func (r *run) warnDirect(where string, err error) {
	if r.warned.add("direct") {
		err := fmt.Errorf("the page cache cannot be bypassed at %s; copied data is dropped from it instead: %w", where, err)
		r.report(event.Event{Kind: event.Warning, Err: err})
	}
}
