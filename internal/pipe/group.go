package pipe

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/timing"
)

// Group counts the bytes of small files on one file system. The files are closed,
// and their data is unwritten until the file system is flushed.
type Group struct {
	device *Device
	flush  chan<- struct{}

	// Guarded by the device's mu. Bytes since Join:
	added   int64
	marked  int64 // of them, those that a flush covers which has begun or ended
	flushed int64 // of them, those that are on the device
	left    bool
}

// Join makes a Group of the device. flush, with a buffer of one, is sent to
// without waiting when the group should be flushed. The receiver calls Mark, flushes, and
// calls Flushed. It must be another goroutine than those that call Add and Wrote, because
// these wait for it.
func (d *Device) Join(flush chan<- struct{}) *Group {
	g := &Group{device: d, flush: flush}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.groups = append(d.mu.groups, g)
	return g
}

// Add says that n bytes of a file that is closed now are unwritten. It waits
// while the device has too much. The clock is the caller's and may be nil.
func (g *Group) Add(n int64, c *timing.Clock) {
	d := g.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if n <= 0 || g.left || d.mu.stopped {
		return
	}
	g.added += n
	d.mu.pending += n
	d.mu.unwritten += n
	g.ask(d.mu.window / int64(2*len(d.mu.groups)))
	d.wait(nil, c)
}

// ask asks for a flush if that concerns at least the given number of bytes. Bytes that are
// marked already are those of a flush under way.
func (g *Group) ask(least int64) {
	if g.added-g.marked < max(least, 1) {
		return
	}
	select {
	case g.flush <- struct{}{}:
	default: // asked already
	}
}

// Mark returns the bytes added so far. Call it before a flush, and
// end every flush with Flushed, even if it fails: the group does not request another flush
// of the same bytes.
func (g *Group) Mark() int64 {
	d := g.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.marked < g.added && !g.left {
		if g.marked == g.flushed {
			d.mu.flushing++
			d.startClock()
		}
		g.marked = g.added
	}
	return g.marked
}

// Flushed says that a flush has ended that began after Mark returned mark: those
// bytes are on the device, or lost.
func (g *Group) Flushed(mark int64) {
	d := g.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := mark - g.flushed; n > 0 && !g.left {
		g.flushed = mark
		if g.marked == g.flushed {
			d.mu.flushing--
		}
		d.mu.pending -= n
		d.settle(n)
	}
}

// Leave removes the group from the device. No writer waits for its bytes any more.
func (g *Group) Leave() {
	d := g.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.left {
		return
	}
	g.left = true
	d.mu.groups = slices.DeleteFunc(d.mu.groups, func(other *Group) bool { return other == g })
	if g.marked > g.flushed {
		d.mu.flushing--
	}
	n := g.added - g.flushed
	g.added, g.marked = g.flushed, g.flushed
	d.mu.pending -= n
	d.mu.unwritten -= n
	d.measure()
	d.mu.progress.Broadcast()
}
