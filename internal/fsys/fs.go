package fsys

// Op names an operation of this package.
type Op string

// The operations that can fail. Closing an object that was only read is not among them,
// because it can lose nothing.
const (
	OpOpen        Op = "open"
	OpOpenDir     Op = "opendir"
	OpList        Op = "list"
	OpStat        Op = "stat"
	OpRead        Op = "read"
	OpReadlink    Op = "readlink"
	OpCreate      Op = "create"
	OpWrite       Op = "write"
	OpTruncate    Op = "truncate"
	OpChown       Op = "chown"
	OpChmod       Op = "chmod"
	OpTimes       Op = "utimens"
	OpGetXattr    Op = "getxattr"
	OpSetXattr    Op = "setxattr"
	OpMkdir       Op = "mkdir"
	OpSymlink     Op = "symlink"
	OpMknod       Op = "mknod"
	OpLink        Op = "link"
	OpRename      Op = "rename"
	OpRemove      Op = "remove"
	OpSync        Op = "sync"
	OpSyncFS      Op = "syncfs"
	OpSyncDrive   Op = "syncdrive"
	OpWriteback   Op = "writeback"
	OpDropCache   Op = "dropcache"
	OpClone       Op = "clone"
	OpCopyRange   Op = "copyrange"
	OpPreallocate Op = "preallocate"
	OpHoles       Op = "holes"
	OpPunch       Op = "punch"
	OpCloseFile   Op = "close"
	OpLock        Op = "lock"
)

// FS opens the paths that users name. A nil FS is the real system. A test gives a command its
// own FS, and everything that is opened through that FS inherits the test's settings. Its
// fields are set before the first operation. Their functions are called concurrently.
type FS struct {
	// Fault, if not nil, is called before every operation, which fails with its error. The
	// exception is the removal of a temporary by Pending.Abort, because a temporary that
	// remains is no loss of data.
	Fault func(Call) error
	// Disk, if not nil, replaces the device.
	Disk Disk
	// Tracker, if not nil, gets every descriptor.
	Tracker Tracker

	calls *systemCalls // system calls of tests of this package; nil for the system's own
}

// Call is an operation that is about to begin.
type Call struct {
	Op   Op
	Name string // name of the entry; "" if the operation has none
	Path string // path of the entry or the open object: the path opened first, and the names below it
}

// A Tracker knows which descriptors are open.
type Tracker interface {
	Opened(*Descriptor)
	Closed(*Descriptor)
}

// A Disk gets every change of a tree after it was made, and the flushes that would go to the
// device. So a test can lose unflushed data. It does not get the changes of a Stream.
type Disk interface {
	Changed(Change)
	// Flush returns false for objects that the Disk does not replace; the device flushes these.
	Flush(Flush) (done bool, err error)
	// FlushesAll reports whether the Disk supports OpSyncFS: see Dir.SyncFSReliable.
	FlushesAll() bool
}

// Change is an operation that has changed a tree.
type Change struct {
	// Op is OpCreate, OpMkdir, OpSymlink, OpMknod (a new Object), OpLink, OpRename,
	// OpRemove, OpWrite, OpTruncate, OpChown, OpChmod, OpTimes or OpSetXattr.
	Op      Op
	Object  Info   // the object that was created, written or set, after the operation
	Dir     ID     // the directory of Name
	Name    string // the entry that was made, replaced or removed; "" for a file without a name
	FromDir ID     // the directory of From
	From    string // the entry that was renamed or linked; "" if the file had no name
	Target  string // target of a symbolic link
	Offset  int64  // offset of Data in the file; with OpTruncate the new size
	Data    []byte // the written bytes, valid during the call
	Xattr   Xattr  // the attribute; Value is nil if it was removed
}

// Flush is a request to make changes durable.
type Flush struct {
	Op        Op   // OpSync: Object; OpSyncFS: the file system of Object; OpSyncDrive: all that ToDrive has flushed
	Object    Info // a file or a directory
	DataOnly  bool // flush only the size and the data of a file
	Offset, N int64
	Part      bool // flush only the N bytes at Offset, and the size
	ToDrive   bool // flush to the drive's own cache: see SyncToDrive
}

// Descriptor is an open descriptor of an FS. It is a value for tests; without an FS
// there are none.
type Descriptor struct {
	Path string // the path that Call.Path describes
	sys  *FS
}

// OpenRoot is FS.OpenRoot of the system.
func OpenRoot(path string) (*Dir, error) { return (*FS)(nil).OpenRoot(path) }

func (sys *FS) fault(op Op, path string) error {
	if sys == nil || sys.Fault == nil {
		return nil
	}
	return sys.Fault(Call{Op: op, Name: path, Path: path})
}

