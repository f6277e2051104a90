package source

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// Cache says how a run uses the page cache. Several goroutines may use it.
type Cache struct {
	Mode      pipe.CacheMode
	BlockSize int   // size of a read or write in bytes
	Memory    int64 // memory that the run may use in bytes; 0 if unknown
	Counters  *counters.Set
	Warn      func(error)
	// Untouched: the run copies nothing, so it leaves the cache as it is.
	Untouched bool

	largest atomic.Int64 // size of the largest file met, in bytes
	warned  sync.Once
}

// Drops reports whether the run evicts the data that it copies from the page cache.
func (c *Cache) Drops() bool {
	switch c.Mode {
	case pipe.CacheDrop, pipe.CacheDirect:
		return true
	case pipe.CacheAuto:
		// The largest size known so far. After a scan, TotalBytes is the size of the source.
		size := max(c.Counters.TotalBytes.Load(), c.Counters.Bytes.Load(), c.largest.Load())
		return c.Memory > 0 && size > c.Memory/2
	}
	return false
}

// prepare prepares an open file of the source for reading: with O_DIRECT, with eviction behind the
// reading, or through the page cache.
func (c *Cache) prepare(e *Entry) {
	if c.Untouched {
		return
	}
	if size := e.Meta.Info.Size; size > c.largest.Load() {
		c.largest.Store(size) // two workers may race here; Drops needs only an approximate value
	}
	if !c.Drops() {
		return
	}
	if c.direct(e.Meta.Info.Size) {
		_, err := e.File.SetDirect(true)
		if e.Direct = err == nil; e.Direct {
			return
		}
		c.warnDirect("the source", err)
	}
	// Eviction is faster than reading with RWF_DONTCACHE.
	if e.Evict = pipe.NewEviction(e.File, e.Meta.Info.Size); e.Evict == nil {
		e.File.SetUncached(true)
	}
}

// direct reports whether a file of this size is read and written with O_DIRECT.
func (c *Cache) direct(size int64) bool {
	if c.Mode != pipe.CacheDirect || size <= int64(c.BlockSize) {
		return false
	}
	if c.BlockSize%(2*fsys.DirectAlignment) != 0 { // comparing reads half a block at a time
		c.warnDirect("the source", fmt.Errorf("the block size is not a multiple of %d", 2*fsys.DirectAlignment))
		return false
	}
	return true
}

// PrepareNew prepares a new file at a destination, where, for writing. behind means that its data is
// dropped after its writeback anyway. PrepareNew reports whether the file bypasses the page cache.
func (c *Cache) PrepareNew(f *fsys.Pending, size int64, where string, behind bool) (direct bool) {
	if !c.Drops() {
		return false
	}
	if c.direct(size) {
		_, err := f.SetDirect(true)
		if err == nil {
			return true
		}
		c.warnDirect(where, err)
	}
	if !behind {
		f.SetUncached(true)
	}
	return false
}

// warnDirect warns once that the page cache cannot be bypassed.
func (c *Cache) warnDirect(where string, err error) {
	c.warned.Do(func() {
		c.Warn(fmt.Errorf("the page cache cannot be bypassed at %s; copied data is dropped from it instead: %w", where, err))
	})
}
