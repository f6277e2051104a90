package pipe

import (
	"context"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// gaugeEvery is the interval of the updates. It is shorter than that of the progress display.
const gaugeEvery = 50 * time.Millisecond

// Gauge keeps the counters of unwritten bytes up to date, and stops the devices when the
// context ends, so that no goroutine waits for them.
type Gauge struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the run
	devices  []Gauged
	counters *counters.Set
	ended    chan struct{}
	watch    sync.WaitGroup
}

// Gauged is a device for a Gauge.
type Gauged struct {
	*Device
	Copies int64
	Shown  []*counters.Destination // destinations on the device
}

func (d *Gauged) show(unwritten int64) {
	for _, s := range d.Shown {
		s.Unwritten.Store(unwritten)
	}
}

// NewGauge returns a Gauge and starts its goroutine. The caller must Stop it.
func NewGauge(ctx context.Context, devices []Gauged, c *counters.Set) *Gauge {
	g := &Gauge{ctx: ctx, devices: devices, counters: c, ended: make(chan struct{})}
	g.watch.Go(g.run)
	return g
}

// Stop ends the goroutine and sets the counter of unwritten bytes to 0.
func (g *Gauge) Stop() {
	close(g.ended)
	g.watch.Wait()
}

func (g *Gauge) run() {
	ticker := time.NewTicker(gaugeEvery)
	defer ticker.Stop()
	stopped := g.ctx.Done()
	for {
		select {
		case <-g.ended:
			g.counters.Unwritten.Store(0)
			for _, d := range g.devices {
				d.show(0)
			}
			return
		case <-stopped:
			for _, d := range g.devices {
				d.Stop()
			}
			stopped = nil
			continue
		case <-ticker.C:
		}
		var most, rate int64
		for _, d := range g.devices {
			// Data that is written twice to one device counts once, as it is read.
			n := d.Unwritten() / d.Copies
			d.show(n)
			if n >= most {
				most, rate = n, d.Rate()/d.Copies
			}
		}
		g.counters.Unwritten.Store(most)
		g.counters.DeviceRate.Store(rate)
	}
}
