package pipe

import "github.com/seed65876f4f/sealift/internal/fsys"

// Eviction drops what was read of a file from the page cache, but not what was
// there before.
type Eviction struct {
	file    *fsys.File
	window  int64  // bytes that are checked and dropped at once
	dropped int64  // how far it has come, a multiple of window until the end
	keep    []bool // windows that had pages before; nil if none had
}

const (
	evictWindow = 8 << 20 // bytes, at least
	mostWindows = 1 << 16 // in a file: sparse ones can have any size
)

// NewEviction finds out which parts of a file are cached; nil if the system does not say.
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

// Restart begins again for a file that is read again.
func (v *Eviction) Restart() { v.dropped = 0 }

// Read drops the windows before off, the offset that reading has reached.
func (v *Eviction) Read(off int64) {
	for off-v.dropped >= v.window {
		v.drop(v.window)
	}
}

// End drops the last, shorter window.
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
