package catalog

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Recorder keeps the records of a task. Another process writes the manifests.
type Recorder interface {
	Record(Outcome) error
	Drop(file string) error
	DropBelow(dir string) error
	// Each calls yield for the files that have digests, in the order of the manifests.
	Each(yield func(file string, digests hash.Digests) error) error
}

// OpenPart returns a catalog without manifests: the recorder gets each record. Write is not
// called.
func OpenPart(root *fsys.Dir, hashes []hash.Algorithm, r Recorder) *Catalog {
	return &Catalog{opts: Options{Hashes: hashes}, root: root, source: &Source{}, recorder: r}
}

// NewExpectation returns the expectation for a file whose digests are listed. For each
// list, digests has the digests in that list, and slots the index of its hash among those
// of the run.
func NewExpectation(slots []int, digests [][][]byte) Expectation {
	return Expectation{slots: slots, digests: digests}
}
