package walk

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/tally"
)

// Count returns a visitor that adds up the regular files as the totals of c, of
// which each byte will be read so many times. What it cannot see it passes over:
// whoever does the work will report it.
func Count(c *tally.Counters, times int64) Visitor { return counter{c, times} }

type counter struct {
	c     *tally.Counters
	times int64
}

func (s counter) Enter(*Dir) bool { return true }
func (s counter) Leave(*Dir)      {}

func (s counter) Entry(d *Dir, name string, kind fsys.Kind) {
	if kind != fsys.Regular {
		return
	}
	dir, err := d.Acquire()
	if err != nil {
		return
	}
	defer d.Release()
	if info, err := dir.Lstat(name); err == nil {
		s.c.TotalFiles.Add(1)
		s.c.TotalBytes.Add(s.times * info.Size)
	}
}

func (s counter) Failed(*Dir, string, error) {}
