package dest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// flusher writes the data of a destination to its device while the run copies, and makes
// checkpoints.
type flusher struct {
	behind  *pipe.Device  // limits the unwritten data of the device; nil for no limit
	group   *pipe.Group   // the unwritten data of closed files; nil if each file is synced separately
	asked   chan struct{} // receives when group needs a flush
	ended   chan struct{} // a channel that is closed after the last checkpoint
	running sync.WaitGroup
}

// MinWriteBehind is the smallest size of a file whose writeback is started while it is being
// written. Shorter files reach the device when their file system is flushed.
const MinWriteBehind = 1 << 20 // bytes

// WritesBehind reports whether WriteBehind starts the writeback of a file of that size.
func (f *flusher) WritesBehind(size int64) bool {
	return f.behind != nil && size >= MinWriteBehind
}

// WriteBehind returns a Behind for a large file of the given path that is about to be written; nil
// if its writeback is not started early.
func (d *Destination) WriteBehind(f *fsys.File, path string, size int64) *pipe.Behind {
	if !d.WritesBehind(size) {
		return nil
	}
	return d.flusher.behind.Behind(f, func(err error) { d.DropUnflushed(path, err) })
}

// AddUnwritten counts the bytes of a closed file that are in the page cache. It waits while the device
// has too much unwritten data.
func (f *flusher) AddUnwritten(size int64) {
	if f.group != nil {
		f.group.Add(size)
	}
}

// Background has the goroutines that run beside the workers of a copy and concern destinations and
// their devices.
type Background struct {
	CheckEvery time.Duration // interval of the checks whether a checkpoint is due
	Unlimited  bool          // true to leave writeback to the kernel
	Window     int64         // bytes of unwritten data per device; 0 for two seconds of its measured speed
	Drop       func() bool   // reports whether written data is dropped from the page cache

	destinations []*Destination
	devices      []*pipe.Gauged
	gauge        *pipe.Gauge
}

// Start starts the goroutines. Each destination has one that makes checkpoints. Each device has one
// for writeback. Another one, the gauge, counts the unwritten bytes.
func (b *Background) Start(ctx context.Context, destinations []*Destination, c *counters.Set) {
	b.destinations = destinations
	devices := map[uint64]*pipe.Gauged{}
	for _, t := range destinations {
		f := &t.flusher
		f.asked, f.ended = make(chan struct{}, 1), make(chan struct{})
		if !b.Unlimited && !t.Root.InMemory() {
			d := devices[t.ID.Dev]
			if d == nil {
				d = &pipe.Gauged{Device: pipe.NewDevice(pipe.DeviceOptions{Window: b.Window, Ranges: t.Root.WritesBehind(), Drop: b.Drop})}
				devices[t.ID.Dev] = d
				b.devices = append(b.devices, d)
			}
			d.Copies++
			d.Shown = append(d.Shown, &t.Progress)
			f.behind = d.Device
			if t.FileSystems.Whole() {
				f.group = d.Join(f.asked)
			}
		}
		f.running.Go(func() { t.makeCheckpoints(b.CheckEvery) })
	}
	var gauged []pipe.Gauged
	for _, d := range b.devices {
		gauged = append(gauged, *d)
	}
	b.gauge = pipe.NewGauge(ctx, gauged, c)
}

// StopCheckpoints ends the goroutines that make checkpoints, and waits for them. It calls waiting
// for each destination before it waits.
func (b *Background) StopCheckpoints(waiting func(*Destination)) {
	for _, d := range b.destinations {
		waiting(d)
		close(d.flusher.ended)
		d.flusher.running.Wait()
	}
}

// EndWriteback stops the gauge and waits for all writeback, so every writeback error is known afterwards.
func (b *Background) EndWriteback() {
	b.gauge.Stop()
	b.Close()
}

// Close ends the goroutines of the devices.
func (b *Background) Close() {
	for _, d := range b.devices {
		d.Close()
	}
}

