package pipe

import (
	"context"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// dropUnit is the part of a file that is read before it is dropped from the page cache. It
// is a multiple of the unit of DropCacheBehind, and small compared with a page cache.
const dropUnit = 8 << 20 // bytes

// ReadBack computes the digests of src, as Move does without sinks. The cache mode says
// how it uses the page cache. fromDevice reports whether the bytes came from a device and
// not from memory; it is false with CacheAuto and CacheKeep. The activity may be
// nil. The caller has set it to the place of src.
//
// CacheDrop and CacheDirect both drop the file from the page cache first, which flushes
// unwritten data. Pages that stay because other programs have mapped them are bypassed.
func (p *Pipe) ReadBack(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, cache CacheMode, activity *timing.Activity) (n int64, fromDevice bool, err error) {
	r, err := StartReading(src, cache, p.Pool.size%fsys.DirectAlignment == 0)
	if err != nil {
		return 0, false, err
	}
	n, err = p.Move(ctx, src, info, set, nil, MoveOptions{Activity: activity, Read: r.Read})
	r.End(n)
	return n, r.FromDevice, err
}

// Reading keeps a file that is read from its beginning to its end out of the page cache, if
// its cache mode asks for that. Only the goroutine that reads uses it.
type Reading struct {
	FromDevice bool // the bytes come from a device, not from memory; false with CacheAuto and CacheKeep

	file    *fsys.File
	drops   bool
	dropped int64 // end of the range that was read and dropped
}

// StartReading prepares src for reading. aligned means that the offsets, lengths and addresses
// of all reads will be multiples of fsys.DirectAlignment. The error is one of writing
// unwritten data of src.
func StartReading(src *fsys.File, cache CacheMode, aligned bool) (*Reading, error) {
	r := &Reading{file: src}
	if cache == CacheAuto || cache == CacheKeep {
		return r, nil
	}
	var err error
	if r.FromDevice, err = src.DropCache(); err != nil {
		return nil, err
	}
	if aligned && (cache == CacheDirect || !r.FromDevice && (src.DeviceBacked() || !fsys.CanDropCache)) {
		direct, err := src.SetDirect(true)
		switch {
		case err == nil:
			r.FromDevice = direct || r.FromDevice
			return r, nil
		case !fsys.Unsupported(err):
			return nil, err
		}
	}
	r.drops = true
	return r, nil
}

// Read drops the data up to off when that is at least dropUnit.
func (r *Reading) Read(off int64) {
	if r.drops && off-r.dropped >= dropUnit {
		r.End(off)
	}
}

// End drops the rest of the data up to off.
func (r *Reading) End(off int64) {
	if r.drops && off > r.dropped {
		r.file.DropCacheBehind(r.dropped, off-r.dropped)
		r.dropped = off
	}
}
