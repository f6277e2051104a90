package faultfs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// page is how much of a file survives or is lost as one, in bytes.
const page = 4 << 10

// Disk is an fsys.Disk that records for each change below a directory whether it was
// flushed, and builds the tree as a power cut would leave it. It flushes nothing to the real
// device, so a test is as fast on a slow one. It keeps written data in memory, so use it for
// small trees that no other program changes meanwhile.
//
// The model:
//
//   - A change that was flushed is kept. Any other may be lost, each independently of
//     the others and in any order: an entry of a directory, one page of data, the mode, the
//     times, one extended attribute.
//   - Syncing a file flushes its data and metadata, not its names. Datasync leaves the
//     metadata out, SyncPart all but some pages.
//   - Syncing a directory flushes its entries and its own metadata, and the metadata of
//     symbolic links and special files in it, which nothing else can sync. It does not
//     flush the content or the metadata of files and directories in it. A symbolic link has its
//     target from the start, and a file or directory the mode with which it was created.
//   - A rename is atomic, also between two directories, of which either flushes it.
//   - A name whose file has lost its data leads to an empty file, or to one with zeros
//     where pages are lost. A directory that has lost its name loses all below it.
//   - Removing a directory is lost where entries in it are not. Where it is flushed, what
//     emptied the directory is, too: no file system removes one that is not empty.
//   - Data that is flushed to the drive's own cache is lost as well, until OpSyncDrive.
type Disk struct {
	base string
	all  bool // true if the disk accepts OpSyncFS

	mu struct {
		sync.Mutex
		root    *inode
		inodes  map[fsys.ID]*inode // the present inodes
		changes []*change
		cut     bool
		calls   int64
	}
}

// inode is a file or directory. An ID can come again, an inode does not.
type inode struct {
	id    fsys.ID
	first state             // the state when the disk or the inode was made
	names map[string]*inode // present entries of a directory
}

// state is what a power cut can change of an inode.
type state struct {
	info   fsys.Info
	times  bool // true if the times of info were set
	target string
	data   []byte
	xattrs map[string][]byte
	names  map[string]*inode
}

// unsyncable reports whether nothing can open it to sync it.
func (i *inode) unsyncable() bool {
	kind := i.first.info.Kind
	return kind != fsys.Regular && kind != fsys.Directory
}

func (st state) clone() *state {
	st.data, st.xattrs, st.names = slices.Clone(st.data), maps.Clone(st.xattrs), maps.Clone(st.names)
	if st.xattrs == nil {
		st.xattrs = map[string][]byte{}
	}
	if st.names == nil {
		st.names = map[string]*inode{}
	}
	return &st
}

// Where a change is.
type place int

const (
	inMemory place = iota
	inDrive        // The change is in the drive's own cache.
	onDisk
)

// change is one operation, or one page of it.
type change struct {
	place
	of      *inode    // the inode whose data or metadata it changes
	dirs    [2]*inode // the directories whose entries it changes
	emptied *inode    // the directory that it has removed; nil for other changes
	data    bool
	off, to int64 // range of the changed data; all of it if the size changes
	apply   func(*survivors)
}

// survivors is what a power cut leaves.
type survivors struct{ states map[*inode]*state }

func (s *survivors) of(i *inode) *state {
	if s.states[i] == nil {
		s.states[i] = i.first.clone()
	}
	return s.states[i]
}

// NewDisk makes a disk of the directory base, everything in which counts as flushed.
// With flushesAll one call flushes the whole disk, as syncfs on Linux; without, each file and
// directory has to be synced.
func NewDisk(base string, flushesAll bool) (*Disk, error) {
	d := &Disk{base: base, all: flushesAll}
	d.mu.inodes = map[fsys.ID]*inode{}
	dir, err := fsys.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	d.mu.root, err = d.load(dir)
	return d, err
}

