//go:build linux

package model

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kind is the type of an entry.
type kind byte

const (
	file kind = 'f'
	dir  kind = 'd'
	link kind = 'l'
	fifo kind = 'p'
)

// epoch is the base of all modification times of the model. It is long ago, so a time that the
// kernel has set is never equal to one of the model.
var epoch = time.Unix(1_500_000_000, 0)

// anyTime is a modification time that the model does not predict, because the kernel sets it.
const anyTime = -1

// A node is an entry of a tree. The names of one file share one node.
type node struct {
	kind  kind
	data  string // the content of a file, the target of a link
	mtime int64  // nanoseconds since epoch, or anyTime
	mode  uint32 // permissions; 0 where the model does not predict them

	anyData bool // the content is not predicted
}

func (n *node) String() string {
	if n == nil {
		return "absent"
	}
	data := n.data
	if len(data) > 400 {
		data = data[:20] + "..."
	}
	return fmt.Sprintf("%c %q time %d mode %o", n.kind, data, n.mtime, n.mode)
}

// same reports whether an entry on disk is as predicted.
func (n *node) same(got *node) bool {
	if n == nil || got == nil {
		return n == got
	}
	return n.kind == got.kind && (n.anyData || n.data == got.data) && (n.mtime == anyTime || n.mtime == got.mtime) &&
		(n.mode == 0 || n.kind == link || n.mode == got.mode)
}

// A tree has the entries below a root by their path.
type tree map[string]*node

// clone copies the tree; names of one file remain names of one file.
func (t tree) clone() tree {
	nodes := map[*node]*node{}
	c := make(tree, len(t))
	for p, n := range t {
		if nodes[n] == nil {
			d := *n
			nodes[n] = &d
		}
		c[p] = nodes[n]
	}
	return c
}

// paths returns all paths; a directory comes before its entries.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// below returns the paths below a directory; "" is the root.
func (t tree) below(p string) (list []string) {
	for _, q := range t.paths() {
		if p == "" || strings.HasPrefix(q, p+"/") {
			list = append(list, q)
		}
	}
	return list
}

// remove removes an entry and everything below it.
func (t tree) remove(p string) {
	for _, q := range t.below(p) {
		delete(t, q)
	}
	delete(t, p)
}

// firstNames maps each name of a file with several names to the first of them.
func (t tree) firstNames() map[string]string {
	first := map[*node]string{}
	names := map[string]string{}
	for _, p := range t.paths() {
		n := t[p]
		if n.kind == dir {
			continue
		}
		if first[n] == "" {
			first[n] = p
		} else {
			names[p] = first[n]
		}
	}
	return names
}

// diff returns the differences of the tree got from the predicted tree t.
func (t tree) diff(got tree) (list []string) {
	all := maps.Clone(t)
	maps.Copy(all, got)
	for _, p := range all.paths() {
		if !t[p].same(got[p]) {
			list = append(list, fmt.Sprintf("%q: want %s, got %s", p, t[p], got[p]))
		}
	}
	want, have := t.firstNames(), got.firstNames()
	for _, p := range all.paths() {
		if t[p] != nil && got[p] != nil && want[p] != have[p] {
			list = append(list, fmt.Sprintf("%q: want a hard link to %q, got one to %q (\"\" is none)", p, want[p], have[p]))
		}
	}
	return list
}

// write creates the entries of the tree below an empty directory, or changes the entries that differ
// from old, the tree that is there.
func (t tree) write(root string, old tree) error {
	at := func(p string) string { return filepath.Join(root, filepath.FromSlash(p)) }
	oldFirst, first := old.firstNames(), t.firstNames()
	var gone []string
	for _, p := range old.paths() {
		n := t[p]
		if n == nil || n.kind != old[p].kind || n.kind != dir && (n.data != old[p].data || first[p] != oldFirst[p]) {
			gone = append(gone, p)
		}
	}
	slices.Reverse(gone)
	for _, p := range gone {
		if err := os.Remove(at(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, p := range t.paths() {
		if _, err := os.Lstat(at(p)); err == nil {
			continue
		}
		var err error
		switch n := t[p]; {
		case n.kind != dir && first[p] != "":
			err = os.Link(at(first[p]), at(p))
		case n.kind == dir:
			err = os.Mkdir(at(p), 0o700)
		case n.kind == file:
			err = os.WriteFile(at(p), []byte(n.data), 0o600)
		case n.kind == link:
			err = os.Symlink(n.data, at(p))
		case n.kind == fifo:
			err = unix.Mkfifo(at(p), 0o600)
		}
		if err != nil {
			return err
		}
	}
	names := t.paths()
	slices.Reverse(names) // directories after their entries
	for _, p := range names {
		n := t[p]
		if n.kind != link {
			if err := os.Chmod(at(p), os.FileMode(n.mode)); err != nil {
				return err
			}
		}
		ts := unix.NsecToTimespec(epoch.UnixNano() + n.mtime)
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, at(p), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return nil
}

// readTree reads the tree below root. journal reports whether a journal is there, which is not
// a part of the tree.
func readTree(root string) (t tree, journal bool, err error) {
	t = tree{}
	nodes := map[uint64]*node{}
	var walk func(string) error
	walk = func(p string) error {
		entries, err := os.ReadDir(filepath.Join(root, p))
		if err != nil {
			return err
		}
		for _, e := range entries {
			q := path.Join(p, e.Name())
			if p == "" && strings.HasPrefix(e.Name(), ".sealift-") && strings.HasSuffix(e.Name(), "journal") {
				journal = true
				continue
			}
			var st syscall.Stat_t
			if err := syscall.Lstat(filepath.Join(root, q), &st); err != nil {
				return err
			}
			n := nodes[st.Ino]
			if n != nil {
				t[q] = n
				continue
			}
			n = &node{mtime: st.Mtim.Nano() - epoch.UnixNano(), mode: st.Mode & 0o7777}
			nodes[st.Ino], t[q] = n, n
			switch st.Mode & syscall.S_IFMT {
			case syscall.S_IFDIR:
				n.kind = dir
				if err := walk(q); err != nil {
					return err
				}
			case syscall.S_IFLNK:
				n.kind = link
				n.data, err = os.Readlink(filepath.Join(root, q))
			case syscall.S_IFREG:
				n.kind = file
				var b []byte
				b, err = os.ReadFile(filepath.Join(root, q))
				n.data = string(b)
			case syscall.S_IFIFO:
				n.kind = fifo
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return t, journal, walk("")
}
