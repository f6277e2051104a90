package pipe

import "github.com/seed65876f4f/sealift/internal/fsys"

// Eviction drops the data of a file from the page cache after it was read. It keeps data that
// was in the cache before.
type Eviction struct {
	file    *fsys.File
	window  int64  // bytes that are checked and dropped at once
	dropped int64  // end of the dropped range; a multiple of window except at the end of the file
	keep    []bool // true for each window that had pages in the cache before; nil if none had
}

const (
	evictWindow = 8 << 20 // the least size of a window, in bytes
	mostWindows = 1 << 16 // limit for one file, because sparse files can have any size
)

// NewEviction determines which parts of a file are cached. It returns nil if the system does
// not report that.
func NewEviction(f *fsys.File, size int64) *Eviction {
	held, known := f.Cached(0, 0)
	if !known {
		return nil
	}
	v := &Eviction{file: f, window: (size/mostWindows)&^(evictWindow-1) + evictWindow}
	if held {
		for off := int64(0); off < size && off >= 0; off += v.window {
			held, known := f.Cached(off, v.window)
			v.keep = append(v.keep, held || !known)
		}
	}
	return v
}

// Restart begins at the beginning of the file again, because the file is read again.
func (v *Eviction) Restart() { v.dropped = 0 }

// Read drops the windows before off, the offset that reading has reached.
func (v *Eviction) Read(off int64) {
	for off-v.dropped >= v.window {
		v.drop(v.window)
	}
}

// End drops the last window, which may be shorter.
func (v *Eviction) End(off int64) {
	v.Read(off)
	if off > v.dropped {
		v.drop(off - v.dropped)
	}
}

func (v *Eviction) drop(n int64) {
	if i := int(v.dropped / v.window); i >= len(v.keep) || !v.keep[i] {
		v.file.DropCacheBehind(v.dropped, n)
	}
	v.dropped += n
}