// load reads a directory.
func (d *Disk) load(dir *fsys.Dir) (*inode, error) {
	in, err := d.loadObject(&dir.Object)
	if err != nil {
		return nil, err
	}
	list, err := dir.List()
	if err != nil {
		return nil, err
	}
	for i := range list.Len() {
		name := list.Name(i)
		child, err := d.loadEntry(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in.names[name] = child
	}
	in.first.names = maps.Clone(in.names)
	return in, nil
}

func (d *Disk) loadObject(o *fsys.Object) (*inode, error) {
	info, err := o.Stat()
	if err != nil {
		return nil, err
	}
	if in := d.mu.inodes[info.ID]; in != nil {
		return in, nil
	}
	in := &inode{id: info.ID, names: map[string]*inode{}, first: state{info: info, times: true, xattrs: map[string][]byte{}}}
	d.mu.inodes[info.ID] = in
	list, err := o.Xattrs(func(string) bool { return true })
	if err != nil && !fsys.Unsupported(err) {
		return nil, err
	}
	for _, x := range list {
		in.first.xattrs[x.Name] = x.Value
	}
	return in, nil
}

func (d *Disk) loadEntry(dir *fsys.Dir, name string) (*inode, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Kind == fsys.Directory {
		sub, err := dir.OpenDir(name)
		if err != nil {
			return nil, err
		}
		defer sub.Close()
		return d.load(sub)
	}
	o, err := dir.OpenObject(name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	in, err := d.loadObject(o)
	switch {
	case err != nil:
	case info.Kind == fsys.Symlink:
		in.first.target, err = dir.Readlink(name)
	case info.Kind == fsys.Regular:
		in.first.data, err = read(dir, name)
	}
	return in, err
}

func read(dir *fsys.Dir, name string) ([]byte, error) {
	f, info, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, info.Size)
	n, err := f.ReadAt(data, 0)
	return data[:n], err
}

// CutAt returns an injector that cuts the power before the n-th operation, counted from
// 0: it and all after it fail with ErrCut and change nothing.
func (d *Disk) CutAt(n int64) Injector {
	return func(fsys.Call) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.mu.calls++; d.mu.calls > n {
			d.mu.cut = true
		}
		if d.mu.cut {
			return ErrCut
		}
		return nil
	}
}

// Calls is how many operations there were, where CutAt is asked about them.
func (d *Disk) Calls() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.calls
}

// FlushesAll implements fsys.Disk.
func (d *Disk) FlushesAll() bool { return d.all }

// Changed implements fsys.Disk.
func (d *Disk) Changed(c fsys.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.cut {
		return
	}
	switch c.Op {
	case fsys.OpCreate, fsys.OpMkdir, fsys.OpSymlink, fsys.OpMknod:
		dir := d.mu.inodes[c.Dir]
		if dir == nil && c.Name != "" {
			return
		}
		in := &inode{id: c.Object.ID, names: map[string]*inode{}, first: state{info: c.Object, target: c.Target}}
		d.mu.inodes[in.id] = in
		if c.Name != "" {
			d.link(dir, c.Name, in)
		}
	case fsys.OpLink:
		in := d.mu.inodes[c.Object.ID]
		if from := d.mu.inodes[c.FromDir]; c.From != "" && from != nil {
			in = from.names[c.From]
		}
		if dir := d.mu.inodes[c.Dir]; in != nil && dir != nil {
			d.link(dir, c.Name, in)
		}
	case fsys.OpRename:
		d.rename(d.mu.inodes[c.FromDir], c.From, d.mu.inodes[c.Dir], c.Name)
	case fsys.OpRemove:
		d.remove(d.mu.inodes[c.Dir], c.Name)
	default:
		if in := d.mu.inodes[c.Object.ID]; in != nil {
			d.changeObject(in, c)
		}
	}
}

func (d *Disk) record(c *change) { d.mu.changes = append(d.mu.changes, c) }

func (d *Disk) link(dir *inode, name string, in *inode) {
	dir.names[name] = in
	d.record(&change{dirs: [2]*inode{dir}, apply: func(s *survivors) { s.of(dir).names[name] = in }})
}

func (d *Disk) rename(from *inode, oldName string, to *inode, newName string) {
	if from == nil || to == nil || from.names[oldName] == nil || from.names[oldName] == to.names[newName] {
		return
	}
	in := from.names[oldName]
	delete(from.names, oldName)
	to.names[newName] = in
	d.record(&change{dirs: [2]*inode{from, to}, apply: func(s *survivors) {
		if s.of(from).names[oldName] == in {
			delete(s.of(from).names, oldName)
		}
		s.of(to).names[newName] = in
	}})
}

func (d *Disk) remove(dir *inode, name string) {
	if dir == nil || dir.names[name] == nil {
		return
	}
	in := dir.names[name]
	delete(dir.names, name)
	d.record(&change{dirs: [2]*inode{dir}, emptied: in, apply: func(s *survivors) {
		if s.of(dir).names[name] == in && len(s.of(in).names) == 0 {
			delete(s.of(dir).names, name)
		}
	}})
}

