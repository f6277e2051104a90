package fsys

// DropCache is not possible: no call empties a file out of the cache and tells.
// fromDevice is always false.
func (f *File) DropCache() (fromDevice bool, err error) {
	return false, f.fault(OpDropCache, "")
}

// DropCacheBehind does nothing.
func (f *File) DropCacheBehind(int64, int64) {}

// SetDirect is not supported: a handle bypasses the cache from its opening on
// (FILE_NO_INTERMEDIATE_BUFFERING), or never.
func (f *File) SetDirect(bool) (fromDevice bool, err error) { return false, errNotSupported }

// DeviceBacked is false: without a way to empty memory, nothing proves that what
// is read comes from the device.
func (o *Object) DeviceBacked() bool { return false }

// SetUncached is not possible: there is no such wish for a single call.
func (f *File) SetUncached(bool) (supported bool) { return false }

// Cached is not known.
func (f *File) Cached(_, _ int64) (some, known bool) { return false, false }
