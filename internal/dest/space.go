package dest

import (
	"fmt"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Space is the free space of a destination when the copy began, and the space that the copy
// needs.
type Space struct {
	Device    uint64       // device that has the free space
	Available int64        // free bytes, -1 if unknown
	Created   atomic.Int64 // bytes of files that this run has created
	Present   atomic.Int64 // bytes of all files of the source that exist there, Created included
	Needed    atomic.Int64 // bytes that the copy needs, by a scan of source and destination; 0 until it is complete
}

// Measure reads the free space of the file system of dir.
func (s *Space) Measure(dir *fsys.Dir) {
	s.Available = -1
	if info, err := dir.Stat(); err == nil {
		s.Device, s.Available = info.ID.Dev, dir.Available()
	}
}

// Lacks reports whether the copy needs more than is available.
func (s *Space) Lacks(needed int64) bool { return s.Available >= 0 && needed > s.Available }

// Explain adds the free space to err, the error of a full device at path. If a scan has counted it,
// Explain adds the space that the rest of the copy needs, too. If the root existed before the run, only
// the scan that has set Needed knows the files in it. The rest of the copy includes the file that did
// not fit, so the space of its written part counts as free. If the path is on a file system that is
// mounted in the destination, or if the file system has no inode left, Explain adds only that.
func (s *Space) Explain(err error, root *fsys.Dir, path string, created bool, source *counters.Set) error {
	if !fsys.DeviceFull(err) || root == nil || s.Available < 0 {
		return err
	}
	find := fsys.NewFinder(root, fsys.FinderLimit())
	defer find.Close()
	dir, _, findErr := find.Parent(path)
	if findErr != nil {
		dir = root // the path is that of a bag's payload, or its directory was not made
	}
	now := dir.Available()
	if dir.LacksInodes() {
		return fmt.Errorf("%w (no inodes free, %s free)", err, units.Size(now))
	}
	if info, statErr := dir.Stat(); statErr == nil && info.ID.Dev != s.Device {
		return fmt.Errorf("%w (%s free there)", err, units.Size(now))
	}
	free := max(s.Available-s.Created.Load(), now)
	needed := source.TotalBytes.Load() - s.Present.Load()
	if !created {
		needed = s.Needed.Load() - s.Created.Load()
	}
	if !source.ScanDone.Load() || needed <= 0 {
		return fmt.Errorf("%w (%s free)", err, units.Size(now))
	}
	if needed <= free {
		free = now
	}
	return &failure.FullError{Err: err, Needed: needed, Free: free}
}
