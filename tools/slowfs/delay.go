package main

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// slow is a file system whose operations wait first. Those are left out that do not wait for a
// server on a network file system either: closing, and locks.
type slow struct {
	fuse.RawFileSystem
	delay time.Duration
}

// Lookup implements fuse.RawFileSystem.
func (s *slow) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Lookup(cancel, header, name, out)
}

// GetAttr implements fuse.RawFileSystem.
func (s *slow) GetAttr(cancel <-chan struct{}, input *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.GetAttr(cancel, input, out)
}

// SetAttr implements fuse.RawFileSystem.
func (s *slow) SetAttr(cancel <-chan struct{}, input *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.SetAttr(cancel, input, out)
}

// Mknod implements fuse.RawFileSystem.
func (s *slow) Mknod(cancel <-chan struct{}, input *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Mknod(cancel, input, name, out)
}

// Mkdir implements fuse.RawFileSystem.
func (s *slow) Mkdir(cancel <-chan struct{}, input *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Mkdir(cancel, input, name, out)
}

// Unlink implements fuse.RawFileSystem.
func (s *slow) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Unlink(cancel, header, name)
}

// Rmdir implements fuse.RawFileSystem.
func (s *slow) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Rmdir(cancel, header, name)
}

// Rename implements fuse.RawFileSystem.
func (s *slow) Rename(cancel <-chan struct{}, input *fuse.RenameIn, oldName string, newName string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Rename(cancel, input, oldName, newName)
}

// Link implements fuse.RawFileSystem.
func (s *slow) Link(cancel <-chan struct{}, input *fuse.LinkIn, filename string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Link(cancel, input, filename, out)
}

// Symlink implements fuse.RawFileSystem.
func (s *slow) Symlink(cancel <-chan struct{}, header *fuse.InHeader, pointedTo string, linkName string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Symlink(cancel, header, pointedTo, linkName, out)
}

// Readlink implements fuse.RawFileSystem.
func (s *slow) Readlink(cancel <-chan struct{}, header *fuse.InHeader) (out []byte, code fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Readlink(cancel, header)
}

// GetXAttr implements fuse.RawFileSystem.
func (s *slow) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (sz uint32, code fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.GetXAttr(cancel, header, attr, dest)
}

// ListXAttr implements fuse.RawFileSystem.
func (s *slow) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.ListXAttr(cancel, header, dest)
}

// SetXAttr implements fuse.RawFileSystem.
func (s *slow) SetXAttr(cancel <-chan struct{}, input *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.SetXAttr(cancel, input, attr, data)
}

// RemoveXAttr implements fuse.RawFileSystem.
func (s *slow) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.RemoveXAttr(cancel, header, attr)
}

// Create implements fuse.RawFileSystem.
func (s *slow) Create(cancel <-chan struct{}, input *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Create(cancel, input, name, out)
}

// Tmpfile refuses files without a name, as network file systems do.
func (s *slow) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return fuse.Status(syscall.EOPNOTSUPP)
}

// Open implements fuse.RawFileSystem.
func (s *slow) Open(cancel <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Open(cancel, input, out)
}

// Read implements fuse.RawFileSystem.
func (s *slow) Read(cancel <-chan struct{}, input *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Read(cancel, input, buf)
}

// Write implements fuse.RawFileSystem.
func (s *slow) Write(cancel <-chan struct{}, input *fuse.WriteIn, data []byte) (written uint32, code fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Write(cancel, input, data)
}

// Writev implements fuse.RawFileSystem.
func (s *slow) Writev(cancel <-chan struct{}, input *fuse.WriteIn, data [][]byte) (written uint32, code fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Writev(cancel, input, data)
}

// CopyFileRange implements fuse.RawFileSystem.
func (s *slow) CopyFileRange(cancel <-chan struct{}, input *fuse.CopyFileRangeIn) (written uint32, code fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.CopyFileRange(cancel, input)
}

// Fallocate implements fuse.RawFileSystem.
func (s *slow) Fallocate(cancel <-chan struct{}, input *fuse.FallocateIn) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Fallocate(cancel, input)
}

// Fsync implements fuse.RawFileSystem.
func (s *slow) Fsync(cancel <-chan struct{}, input *fuse.FsyncIn) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Fsync(cancel, input)
}

// OpenDir implements fuse.RawFileSystem.
func (s *slow) OpenDir(cancel <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.OpenDir(cancel, input, out)
}

// ReadDir implements fuse.RawFileSystem.
func (s *slow) ReadDir(cancel <-chan struct{}, input *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.ReadDir(cancel, input, out)
}

// ReadDirPlus implements fuse.RawFileSystem.
func (s *slow) ReadDirPlus(cancel <-chan struct{}, input *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.ReadDirPlus(cancel, input, out)
}

// FsyncDir implements fuse.RawFileSystem.
func (s *slow) FsyncDir(cancel <-chan struct{}, input *fuse.FsyncIn) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.FsyncDir(cancel, input)
}

// StatFs implements fuse.RawFileSystem.
func (s *slow) StatFs(cancel <-chan struct{}, input *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.StatFs(cancel, input, out)
}