// changeObject records a change of data or metadata.
func (d *Disk) changeObject(in *inode, c fsys.Change) {
	info := c.Object
	switch c.Op {
	case fsys.OpWrite:
		for off, rest := c.Offset, slices.Clone(c.Data); len(rest) > 0; {
			n := min(int64(len(rest)), page-off%page)
			part, at := rest[:n], off
			d.record(&change{of: in, data: true, off: at, to: at + n, apply: func(s *survivors) {
				st := s.of(in)
				if grown := at + n - int64(len(st.data)); grown > 0 {
					st.data = append(st.data, make([]byte, grown)...)
				}
				copy(st.data[at:], part)
			}})
			off, rest = off+n, rest[n:]
		}
	case fsys.OpTruncate:
		size := c.Offset
		d.record(&change{of: in, data: true, to: math.MaxInt64, apply: func(s *survivors) {
			st := s.of(in)
			if size <= int64(len(st.data)) {
				st.data = st.data[:size:size]
			} else {
				st.data = append(st.data, make([]byte, size-int64(len(st.data)))...)
			}
		}})
	case fsys.OpChown, fsys.OpChmod:
		d.record(&change{of: in, apply: func(s *survivors) {
			to := &s.of(in).info
			to.UID, to.GID, to.Mode = info.UID, info.GID, info.Mode
		}})
	case fsys.OpTimes:
		d.record(&change{of: in, apply: func(s *survivors) {
			st := s.of(in)
			st.times, st.info.Atime, st.info.Mtime, st.info.Btime = true, info.Atime, info.Mtime, info.Btime
		}})
	case fsys.OpSetXattr:
		name, value := c.Xattr.Name, slices.Clone(c.Xattr.Value)
		d.record(&change{of: in, apply: func(s *survivors) {
			if c.Xattr.Value == nil {
				delete(s.of(in).xattrs, name)
				return
			}
			s.of(in).xattrs[name] = value
		}})
	}
}

// Flush implements fsys.Disk.
func (d *Disk) Flush(f fsys.Flush) (done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.cut {
		return true, ErrCut
	}
	in := d.mu.inodes[f.Object.ID]
	if in == nil {
		return false, nil
	}
	if f.Op == fsys.OpSyncFS && !d.all {
		return true, errors.ErrUnsupported
	}
	to := onDisk
	if f.ToDrive {
		to = inDrive
	}
	emptied := map[*inode]bool{}
	for _, c := range slices.Backward(d.mu.changes) {
		if c.place < to && (c.flushedBy(f, in) || emptied[c.dirs[0]] || emptied[c.dirs[1]]) {
			c.place = to
			if c.emptied != nil {
				emptied[c.emptied] = true
			}
		}
	}
	return true, nil
}

func (c *change) flushedBy(f fsys.Flush, in *inode) bool {
	switch {
	case f.Op == fsys.OpSyncFS:
		return true
	case f.Op == fsys.OpSyncDrive:
		return c.place == inDrive
	case c.of == nil:
		return c.dirs[0] == in || c.dirs[1] == in
	case c.of.unsyncable():
		return slices.Contains(slices.Collect(maps.Values(in.names)), c.of)
	case c.of != in || f.DataOnly && !c.data:
		return false
	}
	return !f.Part || c.off < f.Offset+f.N && c.to > f.Offset
}

// Lose creates the directory into, which does not exist, with the tree that a power cut
// would leave now. It has everything that was flushed, and the other changes for which
// survives returns true; nil loses them all.
func (d *Disk) Lose(into string, survives func() bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &survivors{states: map[*inode]*state{}}
	for _, c := range d.mu.changes {
		if c.place == onDisk || survives != nil && survives() {
			c.apply(s)
		}
	}
	made := map[*inode]string{}
	if err := s.make(d.mu.root, into, made); err != nil {
		return fmt.Errorf("what a power cut leaves: %w", err)
	}
	return nil
}

// make makes what has survived of an inode at path. made is where the others are.
func (s *survivors) make(in *inode, path string, made map[*inode]string) error {
	if first, ok := made[in]; ok && in.first.info.Kind != fsys.Directory {
		return os.Link(first, path)
	} else if ok {
		return fmt.Errorf("%s: a directory with two names", path)
	}
	made[in] = path
	st := s.of(in)
	switch st.info.Kind {
	case fsys.Directory:
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(st.names)) {
			if err := s.make(st.names[name], filepath.Join(path, name), made); err != nil {
				return err
			}
		}
	case fsys.Regular:
		if err := os.WriteFile(path, st.data, 0o600); err != nil {
			return err
		}
	case fsys.Symlink:
		if err := os.Symlink(st.target, path); err != nil {
			return err
		}
	}
	dir, err := fsys.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return st.dress(dir, filepath.Base(path))
}

// dress makes special files, and gives the entry name its metadata.
func (st *state) dress(dir *fsys.Dir, name string) error {
	switch st.info.Kind {
	case fsys.Directory, fsys.Regular, fsys.Symlink:
	default:
		if err := dir.Mknod(name, st.info); err != nil {
			return err
		}
	}
	o, err := dir.OpenObject(name)
	if err != nil {
		return err
	}
	defer o.Close()
	now, err := o.Stat()
	if err != nil {
		return err
	}
	if now.UID != st.info.UID || now.GID != st.info.GID {
		if err := o.Chown(st.info.UID, st.info.GID); err != nil {
			return err
		}
	}
	for key, value := range st.xattrs {
		if err := o.SetXattr(key, value); err != nil {
			return err
		}
	}
	if st.info.Kind != fsys.Symlink && now.Mode != st.info.Mode {
		if err := o.Chmod(st.info.Mode); err != nil {
			return err
		}
	}
	if st.times {
		return o.SetTimes(st.info.Atime, st.info.Mtime, st.info.Btime)
	}
	return nil
}
