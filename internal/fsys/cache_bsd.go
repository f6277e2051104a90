//go:build darwin || freebsd

package fsys

// DropCache is not possible: neither system has a call that empties a file's
// pages out of memory and tells. fromDevice is always false.
func (f *File) DropCache() (fromDevice bool, err error) {
	return false, fault(OpDropCache, "")
}

// DeviceBacked is false: without a way to empty memory, nothing proves that what
// is read comes from the device.
func (o *Object) DeviceBacked() bool { return false }
