package walk

import (
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Dir is a directory of the tree that is being walked. It lives until its
// listing is exhausted, every Hold is given back by Done, and all its
// subdirectories have been left; then the visitor's Leave is called.
type Dir struct {
	Parent  *Dir      // nil for the root
	Name    string    // "" for the root
	Info    fsys.Info // its state when it was opened
	Place   Place     // its place in Parent; set if Options.Found is
	Entries int       // the number that the system lists, known when d is left; set if Options.Found is
	State   any       // data of the visitor
	Note    any       // that Feed was given for it

	handle  *fsys.Handle
	visitor Visitor
	verdict filter.Verdict
	only    *filter.Node // what --files-from wants of it; nil for everything
	pending atomic.Int64
}

// Place is where the system lists an entry.
type Place struct {
	At  int    // how many entries are listed before it
	Ino uint64 // as listed: of a mount point, what it hides; 0 if the system lists none
}

// NewRoot makes the root of a walk of the open directory behind h, held once by
// the caller: Walk, or a caller that passes on the entries itself.
func NewRoot(h *fsys.Handle, info fsys.Info, v Visitor) *Dir {
	d := &Dir{Info: info, handle: h, visitor: v}
	d.pending.Store(1)
	return d
}

// Path returns the path relative to the root, "" for the root itself. It is
// made anew at each call: keeping it for every directory of a deep tree would
// cost the square of its depth.
func (d *Dir) Path() string { return d.join("") }

// Join returns the path of the entry name relative to the root.
func (d *Dir) Join(name string) string {
	if d.Parent == nil {
		return name
	}
	return d.join(name)
}

func (d *Dir) join(name string) string {
	size := len(name)
	for p := d; p.Parent != nil; p = p.Parent {
		size += len(p.Name) + 1
	}
	if name == "" && size > 0 {
		size-- // no slash at the end
	}
	var short [256]byte // most paths: nothing but the string is allocated
	path := short[:min(size, len(short))]
	if size > len(short) {
		path = make([]byte, size)
	}
	at := size - len(name)
	copy(path[at:], name)
	for p := d; p.Parent != nil; p = p.Parent {
		if at < size {
			at--
			path[at] = '/'
		}
		at -= len(p.Name)
		copy(path[at:], p.Name)
	}
	return string(path)
}

// Implied reports whether the filters want only something in the directory and not the
// directory itself: it is created when something is copied into it.
func (d *Dir) Implied() bool {
	return d.verdict == filter.Traverse || d.only != nil && !d.only.All()
}

// Acquire returns the open directory for use until Release.
func (d *Dir) Acquire() (*fsys.Dir, error) { return d.handle.Acquire() }

// Release ends one use begun by Acquire.
func (d *Dir) Release() { d.handle.Release() }

// Hold keeps the directory from being left until Done.
func (d *Dir) Hold() { d.pending.Add(1) }

// Done gives one Hold back. The last one leaves the directory, and whatever
// directories above it that leaves complete.
func (d *Dir) Done() {
	for d != nil && d.pending.Add(-1) == 0 {
		d.visitor.Leave(d)
		d.handle.Close()
		d = d.Parent
	}
}