// opened notes a descriptor that was opened by a path.
func (sys *FS) opened(path string) *Descriptor {
	if sys == nil {
		return nil
	}
	d := &Descriptor{Path: path, sys: sys}
	if sys.Tracker != nil {
		sys.Tracker.Opened(d)
	}
	return d
}

// opened notes a descriptor that was opened through o, as its entry name unless "".
func (o *Object) opened(name string) *Descriptor {
	if o.descriptor == nil {
		return nil
	}
	return o.descriptor.sys.opened(o.descriptor.join(name))
}

func (d *Descriptor) join(name string) string {
	if name == "" {
		return d.Path
	}
	return d.Path + "/" + name
}

func (d *Descriptor) closed() {
	if d != nil && d.sys.Tracker != nil {
		d.sys.Tracker.Closed(d)
	}
}

// FS returns the FS that the object was opened through; nil is the real system.
func (o *Object) FS() *FS {
	if o.descriptor == nil {
		return nil
	}
	return o.descriptor.sys
}

func (o *Object) fault(op Op, name string) error {
	if o.descriptor == nil {
		return nil
	}
	return o.descriptor.fault(op, name)
}

func (d *Descriptor) fault(op Op, name string) error {
	if d.sys.Fault == nil {
		return nil
	}
	return d.sys.Fault(Call{Op: op, Name: name, Path: d.join(name)})
}

// calls returns the system calls for the object.
func (o *Object) calls() *systemCalls {
	if o.descriptor == nil || o.descriptor.sys.calls == nil {
		return &system
	}
	return o.descriptor.sys.calls
}

// disk returns the replacement of the device; nil if there is none.
func (o *Object) disk() Disk {
	if o.descriptor == nil {
		return nil
	}
	return o.descriptor.sys.Disk
}

// changed reports to the disk that the object has changed, or that it is new and has no
// name, if err is nil, and returns err.
func (o *Object) changed(err error, c Change) error {
	disk := o.disk()
	if disk == nil || err != nil {
		return err
	}
	if c.Object, err = o.stat(); err == nil {
		disk.Changed(c)
	}
	return err
}

// wrote reports to the disk that p was written at off.
func (f *File) wrote(p []byte, off int64) error {
	if f.disk() == nil {
		return nil
	}
	return f.changed(nil, Change{Op: OpWrite, Offset: off, Data: p})
}

// filled is wrote for n bytes at off that the system has copied without the program.
func (f *File) filled(off, n int64) error {
	if f.disk() == nil {
		return nil
	}
	for p := make([]byte, 64<<10); n > 0; {
		some, err := f.pread(p[:min(n, int64(len(p)))], off)
		if err != nil || some == 0 {
			return err
		}
		if err := f.wrote(p[:some], off); err != nil {
			return err
		}
		off, n = off+int64(some), n-int64(some)
	}
	return nil
}

// made reports to the disk that d has a new entry, if err is nil, and returns err.
func (d *Dir) made(err error, op Op, name, target string) error {
	if d.disk() == nil || err != nil {
		return err
	}
	info, err := d.lstat(name)
	return d.entryChanged(err, Change{Op: op, Name: name, Target: target, Object: info})
}

// moved reports to the disk that an entry of d was renamed or linked to to, if err is nil,
// and returns err.
func (d *Dir) moved(err error, op Op, name string, to *Dir, newName string) error {
	if to.disk() == nil || err != nil {
		return err
	}
	info, err := d.stat()
	return to.entryChanged(err, Change{Op: op, Name: newName, FromDir: info.ID, From: name})
}

// removed reports to the disk that d has lost an entry, if err is nil, and returns err.
func (d *Dir) removed(err error, name string) error {
	return d.entryChanged(err, Change{Op: OpRemove, Name: name})
}

// entryChanged reports a change of an entry of d to the disk, if err is nil, and returns
// err.
func (d *Dir) entryChanged(err error, c Change) error {
	disk := d.disk()
	if disk == nil || err != nil {
		return err
	}
	info, err := d.stat()
	if err == nil {
		c.Dir = info.ID
		disk.Changed(c)
	}
	return err
}

// flush makes changes durable: by the system call, or by the replacement of the
// device.
func (o *Object) flush(f Flush, call func() error) error {
	if err := o.fault(f.Op, ""); err != nil {
		return err
	}
	if disk := o.disk(); disk != nil {
		info, err := o.stat()
		if err != nil {
			return err
		}
		f.Object = info
		if done, err := disk.Flush(f); done {
			return err
		}
	}
	return retry(call)
}
