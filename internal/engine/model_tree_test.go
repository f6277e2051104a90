//go:build linux

package engine_test

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
	"time"

	"golang.org/x/sys/unix"
)

// A tree is the content of a directory: nodes by path relative to it. The directory
// itself is not in it.
type tree map[string]node

// node is one entry of a tree.
type node struct {
	kind  nodeKind
	data  string // content of a file, target of a symbolic link
	mtime int64  // nanoseconds; 0 for directories, because the model ignores their times
	mode  uint32 // permissions of a file; 0 for others
}

type nodeKind byte

const (
	absent    nodeKind = 0
	file      nodeKind = 'f'
	directory nodeKind = 'd'
	symlink   nodeKind = 'l'
)

// Values of an expected node that match everything.
const (
	anyTime int64  = -1
	anyMode uint32 = 0
)

const usualMode = 0o644 // of every file of a source, and of a new manifest

// reserved begins the names of temporaries and journals.
const reserved = ".sealift-"

// markerPrefix begins the name of the file that marks an incomplete copy. It has rules
// of its own and is ignored here.
const markerPrefix = "SEALIFT-INCOMPLETE-"

func (n node) String() string {
	switch n.kind {
	case absent:
		return "absent"
	case directory:
		return "directory"
	case symlink:
		return fmt.Sprintf("symlink to %q, mtime %d", n.data, n.mtime)
	}
	return fmt.Sprintf("file %q, mtime %d, mode %o", n.data, n.mtime, n.mode)
}

// matches reports whether n is what want describes.
func (n node) matches(want node) bool {
	return n.kind == want.kind && n.data == want.data &&
		(want.mtime == anyTime || n.mtime == want.mtime) &&
		(want.mode == anyMode || n.mode == want.mode)
}

// isFile reports whether the tree has a regular file at p.
func (t tree) isFile(p string) bool { return t[p].kind == file }

// paths lists the tree in byte order, parents before what they hold.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// withParents adds the directories above p that the tree lacks. It replaces nothing.
func (t tree) withParents(p string) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if t[d].kind == absent {
			t[d] = node{kind: directory}
		}
	}
}

// remove takes p and everything below it out of the tree.
func (t tree) remove(p string) {
	maps.DeleteFunc(t, func(q string, _ node) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// isReserved reports whether a path is that of a temporary or journal, or inside one.
func isReserved(p string) bool {
	return strings.HasPrefix(p, reserved) || strings.Contains(p, "/"+reserved)
}

// leftovers lists the temporaries and journals of the tree.
func (t tree) leftovers() (found []string) {
	for _, p := range t.paths() {
		if isReserved(p) {
			found = append(found, p)
		}
	}
	return found
}

// visible is the tree without temporaries, journals and markers of incomplete copies.
func (t tree) visible() tree {
	v := maps.Clone(t)
	maps.DeleteFunc(v, func(p string, _ node) bool { return isReserved(p) || strings.HasPrefix(p, markerPrefix) })
	return v
}

// diff describes where got is not what want describes.
func (t tree) diff(want tree) (differences []string) {
	all := maps.Clone(t)
	maps.Copy(all, want)
	for _, p := range all.paths() {
		if got, want := t[p], want[p]; !got.matches(want) {
			differences = append(differences, fmt.Sprintf("%q: got %s, want %s", p, got, want))
		}
	}
	return differences
}

// readTree reads a directory; exists is false if there is none.
func readTree(dir string) (t tree, exists bool, err error) {
	t = tree{}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == dir {
			return nil
		}
		n, err := readNode(p)
		t[p[len(dir)+1:]] = n
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(dir); gone != nil {
			return t, false, nil
		}
	}
	return t, true, err
}

// readNode reads one entry. It is absent without an error.
func readNode(p string) (node, error) {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return node{}, nil
	}
	if err != nil {
		return node{}, err
	}
	switch {
	case info.IsDir():
		return node{kind: directory}, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(p)
		return node{kind: symlink, data: target, mtime: info.ModTime().UnixNano()}, err
	case info.Mode().IsRegular():
		data, err := os.ReadFile(p)
		return node{kind: file, data: string(data), mtime: info.ModTime().UnixNano(), mode: uint32(info.Mode().Perm())}, err
	}
	return node{}, fmt.Errorf("%s is a %s", p, info.Mode().Type())
}

