package fsys

// StartWriteback is not supported: no call begins to write a part of a file.
func (f *File) StartWriteback(_, _ int64) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return errNotSupported
}

// WaitWriteback is not supported: Datasync is the next best thing.
func (f *File) WaitWriteback(_, _ int64) error {
	if err := f.fault(OpWriteback, ""); err != nil {
		return err
	}
	return errNotSupported
}

// WritebackError is not supported: only forcing the file would tell.
func (f *File) WritebackError() error { return errNotSupported }

// SyncPart forces the file to the device: there is no call for a part of it.
func (f *File) SyncPart(_, _ int64) error { return f.Sync() }

// WritesBehind is false: see StartWriteback.
func (d *Dir) WritesBehind() bool { return false }

// KeepsChangeTime is true: it is not asked here.
func (d *Dir) KeepsChangeTime() bool { return true }

// InMemory is false: there is no such file system.
func (d *Dir) InMemory() bool { return false }
