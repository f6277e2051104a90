package engine

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// newSpill makes the temporary of a manifest that outgrows memory.
func (t *target) newSpill() (manifest.Spill, error) {
	p, err := t.journal.Create()
	if err != nil {
		return nil, err
	}
	return &spill{Pending: p}, nil
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
		return &spill{Pending: p}, nil
	}
	return nil, errNoTarget // a dry run has none, either
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