// writeTree changes the content of the directory dir from have to want. It does not change entries
// that are equal in both.
func writeTree(dir string, have, want tree) error {
	for _, p := range slices.Backward(have.paths()) {
		h, w := have[p], want[p]
		if h != w && h.kind != absent && (h.kind != w.kind || h.kind == symlink) {
			if err := os.Remove(filepath.Join(dir, p)); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range want.paths() {
		if have[p] == want[p] {
			continue
		}
		if err := writeNode(filepath.Join(dir, p), have[p], want[p]); err != nil {
			return err
		}
	}
	return nil
}

// writeNode makes an entry from nothing, or a file from another file.
func writeNode(p string, have, want node) error {
	switch want.kind {
	case directory:
		return os.Mkdir(p, 0o755)
	case symlink:
		if err := os.Symlink(want.data, p); err != nil {
			return err
		}
	case file:
		if have.kind != file || have.data != want.data {
			if err := os.WriteFile(p, []byte(want.data), usualMode); err != nil {
				return err
			}
		}
		if err := os.Chmod(p, fs.FileMode(want.mode)); err != nil {
			return err
		}
	}
	when := unix.NsecToTimespec(want.mtime)
	return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
}

// at is the modification time of hour h of the model's clock.
func at(h int) int64 { return time.Date(2024, 5, 1, h, 0, 0, 123456789, time.UTC).UnixNano() }

// A snapshot is everything that a history deals with: the directory that is copied, the
// directory with the single files that are copied, and the destinations.
type snapshot struct {
	source, single tree
	places         []place
}

// A place is one destination, and the manifest beside it that --manifest can name.
type place struct {
	exists  bool
	tree    tree
	outside node
}

func (s snapshot) clone() snapshot {
	c := snapshot{source: maps.Clone(s.source), single: maps.Clone(s.single)}
	for _, p := range s.places {
		c.places = append(c.places, p.clone())
	}
	return c
}

func (p place) clone() place {
	p.tree = maps.Clone(p.tree)
	return p
}

// The places of a snapshot below its directory.
const (
	sourceDir   = "source"
	singleDir   = "single"
	outsideName = "out.sums"
)

func placeDir(i int) string { return fmt.Sprintf("place%d/dst", i) }

func outsideFile(i int) string { return fmt.Sprintf("place%d/%s", i, outsideName) }

// readSnapshot reads the present state of a snapshot that snapshot.write has written.
func readSnapshot(dir string, places int) (s snapshot, err error) {
	if s.source, _, err = readTree(filepath.Join(dir, sourceDir)); err != nil {
		return s, err
	}
	if s.single, _, err = readTree(filepath.Join(dir, singleDir)); err != nil {
		return s, err
	}
	for i := range places {
		var p place
		if p.tree, p.exists, err = readTree(filepath.Join(dir, placeDir(i))); err != nil {
			return s, err
		}
		if p.outside, err = readNode(filepath.Join(dir, outsideFile(i))); err != nil {
			return s, err
		}
		s.places = append(s.places, p)
	}
	return s, nil
}

// write changes the files below dir from the snapshot have to s.
func (s snapshot) write(dir string, have snapshot) error {
	if err := writeTree(filepath.Join(dir, sourceDir), have.source, s.source); err != nil {
		return err
	}
	if err := writeTree(filepath.Join(dir, singleDir), have.single, s.single); err != nil {
		return err
	}
	for i, p := range s.places {
		h := place{}
		if i < len(have.places) {
			h = have.places[i]
		}
		if err := p.write(dir, i, h); err != nil {
			return err
		}
	}
	return nil
}

func (p place) write(dir string, i int, have place) error {
	at := filepath.Join(dir, placeDir(i))
	switch {
	case p.exists:
		if err := writeTree(at, have.tree, p.tree); err != nil {
			return err
		}
	case have.exists:
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if p.outside == have.outside {
		return nil
	}
	outside := filepath.Join(dir, outsideFile(i))
	if p.outside.kind == absent {
		return os.Remove(outside)
	}
	return writeNode(outside, have.outside, p.outside)
}
