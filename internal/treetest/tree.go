// Package treetest makes directory trees from literals and compares trees on
// disk completely, for tests of programs that copy.
//
//	treetest.Create(t, src, treetest.Dir{
//		"a.txt": treetest.File("hello\n", treetest.Mode(0o640)),
//		"sub":   treetest.Dir{"b": treetest.File("x", treetest.Linked("pair"))},
//		"c":     treetest.File("x", treetest.Linked("pair")), // a hard link to sub/b
//		"link":  treetest.Symlink("sub/b"),
//	})
//	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
package treetest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Node is an entry of a tree literal.
type Node interface{ node() *entry }

// Dir is a directory with what is in it. [Directory] gives one metadata.
type Dir map[string]Node

func (d Dir) node() *entry { return &entry{kind: directory, children: d} }

type kind uint8

const (
	directory kind = iota
	regular
	symlink
	fifo
	socket
	charDevice
)

// entry is the description that each node returns.
type entry struct {
	kind         kind
	children     Dir
	size         int64
	data         map[int64]string // data by offset; the ranges between are holes
	target       string
	major, minor uint32

	mode   os.FileMode
	chmod  bool
	mtime  time.Time // modification time; zero to leave it unchanged
	xattrs map[string]string
	uid    int
	gid    int
	chown  bool
	group  string // names of one group are one file
}

func (e *entry) node() *entry { return e }

// Option is a piece of metadata of a node.
type Option func(*entry)

// Mode sets the permission bits in the form of chmod(1), such as 0o4711 for a setuid file. The
// umask has no effect.
func Mode(bits uint32) Option {
	mode := os.FileMode(bits).Perm()
	for bit, flag := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return func(e *entry) { e.mode, e.chmod = mode, true }
}

// Mtime sets the modification time to the nanosecond.
func Mtime(t time.Time) Option { return func(e *entry) { e.mtime = t } }

// Xattr sets an extended attribute.
func Xattr(name, value string) Option {
	return func(e *entry) {
		if e.xattrs == nil {
			e.xattrs = map[string]string{}
		}
		e.xattrs[name] = value
	}
}

// Owner sets owner and group, which only root may do.
func Owner(uid, gid int) Option {
	return func(e *entry) { e.uid, e.gid, e.chown = uid, gid, true }
}

// Linked makes all names of a group hard links to one file. The node of the first name, in
// byte order of the paths, describes the file.
func Linked(group string) Option { return func(e *entry) { e.group = group } }

func build(e *entry, options []Option) Node {
	for _, o := range options {
		o(e)
	}
	return e
}

// Directory is a directory with metadata.
func Directory(d Dir, options ...Option) Node {
	return build(&entry{kind: directory, children: d}, options)
}

// File is a regular file.
func File(content string, options ...Option) Node {
	return Sparse(int64(len(content)), map[int64]string{0: content}, options...)
}

// Sparse is a regular file of size bytes that has data at some offsets, and holes between if
// the file system supports them.
func Sparse(size int64, data map[int64]string, options ...Option) Node {
	return build(&entry{kind: regular, size: size, data: data}, options)
}

// Symlink is a symbolic link. Only [Mtime] and [Owner] apply to it.
func Symlink(target string, options ...Option) Node {
	return build(&entry{kind: symlink, target: target}, options)
}

// Fifo is a named pipe.
func Fifo(options ...Option) Node { return build(&entry{kind: fifo}, options) }

// Socket is the name of a socket that no process listens to.
func Socket(options ...Option) Node { return build(&entry{kind: socket}, options) }

// CharDevice is a character device node, which only root can create.
func CharDevice(major, minor uint32, options ...Option) Node {
	return build(&entry{kind: charDevice, major: major, minor: minor}, options)
}

// Create creates the tree at path. It adds to existing directories, so a tree can be created
// in several steps. Other names must not exist.
func Create(t testing.TB, path string, tree Node) {
	t.Helper()
	if err := Make(path, tree); err != nil {
		t.Fatalf("making a tree: %v", err)
	}
}

// Make is [Create] for callers without a testing.TB.
func Make(path string, tree Node) error {
	return (&maker{groups: map[string]string{}}).make(path, tree.node())
}

type maker struct{ groups map[string]string } // path of each group's first name

func (m *maker) make(path string, e *entry) error {
	if first, ok := m.groups[e.group]; ok && e.group != "" {
		return os.Link(first, path)
	}
	if err := m.makeBare(path, e); err != nil {
		return err
	}
	if e.group != "" {
		m.groups[e.group] = path
	}
	return applyMetadata(path, e)
}

// makeBare creates the entry and its content without metadata, which is set last, because
// further changes would alter it.
func (m *maker) makeBare(path string, e *entry) error {
	switch e.kind {
	case directory:
		if err := os.MkdirAll(path, 0o777); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(e.children)) {
			if err := m.make(filepath.Join(path, name), e.children[name].node()); err != nil {
				return err
			}
		}
		return nil
	case regular:
		return writeSparse(path, e)
	case symlink:
		return os.Symlink(e.target, path)
	}
	return makeSpecial(path, e)
}

func writeSparse(path string, e *entry) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := f.Truncate(e.size); err != nil {
		return err
	}
	for off, data := range e.data {
		if off+int64(len(data)) > e.size {
			return fmt.Errorf("%s: data beyond the end of the file", path)
		}
		if _, err := f.WriteAt([]byte(data), off); err != nil {
			return err
		}
	}
	return nil
}
