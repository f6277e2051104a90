package engine

import (
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// newSpill makes the temporary of a manifest that outgrows memory.
func (t *target) newSpill() (extsort.Spill, error) {
	p, err := t.journal.Create()
	if err != nil {
		return nil, err
	}
	return &fsys.Spill{Pending: p}, nil
}

// newPendingLinksFile makes the temporary of hard links that outgrow memory, at the first
// destination that is there.
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
	return nil, errNoTarget // a dry run has none, either
}
