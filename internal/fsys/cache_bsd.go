//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

// DropCache is not possible: neither system has a call that empties a file's
// pages out of memory and tells. fromDevice is always false.
func (f *File) DropCache() (fromDevice bool, err error) {
	return false, f.fault(OpDropCache, "")
}

// DeviceBacked is false: without a way to empty memory, nothing proves that what
// is read comes from the device.
func (o *Object) DeviceBacked() bool { return false }

// SetUncached is not possible: there is no such wish for a single call.
func (f *File) SetUncached(bool) (supported bool) { return false }

// Cached is not known: no call tells without a mapping.
func (f *File) Cached(_, _ int64) (some, known bool) { return false, false }

func (f *File) pread(p []byte, off int64) (int, error) {
	return retryN(func() (int, error) { return unix.Pread(f.fd, p, off) })
}

func (f *File) pwrite(p []byte, off int64) (int, error) {
	return retryN(func() (int, error) { return unix.Pwrite(f.fd, p, off) })
}
