package record

import (
	"cmp"

	"github.com/seed65876f4f/sealift/internal/manifest"
)

// leastMemory is the memory for the files of a run with any number of destinations, in bytes.
const leastMemory = 2 << 20

// Files are the files that a run lists at one destination, sorted by path. All books of the destination
// use them.
//
// Most runs of a copy that is repeated change few files. If a single manifest needs the lines, those
// that stay are only marked in its index, and are not among the files of the Builder.
type Files struct {
	*manifest.Builder
	Changed bool // the Builder has records

	marked *manifest.Index // of the previous manifest; nil if no lines are marked
	drops  bool            // the Builder has records of files without a line
}

func newFiles(d *Destination) *Files {
	memory := max(cmp.Or(d.Memory, manifest.DefaultMemory), leastMemory)
	return &Files{Builder: manifest.NewBuilder(d.Hashes, d.Spill, memory)}
}

// Mark lets an index mark the lines that stay.
func (f *Files) Mark(previous *manifest.Index) { f.marked = previous }

// Marked returns the index of Mark; nil if no lines are marked.
func (f *Files) Marked() *manifest.Index {
	if f == nil {
		return nil
	}
	return f.marked
}

func (f *Files) account(o Outcome) error {
	switch {
	case o.Below:
		return nil
	case o.drops():
		f.Changed, f.drops = true, true
		return f.Drop(o.Path)
	case o.Digests == nil:
		return nil
	case o.Line != 0 && f.marked != nil && !f.drops: // a dropped line may be about the same path: the last record counts
		f.marked.Stay(o.Line)
		return nil
	}
	f.Changed = true
	return f.Put(manifest.Entry{Path: o.Path, Digests: o.Digests, Size: o.Size, Mtime: o.Mtime})
}
