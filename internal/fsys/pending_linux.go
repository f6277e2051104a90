package fsys

import (
	"sync"

	"golang.org/x/sys/unix"
)

// These variables report whether the kernel has a call and permits it. They try it with an
// invalid descriptor: a system call filter of a container returns ENOSYS or EPERM before
// the kernel checks the descriptor.
var (
	hasSyncRange   = sync.OnceValue(func() bool { return unix.SyncFileRange(-1, 0, 0, 0) == unix.EBADF })
	hasSyncFS      = sync.OnceValue(func() bool { return unix.Syncfs(-1) == unix.EBADF })
	hasRenameFlags = sync.OnceValue(func() bool { return renameFlags(-1, "a", "b") == unix.EBADF })
)

// createUnnamed creates a file without a name, so a killed run leaves no file. File systems
// without O_TMPFILE return EOPNOTSUPP or EISDIR, and are tried only once.
func (d *Dir) createUnnamed(mode uint32) (*Pending, error) {
	files, err := d.unnamedFiles()
	if err != nil {
		return nil, err
	}
	if files.none.Load() {
		return nil, unix.EOPNOTSUPP
	}
	o, err := d.openAt(".", unix.O_TMPFILE|unix.O_RDWR, mode)
	if err == unix.EISDIR || err == unix.EINVAL || err == unix.ENOENT && d.exists() {
		err = unix.EOPNOTSUPP
	}
	if err != nil {
		if Unsupported(err) {
			files.none.Store(true)
		}
		return nil, err
	}
	p := d.pending(o, "(unnamed)")
	p.temp, p.mode = "", mode
	files.probe.Do(func() {
		files.none.Store(!p.linkable())
		files.closeReports = !d.syncFSReliable() // on FUSE and network file systems
	})
	if files.none.Load() {
		p.Close()
		return nil, unix.EOPNOTSUPP
	}
	if err := p.changed(nil, Change{Op: OpCreate}); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// unnamedFiles returns the properties of the file system of d, which can be mounted below the
// tree's root.
func (d *Dir) unnamedFiles() (*unnamedFiles, error) {
	if known := d.files.Load(); known != nil {
		return known, nil
	}
	info, err := d.stat()
	if err != nil {
		return nil, err
	}
	known, _ := d.caps.unnamed.LoadOrStore(info.ID.Dev, new(unnamedFiles))
	d.files.Store(known.(*unnamedFiles))
	return known.(*unnamedFiles), nil
}

// linkable reports whether the file could get a name. An older kernel cannot give it one in a
// chroot without /proc. linkable tries the name ".", which always exists, so it creates
// nothing.
func (p *Pending) linkable() bool { return p.linkUnnamed(".") == unix.EEXIST }

// exists distinguishes a file system without O_TMPFILE that returns ENOENT from a removed
// directory.
func (d *Dir) exists() bool {
	info, err := d.stat()
	return err == nil && info.Nlink > 0
}

// linkUnnamed gives the file its first name. Before Linux 6.10, AT_EMPTY_PATH needs privilege
// (ENOENT otherwise); then linkUnnamed uses /proc.
func (p *Pending) linkUnnamed(name string) error {
	err := p.linkByDescriptor(name)
	if err != nil || p.disk() == nil {
		return err
	}
	info, err := p.stat()
	return p.dir.entryChanged(err, Change{Op: OpLink, Name: name, Object: info})
}

func (p *Pending) linkByDescriptor(name string) error {
	if !p.dir.caps.noLinkPath.Load() {
		err := retry(func() error { return unix.Linkat(p.fd, "", p.dir.fd, name, unix.AT_EMPTY_PATH) })
		if err != unix.ENOENT && err != unix.EPERM {
			return err
		}
	}
	err := retry(func() error {
		return unix.Linkat(unix.AT_FDCWD, p.procPath(), p.dir.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err == nil || err == unix.EEXIST {
		p.dir.caps.noLinkPath.Store(true)
	}
	return err
}

func renameNoReplace(dirfd int, oldName, newName string) error {
	err := renameFlags(dirfd, oldName, newName)
	if err == unix.EPERM && !hasRenameFlags() {
		err = unix.ENOSYS
	}
	return err
}

func renameFlags(dirfd int, oldName, newName string) error {
	return unix.Renameat2(dirfd, oldName, dirfd, newName, unix.RENAME_NOREPLACE)
}

func (d *Dir) syncFS() error { return unix.Syncfs(d.fd) }

func (f *File) preallocate(size int64) error {
	return unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, size)
}