// makeCheckpoints makes the checkpoints of one destination until flusher.ended is closed:
// whenever one is due, and whenever the limit of unwritten small files asks for a flush.
func (d *Destination) makeCheckpoints(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		asked, now := false, time.Time{}
		select {
		case <-d.flusher.ended:
			return
		case <-d.flusher.asked:
			asked = true
		case now = <-ticker.C:
		}
		if d.Dropped() {
			if d.flusher.group != nil {
				d.flusher.group.Leave() // otherwise workers would wait for its bytes
			}
			continue
		}
		if !asked && !d.Log.Due(now) {
			d.ReportLog()
			continue
		}
		if err := d.Checkpoint(asked); err != nil {
			d.DropUnflushed("", err)
		}
	}
}

// Checkpoint makes everything durable that was copied since the last checkpoint, and records
// that in the log. If flush is set, it flushes the file system even if there is nothing to record.
func (d *Destination) Checkpoint(flush bool) error {
	err := d.Log.Checkpoint(func(g *resume.Group) error {
		if err := d.flushGroup(g, flush); err != nil {
			return err
		}
		if d.flusher.behind != nil && !g.Empty() {
			// The kernel reports a writeback error once. The goroutine that writes to this
			// device may have received it.
			d.flusher.behind.Drain()
		}
		if d.FileSystems.Failed.Load() {
			return ErrReported
		}
		return nil
	})
	if errors.Is(err, ErrReported) {
		return nil
	}
	if err == nil {
		d.ReportLog()
	}
	return err
}

// flushGroup makes the files and names of a group durable. If the group has files, or if flush
// is set, it flushes the file system where that is reliable. It syncs the other files
// separately.
func (d *Destination) flushGroup(g *resume.Group, flush bool) (err error) {
	whole := d.FileSystems.Whole() && (g.Files > 0 || flush)
	if whole {
		// A flush of the file system is faster for many files. For a few it is slower, because
		// it also writes data of other programs.
		var mark int64
		if d.flusher.group != nil {
			mark = d.flusher.group.Mark()
		}
		if d.flusher.behind != nil {
			d.flusher.behind.Hold()
		}
		err = d.FileSystems.SyncFS()
		if d.flusher.behind != nil {
			d.flusher.behind.Release()
		}
		if d.flusher.group != nil {
			d.flusher.group.Flushed(mark)
		}
	}
	if err == nil {
		err = g.SyncParts(whole)
	}
	if err == nil {
		err = d.syncNames(g)
	}
	return err
}

// syncNames syncs the directories of a group and then the drives.
func (d *Destination) syncNames(g *resume.Group) error { return d.FileSystems.SyncDirs(g.Dirs) }

// FlushEnd makes everything that was copied durable, and records that. It reports an error and returns
// false if that fails: then no file at the destination counts as durable. last says that no
// interruption can follow before the log is not needed any more.
func (d *Destination) FlushEnd(last bool, stopped func() bool) bool {
	if d.flusher.behind != nil {
		d.flusher.behind.Drain()
	}
	if d.FileSystems.Failed.Load() || stopped() { // the failure was reported
		return false
	}
	err := d.flush()
	if err == nil {
		if d.flusher.group != nil {
			d.flusher.group.Flushed(d.flusher.group.Mark())
		}
		if d.Name == "" {
			d.Log.SyncedNames(".")
		}
		if last {
			err = d.Log.LastCheckpoint(d.syncNames)
		} else {
			err = d.Log.Checkpoint(d.syncNames)
		}
	}
	if err != nil {
		d.FileSystems.Failed.Store(true)
		d.FailEnd(failure.StageSync, err)
		return false
	}
	d.ReportLog()
	return !d.FileSystems.Failed.Load()
}

// flush flushes to the device everything that was written.
func (d *Destination) flush() error {
	if d.FileSystems.Sync == SyncNone {
		return nil
	}
	whole, err := d.FileSystems.Flush(&d.SyncList)
	if whole || err != nil {
		return err
	}
	if err := d.Root.Sync(); err != nil {
		return err
	}
	return d.SyncMade()
}
