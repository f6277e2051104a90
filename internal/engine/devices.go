package engine

import (
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// minWriteBehind is the smallest size of a file whose writeback is started while it is being
// written. Shorter files reach the device when their file system is flushed.
const minWriteBehind = 1 << 20 // bytes

// startBackground starts the goroutines that run beside the workers. Each destination has one
// that makes checkpoints. Each device has one for writeback. Another one, the gauge, counts the
// unwritten bytes.
func (r *run) startBackground() {
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
				r.devices = append(r.devices, d)
			}
			d.Copies++
			d.Shown = append(d.Shown, &t.Progress)
			t.behind = d.Device
			if t.FileSystems.Whole() {
				t.group = d.Join(t.flushAsked)
			}
		}
		t.checkpointers.Go(func() { t.makeCheckpoints(r) })
	}
	var gauged []pipe.Gauged
	for _, d := range r.devices {
		gauged = append(gauged, *d)
	}
	r.gauge = pipe.NewGauge(r.ctx, gauged, r.counters)
}

// showDestinations publishes the destinations to the progress display, if there are several.
func (r *run) showDestinations() {
	if len(r.targets) < 2 {
		return
	}
	var list []*counters.Destination
	for _, t := range r.targets {
		t.Progress.Name = t.Given
		list = append(list, &t.Progress)
	}
	r.counters.SetDestinations(list)
}

// stopCheckpoints ends the goroutines that make checkpoints, and waits for them.
func (r *run) stopCheckpoints() {
	for _, t := range r.targets {
		if t.checkpointsEnded != nil {
			r.activity.At(t.Place()) // a checkpoint may be running
			close(t.checkpointsEnded)
			t.checkpointers.Wait()
		}
	}
}
