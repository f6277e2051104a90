package engine

import (
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// newSpill creates a temporary file in the journal for the lines of a manifest that exceed the
// memory limit.
func (t *target) newSpill() (extsort.Spill, error) {
	p, err := t.journal.Create()
	if err != nil {
		return nil, err
	}
	return &fsys.Spill{Pending: p}, nil
}

// newSpill creates a temporary file for the names of hard links that exceed the memory limit. It
// is in the journal of a destination, or in the directory of the system if there is no journal.
func (r *run) newSpill() (extsort.Spill, error) {
	for _, t := range r.targets {
		if t.journal != nil && !t.Dropped() {
			return t.newSpill()
		}
	}
	return extsort.TempFile()
}
