package engine

import "github.com/seed65876f4f/sealift/internal/extsort"

// newSpill creates a temporary file for the names of hard links that exceed the memory limit. It
// is in the journal of a destination, or in the directory of the system if there is no journal.
func (r *run) newSpill() (extsort.Spill, error) {
	for _, t := range r.targets {
		if t.Journal != nil && !t.Dropped() {
			return t.NewSpill()
		}
	}
	return extsort.TempFile()
}
