package fsys

import (
	"runtime"
	"unsafe"
)

// DirectAlignment is the alignment of direct I/O, in bytes. Offsets, lengths and addresses of
// reads after SetDirect must be multiples of it. Writes bypass the cache only if theirs are,
// too. It is the largest sector size in use (4Kn).
const DirectAlignment = 4096

// AlignedBuffer makes a buffer of size bytes at an address that SetDirect requires. Its
// memory was used before: into unused memory, btrfs reads through the page cache even with
// O_DIRECT.
func AlignedBuffer(size int) []byte {
	b := make([]byte, size+DirectAlignment)
	for i := 0; i < len(b); i += DirectAlignment {
		b[i] = 0
	}
	// A buffer does not move: it is on the heap, where nothing does.
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (DirectAlignment - 1)
	return b[skip : skip+size : skip+size]
}

// readAligned is ReadAt past the page cache. A read that ends between two multiples of
// DirectAlignment has probably reached the end of the file. readAligned checks that with
// size, because the next read, from there, may be refused (EINVAL) or use the page cache. A
// file system may also return short reads: if the file continues, readAligned repeats the
// read from the last multiple. It returns errNoProgress if a read makes none.
func readAligned(p []byte, off int64, pread func([]byte, int64) (int, error), size func() (int64, error)) (int, error) {
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
			return total, errNoProgress
		}
		furthest = total
		total -= between
	}
}

// CanDropCache reports whether DropCache has an effect on this system. If not, SetDirect
// before reading is the best substitute.
const CanDropCache = runtime.GOOS == "linux"
