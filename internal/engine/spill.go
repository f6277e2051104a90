package engine

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// newSpill creates a temporary file in the journal for the lines of a manifest that exceed the
// memory limit.
func (t *target) newSpill() (manifest.Spill, error) {
	p, err := t.journal.Create()
	if err != nil {
		return nil, err
	}
	return &spill{Pending: p}, nil
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
		return &spill{Pending: p}, nil
	}
	return nil, errNoTarget // also in a dry run
}

// spill is a pending file that is never committed.
type spill struct {
	*fsys.Pending
	off int64
}

func (s *spill) ReadAt(p []byte, off int64) (int, error) {
	return fsys.ReaderAt{File: &s.File}.ReadAt(p, off)
}

func (s *spill) Write(p []byte) (int, error) {
	if err := s.WriteAt(p, s.off); err != nil {
		return 0, err
	}
	s.off += int64(len(p))
	return len(p), nil
}

func (s *spill) Close() error {
	s.Abort()
	return nil
}
