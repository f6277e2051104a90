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

// newPendingLinksFile creates a temporary file in the journal of the first available
// destination, for records of hard links that exceed the memory limit.
func (r *run) newPendingLinksFile() (spillFile, error) {
	for _, t := range r.targets {
		if t.journal == nil || t.isDropped() {
			continue
		}
		p, err := t.journal.Create()
		if err != nil {
			return nil, err
		}
		return &fsys.Spill{Pending: p}, nil
	}
	return nil, errNoTarget // also in a dry run
}
