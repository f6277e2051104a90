package engine

import (
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// leastBehind is the size of a file from which on writeback follows it while it is
// written. Shorter ones are on the device when their file system is flushed.
const leastBehind = 1 << 20 // bytes

// device is what destinations on one device share.
type device struct {
	pipe.Gauged               // Copies are its destinations
	turn        chan struct{} // held while a long file is written; nil unless the disk spins
}

// fastest is a speed that no spinning disk reaches, in bytes per second: a faster device
// does not spin, even if the system says so.
const fastest = 400 << 20

// takeTurns lets one long file at a time be written to a disk that spins, whose head
// would go to and fro between several. end must be called; the error is the
// context's.
func (r *run) takeTurns(e *entry, movers []*transfer) (end func(), err error) {
	var taken []*device
	end = func() {
		for _, d := range taken {
			<-d.turn
		}
	}
	for _, d := range r.devices { // in one order for all
		if d.turn == nil || d.Rate() > fastest || !d.receives(movers) {
			continue
		}
		e.clock.Wait(timing.Turn, timing.None) // the time counts for the worker that has the turn
		select {
		case d.turn <- struct{}{}:
			taken = append(taken, d)
		case <-r.ctx.Done():
			err = r.ctx.Err()
		}
		e.clock.Resume()
		if err != nil {
			end()
			return func() {}, err
		}
	}
	return end, nil
}

// receives reports whether one of the transfers leads to the device.
func (d *device) receives(movers []*transfer) bool {
	for _, p := range movers {
		if p.open() && p.target.behind == d.Device && !p.sink.Clone {
			return true
		}
	}
	return false
}

// startBackground starts the goroutines that work beside the copy: at every destination one
// that makes checkpoints and one that writes the log, for each device one that waits for
// writeback, and the gauge.
func (r *run) startBackground() {
	devices := map[uint64]*device{}
	for _, t := range r.targets {
		if r.opts.DryRun || t.isDropped() {
			continue
		}
		t.checkpointsEnded = make(chan struct{})
		t.flushAsked = make(chan struct{}, 1)
		if r.opts.DirtyWindow != DirtyWindowOff && !t.root.InMemory() {
			d := devices[t.dev]
			if d == nil {
				d = &device{Gauged: pipe.Gauged{Device: pipe.NewDevice(pipe.DeviceOptions{
					Window: max(r.opts.DirtyWindow, 0),
					Ranges: t.root.WritesBehind(),
					Drop:   r.drops,
				})}}
				if r.opts.rotational(t.root) {
					d.turn = make(chan struct{}, 1)
				}
				devices[t.dev] = d
				r.devices = append(r.devices, d)
			}
			d.Copies++
			d.Shown = append(d.Shown, &t.shown)
			t.behind = d.Device
			if t.wholeFS {
				t.group = d.Join(t.flushAsked)
			}
		}
		t.checkpointers.Go(func() { t.makeCheckpoints(r) })
		t.checkpointers.Go(func() { t.flushLog(r) })
	}
	var gauged []pipe.Gauged
	for _, d := range r.devices {
		gauged = append(gauged, d.Gauged)
	}
	r.gauge = pipe.NewGauge(r.ctx, gauged, r.counters)
}

// showDestinations lets the progress display show each destination if there are several.
func (r *run) showDestinations() {
	if len(r.targets) < 2 {
		return
	}
	var list []*counters.Destination
	for _, t := range r.targets {
		t.shown.Name = t.Given
		if lost := t.lost.Load(); lost != nil {
			text := lost.err.Error()
			t.shown.Dropped.Store(&text)
		}
		list = append(list, &t.shown)
	}
	r.counters.SetDestinations(list)
}

// stopCheckpoints ends the goroutines that startBackground started for the logs.
func (r *run) stopCheckpoints() {
	for _, t := range r.targets {
		if t.checkpointsEnded != nil {
			r.clock.At(timing.Flush, t.place()) // a checkpoint may be under way
			close(t.checkpointsEnded)
			t.checkpointers.Wait()
		}
	}
}

// stopGauge stops counting unwritten bytes.
func (r *run) stopGauge() {
	if r.gauge != nil {
		r.gauge.Stop()
	}
}

// writeBehind lets writeback follow a file that is being written.
func (r *run) writeBehind(e *entry, p *transfer) {
	t := p.target
	if t.behind == nil || e.meta.info.Size < leastBehind {
		return
	}
	path := e.path
	p.sink.Behind = t.behind.Behind(&p.sink.File.File, func(err error) { t.dropUnwritten(r, path, err) })
}

// wrote counts a file that is complete and closed among the unwritten ones, unless
// writeBehind has followed it.
func (r *run) wrote(e *entry, p *transfer) {
	if p.target.group != nil && !p.bypass {
		p.target.group.Add(e.meta.info.Size, e.clock)
	}
}
