package pipe

import (
	"context"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// dropUnit is how much of a file is read before it is dropped from the page
// cache: a multiple of what DropCacheBehind asks for, and little beside what a
// page cache holds.
const dropUnit = 8 << 20 // bytes

// ReadBack is Transfer for the digests alone, with a say about the page cache. fromDevice says that what
// was read has come from a device and not from memory; it is never said with
// CacheAuto.
//
// The clock may be nil; place is that of src.
//
// CacheDrop and CacheDirect both drop the file from the page cache first, which
// forces what is not written yet. What other programs hold there nevertheless,
// because they have it mapped, is read past the cache.
func (p *Pipe) ReadBack(ctx context.Context, src *fsys.File, info fsys.Info, set *hash.Set, cache CacheMode, clock *timing.Clock, place timing.Place) (n int64, fromDevice bool, err error) {
	clock.At(timing.Read, place)
	course := Course{Clock: clock, From: place}
	if cache == CacheAuto {
		n, err = p.Transfer(ctx, src, info, set, nil, course)
		return n, false, err
	}
	fromDevice, err = src.DropCache()
	if err != nil {
		return 0, false, err
	}
	past := cache == CacheDirect || !fromDevice && (src.DeviceBacked() || !fsys.CanDropCache)
	if past && p.Pool.size%fsys.DirectAlignment == 0 {
		direct, err := src.SetDirect(true)
		switch {
		case err == nil:
			n, err = p.Transfer(ctx, src, info, set, nil, course)
			return n, direct || fromDevice, err
		case !fsys.Unsupported(err):
			return 0, false, err
		}
	}
	dropped := int64(0)
	course.Read = func(off int64) {
		if off-dropped >= dropUnit {
			src.DropCacheBehind(dropped, off-dropped)
			dropped = off
		}
	}
	n, err = p.Transfer(ctx, src, info, set, nil, course)
	if n > dropped {
		src.DropCacheBehind(dropped, n-dropped)
	}
	return n, fromDevice, err
}
