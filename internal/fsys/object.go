package fsys

import "syscall"

// do calls call, unless FS.Fault makes the operation fail.
func (o *Object) do(op Op, name string, call func() error) error {
	if err := o.fault(op, name); err != nil {
		return err
	}
	return retry(call)
}

// retry calls f until no signal interrupts it. Go's runtime sends signals to its own process,
// and FUSE and NFS then return EINTR.
func retry(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}

// Stat describes the object.
func (o *Object) Stat() (Info, error) {
	if err := o.fault(OpStat, ""); err != nil {
		return Info{}, err
	}
	return o.stat()
}

// Chown sets owner and group. Windows does not support it: owners are not numbers there.
func (o *Object) Chown(uid, gid uint32) error {
	return o.changed(o.do(OpChown, "", func() error { return o.chown(int(uid), int(gid)) }), Change{Op: OpChown})
}

// Chmod sets the permission bits, with setuid, setgid and sticky. Windows keeps the
// attributes in the mode, and of its permissions one bit: without the owner's write bit a
// file is read-only.
func (o *Object) Chmod(mode uint32) error {
	return o.changed(o.do(OpChmod, "", func() error { return o.chmod(mode) }), Change{Op: OpChmod})
}

// SetTimes sets access, modification and creation time (btime) as precisely as the file system
// stores them. It ignores btime if the system cannot set it.
func (o *Object) SetTimes(atime, mtime, btime Time) error {
	return o.changed(o.do(OpTimes, "", func() error { return o.setTimes(atime, mtime, btime) }), Change{Op: OpTimes})
}

// Xattrs returns the extended attributes whose names keep accepts, ACLs
// included. On a file system without them, Unsupported holds for the error. If listing
// them is not permitted, NotPermitted holds. If the values of some are refused, the error is
// ErrUnread, with the others. On Windows, a NotKeptError lists the parts of a file that are
// not kept.
func (o *Object) Xattrs(keep func(name string) bool) ([]Xattr, error) {
	if err := o.fault(OpGetXattr, ""); err != nil {
		return nil, err
	}
	return o.xattrs(keep)
}

// MayHaveXattrs reports whether the entry name of the directory may have extended attributes.
// A result of false is certain. MayHaveXattrs does not open the entry if the system allows
// that.
func (d *Dir) MayHaveXattrs(name string) bool {
	return d.fault(OpGetXattr, name) != nil || d.mayHaveXattrs(name)
}

// SetXattr creates or replaces one extended attribute.
func (o *Object) SetXattr(name string, value []byte) error {
	err := o.do(OpSetXattr, name, func() error { return o.setxattr(name, value) })
	return o.changed(err, Change{Op: OpSetXattr, Xattr: Xattr{Name: name, Value: value}})
}

// RemoveXattr removes one extended attribute. It is no error if the attribute does not exist.
func (o *Object) RemoveXattr(name string) error {
	err := o.do(OpSetXattr, name, func() error { return o.removexattr(name) })
	if err == errNoXattr {
		return nil
	}
	return o.changed(err, Change{Op: OpSetXattr, Xattr: Xattr{Name: name}})
}

// Close closes the descriptor. Other calls commit written data, so Close has nothing to
// report.
func (o *Object) Close() { _ = o.close() }

// close returns errors of lost writes that only close reports, as on NFS.
func (o *Object) close() error {
	o.descriptor.closed()
	return o.release()
}
