package fsys

import (
	"runtime"
	"unsafe"
)

// DirectAlignment is what offsets, lengths and addresses of reads after
// SetDirect are multiples of, in bytes, and those of writes for it to have an
// effect: the sector of disks with the largest ones in use (4Kn).
const DirectAlignment = 4096

// AlignedBuffer makes a buffer of size bytes at an address that SetDirect asks
// for. Its memory is in place already: into memory that was never used, btrfs
// reads through the page cache even if told to bypass it.
func AlignedBuffer(size int) []byte {
	b := make([]byte, size+DirectAlignment)
	for i := 0; i < len(b); i += DirectAlignment {
		b[i] = 0
	}
	// A buffer does not move: it is on the heap, where nothing does.
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (DirectAlignment - 1)
	return b[skip : skip+size : skip+size]
}

// readAligned is ReadAt past the page cache. A read that ends between two
// multiples of DirectAlignment has come to the end of the file: size tells, as
// the next read, from there, may be refused (EINVAL) or go through the page
// cache. Where the file goes on nevertheless, as on a file system that answers
// in pieces, it is repeated from the last multiple; the error lost stands for a
// read that gets no further.
func readAligned(p []byte, off int64, pread func([]byte, int64) (int, error), size func() (int64, error), lost error) (int, error) {
	for total, furthest := 0, 0; ; {
		n, err := pread(p[total:], off+int64(total))
		total += n
		if err != nil || n == 0 || total == len(p) {
			return total, err
		}
		between := total % DirectAlignment
		if between == 0 {
			continue
		}
		end, err := size()
		if err != nil || off+int64(total) >= end {
			return total, err
		}
		if total <= furthest {
			return total, lost
		}
		furthest = total
		total -= between
	}
}

// CanDropCache says that DropCache does something on this system. Where it does
// not, SetDirect before a reading is the next best thing.
const CanDropCache = runtime.GOOS == "linux"
