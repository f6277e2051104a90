package fsys

import "sync/atomic"

// File is an open regular file.
type File struct {
	Object
	direct   atomic.Bool // the value that SetDirect has set
	uncached atomic.Bool // the value that SetUncached has set
}

// describe makes a File of an open object and returns it with its description.
func describe(o Object) (*File, Info, error) {
	f := &File{Object: o}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, info, nil
}

// ReadAt reads at the offset off until p is full or the file ends. 0 bytes without an error
// mean the end.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	if f.direct.Load() {
		return readAligned(p, off, f.pread, f.size)
	}
	total := 0
	for total < len(p) {
		n, err := f.pread(p[total:], off+int64(total))
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

// ReadSomeAt reads once. Fewer bytes than len(p) do not mean the end of the file.
func (f *File) ReadSomeAt(p []byte, off int64) (int, error) {
	if err := f.fault(OpRead, ""); err != nil {
		return 0, err
	}
	return f.pread(p, off)
}

func (f *File) size() (int64, error) {
	info, err := f.stat()
	return info.Size, err
}

// WriteAt writes all of p at the offset off.
func (f *File) WriteAt(p []byte, off int64) error {
	if err := f.fault(OpWrite, ""); err != nil {
		return err
	}
	for len(p) > 0 {
		n, err := f.pwrite(p, off)
		if err != nil {
			return err
		}
		if n == 0 { // no system documents this result; without the check, the loop would never end
			return errNoProgress
		}
		if err := f.wrote(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Truncate sets the file's size in bytes; an extension is a hole, and on Windows uses
// space on the device.
func (f *File) Truncate(size int64) error {
	return f.changed(f.do(OpTruncate, "", func() error { return f.truncate(size) }), Change{Op: OpTruncate, Offset: size})
}

// Preallocate reserves space on the device for a file that will have size bytes, in few and
// long extents if possible. It does not change the file's size. The unused part stays
// reserved until the file is truncated or removed, or closed on Windows. An error for which
// Unsupported holds means that the file system cannot preallocate. On a full device the
// error is the usual one, and a part may be reserved.
func (f *File) Preallocate(size int64) error {
	return f.do(OpPreallocate, "", func() error {
		if size <= 0 {
			return nil
		}
		return f.preallocate(size)
	})
}

// Sync flushes the file's data and metadata to the device.
func (f *File) Sync() error { return f.flush(Flush{Op: OpSync}, f.sync) }

// Datasync flushes the file's data to the device, with the metadata that is needed to find it.
// It does less than Sync, which also flushes the times. On macOS it calls fsync(2), which
// leaves the data in the drive's own cache: there, Datasync only limits the unwritten data in
// memory.
func (f *File) Datasync() error {
	return f.flush(Flush{Op: OpSync, DataOnly: true, ToDrive: datasyncToDrive}, f.datasync)
}

// Dup returns a second descriptor of the same open file, which is closed
// separately. Only one of the two gets a write error. SetDirect affects both, but only one
// records it: call it before Dup.
func (f *File) Dup() (*File, error) {
	if err := f.fault(OpOpen, ""); err != nil {
		return nil, err
	}
	o, err := f.dup()
	if err != nil {
		return nil, err
	}
	o.descriptor = f.opened("")
	dup := &File{Object: o}
	dup.direct.Store(f.direct.Load())
	dup.uncached.Store(f.uncached.Load())
	return dup, nil
}

// NextData returns the bounds [data, hole) of the first range of data at or after off. end is
// true if there is none. An error for which Unsupported holds means that the file system, or
// the system, does not report holes.
func (f *File) NextData(off int64) (data, hole int64, end bool, err error) {
	if err := f.fault(OpHoles, ""); err != nil {
		return 0, 0, false, err
	}
	return f.nextData(off)
}
