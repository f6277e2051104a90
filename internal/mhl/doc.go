// Package mhl reads and writes ASC MHL v2.0: the histories of a directory tree that are
// in directories called ascmhl. It knows nothing of copies.
//
// A history has generations, each a list of hashes (generation.go, write.go), and a chain
// that lists the generations with their C4 IDs (chain.go). Below a tree with a history
// there may be others: a file belongs to the closest one above it.
//
//	Open ──▶ Tree: the histories of a tree, checked, as sorted Records and ignore patterns
//	             │
//	results of a run, sorted ──▶ Tree.Write: one pass writes a generation for each history
//
// Generations may be hostile. The package reads them as a stream, through safexml, and
// sorts the content that it keeps externally. So memory does not grow with their number or
// size.
//
// The specification is at https://github.com/ascmitc/mhl-specification, the schema and the
// reference implementation, ascmhl, at https://github.com/ascmitc/mhl.
package mhl

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

const (
	// Folder is the name of the directory that holds a history.
	Folder = "ascmhl"

	// ChainName is the name of the chain in Folder.
	ChainName = "ascmhl_chain.xml"

	extension = ".mhl" // suffix of the names of generations
)

// algorithms are the hashes of the schema, in the order in which a hash element lists them.
var algorithms = []hash.Algorithm{hash.C4, hash.MD5, hash.SHA1, hash.XXH128, hash.XXH3, hash.XXH64}

// Algorithms lists the hashes that a history can have. The slice belongs to the caller.
func Algorithms() []hash.Algorithm { return slices.Clone(algorithms) }

// DefaultHash is the hash of generations if the user chooses none.
const DefaultHash = hash.XXH64

// HoldsHistory reports whether a directory has a history in its ascmhl. No line manifest lists
// a history, because its chain changes with each copy.
func HoldsHistory(d interface {
	Acquire() (*fsys.Dir, error)
	Release()
}) bool {
	dir, err := d.Acquire()
	if err != nil {
		return false
	}
	defer d.Release()
	folder, err := dir.OpenDir(Folder)
	if err != nil {
		return false
	}
	defer folder.Close()
	info, err := folder.Lstat(ChainName)
	return err == nil && info.Kind == fsys.Regular
}

// Representable reports whether XML 1.0 can contain a name.
func Representable(name string) bool { return safexml.CanHold(name) }
