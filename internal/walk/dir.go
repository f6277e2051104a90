package walk

import (
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Dir is a directory of the tree that is being walked. It exists until its listing is
// exhausted, each Hold is matched by a Done, and all its subdirectories have been left. Then
// the walk calls the visitor's Leave.
type Dir struct {
	Parent  *Dir      // directory above; nil for the root
	Name    string    // name in Parent; "" for the root
	Info    fsys.Info // state of the directory when it was opened
	Place   Place     // place in Parent; set if Options.Found is
	Entries int       // number of listed entries, known when d is left; set if Options.Found is
	State   any       // data of the visitor
	Note    any       // Step.Note, if Feed visits the directory; data for the visitor

	handle  *fsys.Handle
	visitor Visitor
	verdict filter.Verdict // everything is selected if no filter has judged it
	only    *filter.Node   // entries in the directory that --files-from selects; nil for everything
	pending atomic.Int64
}

// Item is an entry of a directory, with a note of the caller.
type Item struct {
	Dir  *Dir
	Name string
	Kind fsys.Kind
	Note any
}

// Place is the position of an entry in the system's listing.
type Place struct {
	At  int    // number of entries that are listed before it
	Ino uint64 // inode as listed; at a mount point, that of the hidden directory; 0 if the system lists none
}

// NewRoot returns the root of a walk of the open directory of h. The caller holds it once, and
// passes that hold to Walk, or releases it.
func NewRoot(h *fsys.Handle, info fsys.Info, v Visitor) *Dir {
	d := &Dir{Info: info, handle: h, visitor: v, verdict: everything}
	d.pending.Store(1)
	return d
}

// everything is the verdict on a directory without filters.
var everything = (*filter.List)(nil).Root()

// selectOnly limits the walk of d to the entries that n selects.
func (d *Dir) selectOnly(n *filter.Node) {
	if !n.All() {
		d.only = n
	}
}

// Path returns the path relative to the root, "" for the root itself. Each call builds the
// path anew: storing it for each directory of a deep tree would need memory of the square of
// the depth.
func (d *Dir) Path() string { return d.join("") }

// Join returns the path of the entry name relative to the root; "" is the directory.
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
	var short [256]byte // long enough for most paths, so that only the string is allocated
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

// Implied reports whether the filters select entries in the directory and not the directory
// itself. A copy creates it only when it copies an entry in it.
func (d *Dir) Implied() bool {
	return !d.verdict.Selected || d.only != nil
}

// Acquire returns the open directory for use until Release.
func (d *Dir) Acquire() (*fsys.Dir, error) { return d.handle.Acquire() }

// Release ends one use that Acquire has begun.
func (d *Dir) Release() { d.handle.Release() }

// Hold prevents the walk from leaving the directory until Done.
func (d *Dir) Hold() { d.pending.Add(1) }

// Done ends one Hold. The last Done leaves the directory, and each directory above it that is
// then complete.
func (d *Dir) Done() {
	for d != nil && d.pending.Add(-1) == 0 {
		d.visitor.Leave(d)
		d.handle.Close()
		d = d.Parent
	}
}
