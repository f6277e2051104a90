package engine

import (
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// minWriteBehind is the smallest size of a file whose writeback is started while it is being
// written. Shorter files reach the device when their file system is flushed.
const minWriteBehind = 1 << 20 // bytes

// background has the goroutines that run beside the workers and concern devices.
type background struct {
	devices []*pipe.Gauged
	gauge   *pipe.Gauge
}

// endWriteback stops the gauge and waits for all writeback, so every writeback error is known afterwards.
func (b *background) endWriteback() {
	b.gauge.Stop()
	b.closeDevices()
}

// closeDevices ends the goroutines of the devices.
func (b *background) closeDevices() {
	for _, d := range b.devices {
		d.Close()
	}
}

// start starts the goroutines that run beside the workers. Each destination has one
// that makes checkpoints. Each device has one for writeback. Another one, the gauge, counts the
// unwritten bytes.
func (b *background) start(r *comparer) {
	devices := map[uint64]*pipe.Gauged{}
	for _, t := range r.targets {
		if r.opts.DryRun || t.Dropped() {
			continue
		}
		t.checkpointsEnded = make(chan struct{})
		t.flushAsked = make(chan struct{}, 1)
		if r.opts.DirtyWindow != DirtyWindowOff && !t.Root.InMemory() {
			d := devices[t.ID.Dev]
			if d == nil {
				d = &pipe.Gauged{Device: pipe.NewDevice(pipe.DeviceOptions{
					Window: max(r.opts.DirtyWindow, 0),
					Ranges: t.Root.WritesBehind(),
					Drop:   r.cache.Drops,
				})}
				devices[t.ID.Dev] = d
				b.devices = append(b.devices, d)
			}
			d.Copies++
			d.Shown = append(d.Shown, &t.Progress)
			t.behind = d.Device
			if t.FileSystems.Whole() {
				t.group = d.Join(t.flushAsked)
			}
		}
		t.checkpointers.Go(func() { t.makeCheckpoints(&r.reporter) })
	}
	var gauged []pipe.Gauged
	for _, d := range b.devices {
		gauged = append(gauged, *d)
	}
	b.gauge = pipe.NewGauge(r.ctx, gauged, r.counters)
}

// show publishes the destinations to the progress display, if there are several.
func (all targets) show(c *counters.Set) {
	if len(all) < 2 {
		return
	}
	var list []*counters.Destination
	for _, t := range all {
		t.Progress.Name = t.Given
		list = append(list, &t.Progress)
	}
	c.SetDestinations(list)
}

// stopCheckpoints ends the goroutines that make checkpoints, and waits for them.
func (all targets) stopCheckpoints(a *timing.Activity) {
	for _, t := range all {
		if t.checkpointsEnded != nil {
			a.At(t.Place()) // a checkpoint may be running
			close(t.checkpointsEnded)
			t.checkpointers.Wait()
		}
	}
}
