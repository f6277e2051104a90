package pipe

import "slices"

// Group counts the unwritten bytes of small files on one file system. The files are closed,
// and a flush of the file system writes them.
type Group struct {
	device *Device
	flush  chan<- struct{}

	// Guarded by the device's mu. Bytes since Join:
	added   int64
	marked  int64 // the part of added that a flush covers which has begun or ended
	flushed int64 // the part of added that is on the device
	left    bool
}

// Join returns a new Group of the device. When the group should be flushed, it sends to flush
// without waiting; the channel has a buffer of one. The receiver calls Mark, flushes, and
// calls Flushed. It must be another goroutine than those that call Add and Wrote, because
// these wait for it.
func (d *Device) Join(flush chan<- struct{}) *Group {
	g := &Group{device: d, flush: flush}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.groups = append(d.mu.groups, g)
	return g
}

// Add adds n unwritten bytes of a closed file. It waits while the device has too much
// unwritten data.
func (g *Group) Add(n int64) {
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
	d.wait(nil)
}

// ask requests a flush if that would write at least the given number of bytes. Marked bytes do
// not count, because a flush of them has begun.
func (g *Group) ask(least int64) {
	if g.added-g.marked < max(least, 1) {
		return
	}
	select {
	case g.flush <- struct{}{}:
	default: // a flush was requested before
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

// Flushed declares that a flush has ended that began after Mark returned mark. The bytes up to
// mark are on the device, or lost.
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
